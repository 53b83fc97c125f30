"""Words: every sentence is there in each language, and the core's own are never written twice."""

import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from uuid import UUID

import pytest

from codehub.core.errors import ErrorReason
from codehub.core.explain import Waiting, WaitsFor
from codehub.core.history import Event, EventKind
from codehub.core.messages import Code, Message, verbatim
from codehub.core.progress import Progress
from codehub.dashboard.detail import without_repetitions
from codehub.dashboard.view_model import EVENT_TONES, TONES, event_tone
from codehub.ports.store import Recorded
from codehub.text import LANGUAGES, section, texts
from codehub.web import domain_text, measures

NOW = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)
# They name what an admin has to look for with Docker's own commands.
_OF_DOCKER = ("reason.Docker", "reason.Container", "reason.NetworkOpen", "reason.MarkOfEngine")
# They name options, backends and settings, as `--purge` and `docker-volume`.
_OF_COMMANDS = ("help.", "cli.", "server.", "doctor.")


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_speak_of_homes_and_ides_where_the_core_speaks_of_volumes_and_instances(language: str) -> None:
    parts = re.compile("volume|instance|container|purge|볼륨|인스턴스|컨테이너", re.IGNORECASE)
    pages = {
        key: re.sub(r"\{\w+\}", "", text)
        for key, text in texts(language).items()
        if not key.startswith(("field.image_ref", *_OF_DOCKER, *_OF_COMMANDS))
    }
    assert [key for key, text in pages.items() if parts.search(text)] == []


@pytest.mark.parametrize(
    ("message", "english", "korean"),
    [
        (
            Message(Code.DIED_AGAIN, {"restarts": 5, "minutes": "7.5"}),
            "Its IDE died again after 5 restarts in 7.5 minutes.",
            "7.5분 동안 5번 다시 시작했지만 IDE가 또 종료되었습니다.",
        ),
        (
            Message(Code.TOOK_LONGER, {"operation": "STARTING", "seconds": "600"}),
            "It took longer than 600 s.",
            "600초 안에 끝나지 않았습니다.",
        ),
        (
            Message(Code.PORT_SHARED, {"port": 3000, "visibility": "signed-in"}),
            "Opened port 3000: “Everybody signed in”.",
            "3000 포트를 열었습니다: “로그인한 모든 사람”.",
        ),
        (
            Message(Code.PORT_SHARED, {"port": 3000, "visibility": "new-one"}),
            "Opened port 3000: “new-one”.",
            "3000 포트를 열었습니다: “new-one”.",
        ),
        (
            Message(
                Code.FAILED_AGAIN,
                {"step": "start", "count": 6, "message": verbatim("no space left\non {device}")},
            ),
            "It failed 6 times, the last time so: no space left\non {device}",
            "6번 실패했습니다. 마지막 이유: no space left\non {device}",
        ),
        (
            Message(
                Code.TOOK_LONGER_LAST_TRY,
                {"operation": "STARTING", "seconds": "600", "message": Message(Code.NO_ANSWER)},
            ),
            "It took longer than 600 s. The last try said: The backend does not answer.",
            "600초 안에 끝나지 않았습니다. 마지막 시도의 메시지: 백엔드가 응답하지 않습니다.",
        ),
        (
            Message(
                Code.SEVERAL, {"messages": [Message(Code.VOLUME_UNKNOWN), Message(Code.INSTANCE_UNKNOWN)]}
            ),
            "Homes could not be listed. IDEs could not be listed.",
            "홈 목록을 확인하지 못했습니다. IDE 목록을 확인하지 못했습니다.",
        ),
        (
            Message(Code.ASKED_TO_CHANGE, {"fields": ["memo", "name"]}),
            "Asked to change memo, name.",
            "설정 변경을 요청했습니다: memo, name.",
        ),
        (verbatim("no space left"), "no space left", "no space left"),
        (Message("WhatComesLater", {"n": 1}), "WhatComesLater n=1", "WhatComesLater n=1"),
    ],
)
def test_a_message_is_told_with_its_facts_in_each_language(
    message: Message, english: str, korean: str
) -> None:
    assert domain_text.message_text(message, "en") == english
    assert domain_text.message_text(message, "ko") == korean


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_is_one_word_for_undoing_restoring_and_recovering(language: str) -> None:
    """Deletions are undone, files are restored from the archive, and a workspace recovers from a problem."""
    others = re.compile(
        r"\b(?:bring|brought|bringing|take|taken)\b.*\bback\b|undelete|되살|살려", re.IGNORECASE
    )
    spoken = (re.sub("`[^`]*`", "", text) for text in texts(language).values())  # commands have their names
    assert [text for text in spoken if others.search(text)] == []
    undo, restore, recover = {"en": ("undo", "restor", "recover"), "ko": ("되돌", "복원", "복구")}[language]
    for key, word in {
        "do.undo": undo,
        "do.undelete": undo,
        "trash.lead": undo,
        "do.restore": restore,
        "doing.RESTORING": restore,
        "do.recover": recover,
        "event.recovery": recover,
        "proxy.archived_why": restore,
        "under_way.RESTORING": restore,
    }.items():
        assert word in texts(language)[key].lower(), key


