"""The line that a Job ends with: it comes out as it went in, is short
whatever it tells, and one that tells nothing is no success.
"""

import json

import pytest

from codehub.adapters.objectstore.grants import Grants, PartGrants, UnknownGrants, decode
from codehub.adapters.objectstore.meta import Content
from codehub.adapters.objectstore.outcome import (
    LINE_BYTES_MAX,
    Archived,
    Restored,
    failure_line,
    outcome_of,
    progress_line,
    progress_of,
)
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.ports.archives import LongerThanEstimated
from codehub.ports.backends import ActionFailed, BackendUnreachable, EngineFailed
from codehub.ports.storage import Amount

CONTENT = Content("ab" * 32, 10**12, 10**6, 10**13, 7)


@pytest.mark.parametrize("outcome", [Archived(CONTENT, "abc-12"), Archived(CONTENT, ""), Restored()])
def test_what_was_done_comes_out_as_it_went_in(outcome: Archived | Restored) -> None:
    assert outcome_of(outcome.line()) == outcome


@pytest.mark.parametrize(
    "error",
    [
        ActionFailed("no space left", reason=ErrorReason.ACTION_FAILED),
        ActionFailed(Message(Code.NO_ROOM, {"path": "/x", "inner": Message(Code.HEALTHY)})),
        ActionFailed("damaged", reason=ErrorReason.ARCHIVE_CORRUPTED),
        LongerThanEstimated(123),
        BackendUnreachable("away"),
    ],
)
def test_a_failure_and_an_outage_come_out_as_they_went_in(error: ActionFailed | BackendUnreachable) -> None:
    with pytest.raises(type(error)) as raised:
        outcome_of(failure_line(error))
    assert isinstance(raised.value, ActionFailed | BackendUnreachable)
    assert raised.value.message == error.message
    assert getattr(raised.value, "reason", None) is getattr(error, "reason", None)
    assert getattr(raised.value, "size", None) == getattr(error, "size", None)


@pytest.mark.parametrize("character", ["x", '"', "\x01", "\udcff", "漢", "𝄞"])
def test_the_longest_failure_is_short_and_keeps_the_end_of_its_path(character: str) -> None:
    line = failure_line(ActionFailed(character * 10_000 + "/thesis.txt"))
    written = line.encode(errors="backslashreplace")
    assert len(written) <= LINE_BYTES_MAX
    with pytest.raises(ActionFailed, match=r"/thesis\.txt$"):
        outcome_of(written.decode())


@pytest.mark.parametrize(
    "line",
    [
        *("", "Killed", "[]", "{}", "null", '{"outcome": "done"}', "[" * 100_000),
        '{"outcome": "archived", "sha256": "x", "size": -1, "version": ""}',
        '{"outcome": "archived"}',
        '{"outcome": "failed"}',
        '{"outcome": "longer", "size": "long"}',
    ],
)
def test_a_job_that_does_not_say_how_it_ended_has_failed_by_itself(line: str) -> None:
    with pytest.raises(EngineFailed, match="JobSilent"):
        outcome_of(line)


def test_progress_comes_out_as_it_went_in_and_nothing_else_is_progress() -> None:
    for amount in (Amount("archive", 1, None), Amount("verify", 5, 10)):
        assert progress_of(progress_line(amount)) == amount
    assert progress_of(Restored().line()) is None
    assert progress_of("tar: a line of somebody else's") is None


def test_grants_come_out_as_they_went_in() -> None:
    parts = PartGrants("https://store/part", ["1", "2"], 8 << 20, "https://store/complete")
    for grants in (Grants("k", "https://store/k", parts), Grants("k", "op/k", content=CONTENT)):
        assert decode(grants.encode()) == grants


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({**json.loads(Grants("k", "p").encode()), "format": 2})]
)
def test_grants_that_can_not_be_read_are_refused(text: str) -> None:
    with pytest.raises(UnknownGrants):
        decode(text)
