"""What a garbage collection tells, in the language of whoever runs it."""

from uuid import UUID

import pytest

from codehub.cli.garbage import format_collection
from codehub.core.garbage import BackendItem, Leftover, Removal, Thing
from codehub.core.messages import Code, Message
from codehub.engine.gc import Collected

SOME = UUID(int=1)
VOLUME = BackendItem(Thing.VOLUME, SOME, "v1")
ARCHIVE = BackendItem(Thing.ARCHIVE, SOME, "a1")
AWAY = Message(Code.DOCKER_UNREACHABLE, {"url": "unix:///d.sock", "text": "No such file"})
COLLECTED = Collected(
    removed=(Removal(ARCHIVE, Leftover.REPLACED),),
    failed=((Removal(VOLUME, Leftover.STRAY), Message(Code.INSTANCE_RUNS_ON_IT)),),
    unknown=(VOLUME,),
    forgotten=(),
    newer=(ARCHIVE,),
    unreachable=(Message(Code.OF_BACKEND, {"backend": "local-docker", "message": AWAY}),),
    leftovers=("upload 7",),
    events=3,
)


def test_a_round_is_told_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEHUB_LANG", "en")
    assert format_collection(COLLECTED, dry_run=False, as_json=False).splitlines() == [
        "removed archive a1: No workspace needs it any more.",
        "could not remove home v1: An IDE runs on it.",
        "unknown, left alone (--orphans removes it): home v1",
        (
            "newer than what its workspace names, so it is kept (is the database older than the homes?): "
            "archive a1"
        ),
        "could not look at local-docker: The Docker engine unix:///d.sock can't be asked: No such file",
        "left over by something that died, goes when it is old enough: upload 7",
        "forgot 3 old events",
    ]


def test_a_round_is_told_in_korean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEHUB_LANG", "ko")
    lines = format_collection(COLLECTED, dry_run=True, as_json=False).splitlines()
    assert lines[:2] == [
        "지울 것 — 보관본 a1: 어떤 워크스페이스에도 더는 필요 없습니다.",
        "지우지 못함 — 홈 v1: 실행 중인 IDE가 사용하고 있습니다.",
    ]
    assert (
        "확인하지 못함 — local-docker: Docker 엔진에 연결할 수 없습니다: unix:///d.sock (No such file)"
        in lines
    )
    assert lines[-1] == "오래된 기록 3개를 지움"