def test_what_is_waited_for_is_said_in_each_language() -> None:
    waiting = Waiting(WaitsFor.REMEDY, {"remedy": ErrorReason.CRASH_LOOP})
    for language in LANGUAGES:
        remedy = domain_text.remedy_text(ErrorReason.CRASH_LOOP, language)
        assert remedy in domain_text.waiting_text(waiting, language)
    missing = Message(Code.MARK_MISSING, {"mark": "The volume codehub-x"})
    mark = Waiting(WaitsFor.MARK, {"message": missing})
    for language in LANGUAGES:
        assert domain_text.message_text(missing, language) in domain_text.waiting_text(mark, language)
        assert "codehub adopt-engine" in domain_text.waiting_text(mark, language)
    looks = Waiting(WaitsFor.LOOK, {"conditions": list(section("en", "look"))})
    assert domain_text.waiting_text(looks, "en").startswith("a look at its home, its archive, its IDE: ")
    assert domain_text.waiting_text(looks, "ko").startswith("홈, 보관본, IDE 확인.")


@pytest.mark.parametrize(
    ("seconds", "english", "korean"),
    [
        (-3, "just now", "방금"),
        (-59, "59 s ago", "59초 전"),
        (-61, "1 min ago", "1분 전"),
        (7200, "in 2 h", "2시간 뒤"),
        (86_400, "in 1 day", "1일 뒤"),
        (7 * 86_400 - 2, "in 7 days", "7일 뒤"),
        (3599, "in 1 h", "1시간 뒤"),
        (2700, "in 45 min", "45분 뒤"),
        (59, "in 59 s", "59초 뒤"),
        (-7 * 86_400 + 2, "6 days ago", "6일 전"),
        (-3 * 86_400, "3 days ago", "3일 전"),
    ],
)
def test_times_are_told_by_their_largest_unit(seconds: int, english: str, korean: str) -> None:
    at = NOW + timedelta(seconds=seconds)
    assert measures.relative(at, NOW, "en") == english
    assert measures.relative(at, NOW, "ko") == korean


@pytest.mark.parametrize(
    ("seconds", "english", "korean"),
    [
        (-3, "0 s", "0초"),
        (59 * 60 + 59, "59 min", "59분"),
        (3600, "1 h", "1시간"),
        (3659, "1 h", "1시간"),
        (7199, "1 h 59 min", "1시간 59분"),
        (25 * 3600, "1 day 1 h", "1일 1시간"),
        (2 * 86_400 + 59, "2 days", "2일"),
    ],
)
def test_a_countdown_tells_two_units_where_one_would_hide_much(
    seconds: int, english: str, korean: str
) -> None:
    at = NOW + timedelta(seconds=seconds)
    assert measures.left(at, NOW, "en") == english
    assert measures.left(at, NOW, "ko") == korean


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (123_456, "123 KB"),
        (5_300_000_000, "5.3 GB"),
        (9e17, "900000 TB"),
    ],
)
def test_bytes_are_told_as_people_write_them(amount: float, text: str) -> None:
    assert measures.size(amount) == text


def test_progress_says_what_is_known_and_nothing_else() -> None:
    known = Progress("archive", 50_000_000, 200_000_000, 25_000_000.0, 6.0)
    assert measures.progress_text(known, "en") == "Archiving · 50.0 MB of 200 MB · 25.0 MB/s · 6 s left"
    assert measures.percent(known) == 25
    unknown = Progress("pull", 1000, None, None, None)
    assert measures.progress_text(unknown, "en") == "Fetching the image · 1.0 KB"
    assert measures.percent(unknown) is None


def test_a_line_of_the_history_says_what_no_line_beside_it_says() -> None:
    def recorded(at_s: float, kind: EventKind, before: str | None, after: str | None) -> Recorded:
        event = Event(kind, before, after, "controller", verbatim("as it was"))
        return Recorded(0, NOW + timedelta(seconds=at_s), UUID(int=1), event)

    undone = recorded(0, EventKind.DELETION, "trash", None)
    wish = recorded(0.001, EventKind.WISH, "RUNNING", "PENDING")
    ended = recorded(20, EventKind.OPERATION, "STARTING", "NONE")
    slept = recorded(40, EventKind.PHASE, "RUNNING", "STANDBY")
    stopped = recorded(40.05, EventKind.OPERATION, "STOPPING", "NONE")
    assert without_repetitions([stopped, slept, ended, wish, undone]) == [slept, ended, undone]


def test_a_problem_that_is_over_looks_good_and_every_tone_has_its_dot() -> None:
    began, ended = (
        Event(EventKind.ERROR, None, after, "controller", verbatim("")) for after in ("CrashLoop", None)
    )
    assert (event_tone(began), event_tone(ended)) == ("bad", "good")
    styles = files("codehub.dashboard").joinpath("static/codehub.css").read_text("utf-8")
    tones = {*TONES.values(), *EVENT_TONES.values()}
    assert [tone for tone in tones if f".{tone} > .dot" not in styles] == []
