"""What counts as use, by the measurements of docs/adr/0018."""

from itertools import pairwise

import pytest
from tests.core.test_visit import BACKGROUND, NAVIGATION, PROGRAM, SOCKET

from codehub.core.activity import (
    Traffic,
    Window,
    WorkRule,
    counts_as_use,
    flush_after_s,
    heard_until,
    is_its_own_doing,
    is_its_own_socket,
)
from codehub.core.ides import IdeProfile, ide_profile
from codehub.core.visit import Visit

CODE, JUPYTER, HTTP = (ide_profile(ide) for ide in ("code-server", "jupyterlab", "http"))
PUT = Visit(method="PUT", fetch_mode="cors", fetch_site="same-origin", agent="Mozilla/5.0")


@pytest.mark.parametrize(
    ("profile", "visit", "path", "counts"),
    [
        (CODE, NAVIGATION, "/", True),
        (CODE, PROGRAM, "/", True),
        (CODE, BACKGROUND, "/static/x.js", False),
        (CODE, SOCKET, "/ws", False),
        (CODE, PUT, "/anything", True),
        (JUPYTER, NAVIGATION, "/lab", True),
        (JUPYTER, BACKGROUND, "/api/contents", False),
        (JUPYTER, PUT, "/lab/api/workspaces/default", False),
        (JUPYTER, PUT, "/api/contents/a.ipynb", True),
        (JUPYTER, PUT, "/api/terminals", True),
        (JUPYTER, SOCKET, "/api/kernels/1/channels", False),
        (HTTP, PUT, "/form", True),
        (ide_profile("another"), PUT, "/form", True),
    ],
)
def test_a_request_counts_if_somebody_did_it(profile: object, visit: Visit, path: str, counts: bool) -> None:
    assert counts_as_use(profile, visit, path) is counts  # type: ignore[arg-type]


OWN = b"/home/coder/.local/share/code-server/User/workspaceStorage/1/vscode.lock"
THEIRS = b"/home/coder/project/main.py"


@pytest.mark.parametrize(
    ("profile", "paths", "own"),
    [
        (CODE, [OWN], True),
        (CODE, [OWN, OWN], True),
        (CODE, [OWN, THEIRS], False),
        (CODE, [THEIRS], False),
        (CODE, [], False),
        (HTTP, [OWN], False),
    ],
)
def test_that_the_ide_wrote_its_own_files_is_its_own_doing(
    profile: object, paths: list[bytes], own: bool
) -> None:
    changed = b",".join(b'{"$mid":1,"path":"%s"}' % path for path in paths)
    message = b'\x0c$onFileEvent\x00\x00\x00\xc5[{"changed":[%s]}]' % changed
    assert is_its_own_doing(profile, message) is own  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("profile", "path", "own"),
    [
        (JUPYTER, "/api/events/subscribe", True),
        (JUPYTER, "/terminals/websocket/1", False),
        (JUPYTER, "/api/kernels/1/channels", False),
        (CODE, "/stable-1?reconnection=false", False),
        (HTTP, "/api/events/subscribe", False),
    ],
)
def test_over_some_sockets_an_ide_talks_of_itself(profile: object, path: str, own: bool) -> None:
    assert is_its_own_socket(profile, path) is own  # type: ignore[arg-type]


def test_what_is_typed_is_never_the_ides_own_doing() -> None:
    assert not is_its_own_doing(CODE, b"$acceptModelChanged " + OWN)


def busy_seconds(per_second: dict[int, int], *, threshold: int = 2_000, tabs: int = 1) -> list[int]:
    """Return the seconds at which a window says that somebody is at work."""
    window = Window(threshold)
    return [at for at, size in sorted(per_second.items()) if window.add(size, float(at), tabs=tabs)]


def test_an_untouched_tab_is_never_busy() -> None:
    # Recorded: 1,150 bytes a minute, and 1,260 with an idle terminal.
    assert busy_seconds(dict.fromkeys(range(1000, 4600, 2), 42)) == []


def test_forgotten_tabs_are_no_busier_than_one_and_typing_in_one_of_them_is() -> None:
    idle = dict.fromkeys(range(1000, 4600, 2), 3 * 42)
    assert busy_seconds(idle, tabs=3) == []
    assert busy_seconds(idle | dict.fromkeys(range(2000, 2030), 500), tabs=3)


def test_a_hidden_tabs_single_messages_are_not_busy() -> None:
    assert busy_seconds(dict.fromkeys(range(1000, 4600, 30), 200)) == []


def test_typing_is_busy_at_once_and_not_much_longer() -> None:
    idle = dict.fromkeys(range(1000, 1400, 2), 28)
    typing = idle | dict.fromkeys(range(1100, 1160), 900)
    busy = busy_seconds(typing)
    assert busy[0] <= 1102
    assert 1158 <= busy[-1] <= 1170


def test_two_keys_in_a_minute_are_busy_and_one_is_not() -> None:
    # Recorded: a key in the terminal is about 400 bytes, an idle terminal 1,260 a minute.
    idle = dict.fromkeys(range(1000, 1300, 2), 42)
    assert busy_seconds(idle | {1101: 400, 1131: 400})
    assert not busy_seconds(idle | {1101: 400, 1201: 400})


def test_a_terminal_that_prints_every_two_seconds_stays_busy() -> None:
    # Recorded: 68 frames and 3,300 bytes a minute.
    busy = busy_seconds(dict.fromkeys(range(1000, 1600, 2), 110))
    assert busy[0] <= 1060
    assert max(later - earlier for earlier, later in pairwise(busy)) <= 12


def test_a_long_silence_is_forgotten() -> None:
    window = Window(100)
    assert window.add(101, 1000.0)
    assert not window.add(90, 5000.0)


@pytest.mark.parametrize(("ttl", "after"), [(None, 30), (300, 30), (60, 15), (10, 2.5)])
def test_a_use_is_recorded_within_a_quarter_of_a_short_time_to_live(ttl: int | None, after: float) -> None:
    assert flush_after_s(ttl, 30) == after


def test_what_goes_up_counts_for_tabs_without_a_script_and_the_more_of_them_the_more_it_takes() -> None:
    assert WorkRule(CODE).is_typing(Traffic(bytes_up=2_001, sockets=2), 1000.0)
    assert not WorkRule(CODE).is_typing(Traffic(bytes_up=2_001, sockets=3), 1000.0)
    assert not WorkRule(CODE).is_typing(Traffic(bytes_up=0, sockets=0), 1000.0)
    assert not WorkRule(JUPYTER).is_typing(Traffic(bytes_up=100_000, sockets=1), 1000.0), (
        "frames decide there"
    )


@pytest.mark.parametrize("profile", [CODE, JUPYTER])
def test_output_counts_whoever_hears_it(profile: IdeProfile) -> None:
    rule = WorkRule(profile)
    assert not rule.is_printing(Traffic(prints=12), 1000.0)
    assert rule.is_printing(Traffic(prints=1), 1001.0)
    assert not rule.is_printing(Traffic(), 1002.0)
    assert not rule.is_printing(Traffic(prints=1), 1059.0), "a busy minute with nothing new is over"
    assert not WorkRule(HTTP).is_printing(Traffic(prints=100), 1000.0)


def test_a_script_is_believed_until_well_after_it_should_have_asked_again() -> None:
    assert heard_until(1000.0, 25.0) == 1060.0
    assert heard_until(1000.0, 0.0) == 1010.0
