"""What the command line prints, and when waiting is over: tables of pure functions."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
import typer

from codehub.cli.failures import Failed
from codehub.cli.fields import describe_fields
from codehub.cli.find import command_argument
from codehub.cli.formatting import ago, harmless, harmless_bytes, seconds, size, span, state
from codehub.cli.output import Output, report_failures
from codehub.cli.tables import fit, pairs, plain
from codehub.cli.wait import Goal, has_arrived, request_and_wait
from codehub.text.terminal import chosen_language

if TYPE_CHECKING:
    from codehub.cli.client import Client

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
WORKSPACE: dict[str, Any] = {
    "id": "1",
    "name": "demo",
    "phase": "STANDBY",
    "display": "STANDBY",
    "operation": "NONE",
    "desired_state": "RUNNING",
    "deleted_at": None,
    "error": None,
    "progress": None,
    "held_up": None,
}
ERROR = {"occurred_at": "t1", "operation": "STARTING", "reason": "Timeout", "message": "…"}


@pytest.mark.parametrize(
    ("changes", "goal", "expected"),
    [
        ({}, Goal("RUNNING"), False),
        ({"phase": "RUNNING"}, Goal("RUNNING"), True),
        ({"phase": "RUNNING", "operation": "STOPPING"}, Goal("RUNNING"), False),
        ({"phase": "ARCHIVED", "desired_state": "PENDING"}, Goal("PENDING"), True),
        ({"phase": "PENDING", "desired_state": "ARCHIVED"}, Goal("ARCHIVED"), False),
        ({"phase": "DELETED", "desired_state": "PENDING"}, Goal("PENDING"), False),
        ({"desired_state": "STANDBY"}, Goal("RUNNING"), "OVERTAKEN"),
        ({"deleted_at": "t"}, Goal("RUNNING"), "OVERTAKEN"),
        ({"phase": "ERROR", "error": ERROR}, Goal("RUNNING"), "WAITED_INTO_ERROR"),
        ({"phase": "ERROR", "error": ERROR}, Goal("RUNNING", old_error_at="t1"), False),
        ({"phase": "ERROR", "error": ERROR}, Goal("RUNNING", old_error_at="t0"), "WAITED_INTO_ERROR"),
        ({"error": ERROR}, Goal("RUNNING"), False),
        ({"deleted_at": "t"}, Goal(None), False),
        ({"deleted_at": "t", "phase": "DELETED"}, Goal(None), True),
        ({}, Goal(None), "OVERTAKEN"),
    ],
)
def test_waiting_ends_when_the_goal_is_reached_or_can_not_be(
    changes: dict[str, Any], goal: Goal, expected: bool | str
) -> None:
    if isinstance(expected, bool):
        assert has_arrived({**WORKSPACE, **changes}, goal) is expected
        return
    with pytest.raises(Failed) as failed:
        has_arrived({**WORKSPACE, **changes}, goal)
    assert failed.value.code == expected


def test_an_error_outside_an_operation_names_no_operation() -> None:
    error = {**ERROR, "operation": "NONE", "reason": "DataLost", "message": "it is gone"}
    with pytest.raises(Failed) as failed:
        has_arrived({**WORKSPACE, "phase": "ERROR", "error": error}, Goal("RUNNING"))
    assert failed.value.message == f"{WORKSPACE['name']} is in ERROR: DataLost: it is gone"


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("never", None)]
)
def test_a_duration_is_read_with_its_unit(text: str, expected: int | None) -> None:
    assert seconds(text, may_be_never=True) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "-5m", "1.5h", "5 m", "1w", "9" * 400, "9" * 5000], ids=lambda text: text[:9]
)
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Failed, match="is no time"):
        seconds(text, may_be_never=False)


@pytest.mark.parametrize(
    ("duration_s", "expected"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_800, "2 d"),
        (-3, "0 s"),
    ],
)
def test_a_duration_is_written_in_one_unit(duration_s: float, expected: str) -> None:
    assert span(duration_s) == expected


def test_an_age_is_counted_by_the_server_s_clock() -> None:
    assert ago("2026-11-16T11:58:00Z", NOW) == "2 min ago"
    assert ago(None, NOW) == "never"
    assert ago("2026-11-16T11:58:00Z", None) == "2026-11-16T11:58:00Z"


def test_sizes_have_units() -> None:
    assert [size(count) for count in (0, 999, 1000, 42_000_000, 7e12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "42.0 MB",
        "7000.0 GB",
    ]


def test_a_state_says_what_is_done_and_how_far_it_is() -> None:
    assert state(WORKSPACE) == "STANDBY"
    assert state({**WORKSPACE, "operation": "STARTING"}) == "STANDBY, starting"
    held_up = {"since": "2026-11-16T11:58:00Z", "message": "no registry"}
    assert state({**WORKSPACE, "operation": "STARTING", "held_up": held_up}) == "STANDBY, starting, held up"
    moving = {"stage": "archive", "done_bytes": 42, "total_bytes": 100}
    assert (
        state({**WORKSPACE, "operation": "ARCHIVING", "progress": moving})
        == "STANDBY, archiving its files 42 %"
    )


def test_what_comes_from_a_workspace_may_colour_a_terminal_and_not_command_it() -> None:
    assert harmless_bytes(b"\x1b[31mred\x1b[0m\tend\r\n") == b"\x1b[31mred\x1b[0m\tend\r\n"
    hostile = b"\x1b]0;title\x07\x1b[2J\x1bc\x08\xc2\x9b31m\x00"
    assert not set(harmless_bytes(hostile)) & {0x1B, 0x07, 0x08, 0x00, 0x9B}
    assert harmless({"message": "a\x1b[31mb", "list": ["\x07", "\u202egpj.exe\u2069"], "n": 1}) == {
        "message": "a[31mb",
        "list": ["", "gpj.exe"],
        "n": 1,
    }


def test_names_and_errors_can_not_command_a_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).show("\x9b2Jdemo\x08 is RUNNING.")
    with pytest.raises(typer.Exit), report_failures(as_json=False):
        raise Failed("WAITED_INTO_ERROR", "\x1b]0;mine\x07\x9b2Jdemo failed", do="\x1bc")
    output = capsys.readouterr()
    assert output.out == "2Jdemo is RUNNING.\n"
    assert output.err == "codehub: ]0;mine2Jdemo failed\n  → c\n"


def test_columns_and_pairs_line_up() -> None:
    assert plain([["A", "B"], ["개발", "x"]]) == "A     B\n개발  x"
    assert (
        pairs({"name": "demo", "nothing": None, "error": "one\ntwo"}) == "name   demo\nerror  one\n       two"
    )


class StubServer:
    """A server in this process: its answers, and a stream of its earlier events."""

    def __init__(self, answers: list[dict[str, Any]], events: list[dict[str, Any]]) -> None:
        self._answers = iter(answers)
        lines = [b"event: heartbeat", b"data: {}", b""]
        for event in events:
            lines += [b"event: workspace_updated", f"data: {json.dumps(event)}".encode(), b""]
        self._lines = iter(line + b"\n" for line in lines)

    def ask(self, _method: str, path: str) -> Any:
        return {"user": {"id": "me"}} if path == "/session" else next(self._answers)

    @contextmanager
    def stream(self, _path: str, **_query: str) -> Iterator["StubServer"]:
        yield self

    def readline(self, _silence_s_max: float | None = None) -> bytes:
        return next(self._lines, b"")


def at(second: int, **changes: Any) -> dict[str, Any]:
    return {**WORKSPACE, "owner": {"id": "me"}, "updated_at": f"2026-11-16T12:00:0{second}Z", **changes}


def test_an_event_older_than_the_known_state_is_skipped() -> None:
    row = at(1)
    server = StubServer([at(2, operation="STARTING")], [row, at(3, phase="RUNNING")])
    states = list(request_and_wait(cast("Client", server), row, lambda: row, None))
    assert [(state["phase"], state["operation"]) for state in states] == [
        ("STANDBY", "NONE"),
        ("STANDBY", "STARTING"),
        ("RUNNING", "NONE"),
    ]


def test_a_wait_that_times_out_tells_the_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    row = at(1)
    server = StubServer([row], [at(2, operation="STARTING")])
    operations: list[str] = []
    monkeypatch.setattr("time.monotonic", lambda: 61.0 if "STARTING" in operations else 0.0)
    states = request_and_wait(cast("Client", server), row, lambda: row, 60)
    with pytest.raises(Failed) as failure:
        operations.extend(workspace["operation"] for workspace in states)
    assert failure.value.code == "TIMED_OUT"
    assert failure.value.details == {"id": "1", "phase": "STANDBY", "operation": "STARTING"}


WIDTHS = {"NAME": 120, "OWNER": 5, "STATE": 17, "IDE": 11, "LAST USED": 9, "SLEEPS": 8, "ID": 36}


@pytest.mark.parametrize(
    ("columns", "name", "others"),
    [
        (400, 120, ["OWNER", "STATE", "IDE", "LAST USED", "SLEEPS", "ID"]),
        (130, 32, ["OWNER", "STATE", "IDE", "LAST USED", "SLEEPS", "ID"]),
        (80, 20, ["OWNER", "STATE", "IDE", "LAST USED", "SLEEPS"]),
        (79, 32, ["OWNER", "STATE", "LAST USED", "SLEEPS"]),
        (50, 13, ["OWNER", "STATE", "LAST USED"]),
        (45, 19, ["OWNER", "STATE"]),
        (30, 12, ["OWNER", "STATE"]),
    ],
)
def test_a_long_name_costs_the_other_columns_nothing(columns: int, name: int, others: list[str]) -> None:
    fitted = fit(WIDTHS, ("ID", "IDE", "SLEEPS"), columns, ("LAST USED",))
    assert fitted == {"NAME": name, **{heading: WIDTHS[heading] for heading in others}}


def test_a_history_is_read_in_40_columns() -> None:
    widths = {"WHEN": 19, "WHAT": 9, "CHANGE": 19, "BY": 10, "WHY": 60}
    assert fit(widths, ("WHAT",), 80, ("BY", "CHANGE")) == {"WHEN": 19, "CHANGE": 19, "BY": 10, "WHY": 26}
    assert fit(widths, ("WHAT",), 40, ("BY", "CHANGE")) == {"WHEN": 19, "WHY": 19}
    assert fit({**widths, "WHY": 3}, ("WHAT",), 57, ("BY", "CHANGE"))["BY"] == 10, (
        "what is short needs no more"
    )


def test_a_name_is_spelled_as_a_shell_takes_it() -> None:
    assert command_argument(WORKSPACE, "demo", "me") == "demo"
    assert command_argument(WORKSPACE, "my demo", "bob") == "'my demo' --owner bob"
    assert command_argument(WORKSPACE, "-demo", "me") == WORKSPACE["id"]


@pytest.mark.parametrize("details", [None, {}, [], ["x"], [{"field": "x"}], "x"])
def test_details_of_no_fields_are_left_to_the_message(details: object) -> None:
    assert describe_fields(details) is None


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "ko_KR.UTF-8", "LC_MESSAGES": "en_GB.UTF-8"}, "en"),
        ({"LANG": "ko_KR.UTF-8", "CODEHUB_LANG": "en"}, "en"),
        ({"LANG": "en_GB.UTF-8", "CODEHUB_LANG": "ko-KR"}, "ko"),
        ({"LANG": "ko", "CODEHUB_LANG": ""}, "ko"),
    ],
)
def test_commands_speak_the_language_of_the_environment(environment: dict[str, str], language: str) -> None:
    assert chosen_language(environment) == language


def test_a_state_is_written_in_the_language_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    starting = {**WORKSPACE, "operation": "STARTING"}
    monkeypatch.setenv("CODEHUB_LANG", "ko")
    assert state(starting) == "STANDBY, 시작하는 중"
    monkeypatch.setenv("CODEHUB_LANG", "en")
    assert state(starting) == "STANDBY, starting"
    assert state({**WORKSPACE, "operation": "WHAT_A_NEWER_SERVER_DOES"}) == "STANDBY"
