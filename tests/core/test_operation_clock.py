"""An operation's time: when it is up, and when its clock stands still."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.workspaces import (
    ABSENT,
    HEALTHY_INSTANCE,
    KEY,
    NEW_OP_ID,
    NOW,
    OP_ID,
    OUR_VOLUME,
    READY,
    UNKNOWN,
    UNREACHABLE,
    ago,
    conditions,
    home,
    observation,
    workspace,
)

from codehub.core.errors import ErrorReason
from codehub.core.judge import judge
from codehub.core.messages import Code, Message, verbatim
from codehub.core.observation import Unobserved
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Act, Complete, Fail, Hold, plan
from codehub.core.recoveries import is_answered
from codehub.core.rules import DEFAULT_RULES
from codehub.core.transitions import (
    Failed,
    Outcome,
    Unreached,
    apply_outcome,
    apply_plan,
    is_worth_writing,
)
from codehub.core.workspace import Status

PURGED = {"deleted_at": ago(10), "purge_at": ago(10)}


STARTING = workspace(Phase.STANDBY, operation=Operation.STARTING, home_ctx=home("v1", dirty=True))


START = Act(Operation.STARTING, Step.START)


def after(
    outcome: Outcome, status: Status = STARTING.status, act: Act = START, jitter: float = 0.0
) -> Status:
    return apply_outcome(status, act, OP_ID, outcome, NOW, spec=STARTING.spec, jitter=jitter)


def test_an_operation_fails_when_its_time_is_up() -> None:
    look = observation(None, OUR_VOLUME)
    row = replace(STARTING, status=replace(STARTING.status, op_started_at=ago(301)))
    verdict = judge(row, look, NOW)
    planned = plan(row.spec, verdict, look, NOW, is_mine=True)
    assert planned == Fail(
        Operation.STARTING,
        ErrorReason.TIMEOUT,
        Message(Code.TOOK_LONGER, {"operation": "STARTING", "seconds": "300"}),
    )
    status = apply_plan(row.spec, verdict.status, planned, NOW, op_id=NEW_OP_ID)
    assert (status.phase, status.operation, status.op_id) == (Phase.ERROR, Operation.NONE, OP_ID)


def test_what_is_complete_is_never_too_late() -> None:
    look = observation(HEALTHY_INSTANCE, OUR_VOLUME)
    row = replace(STARTING, status=replace(STARTING.status, op_started_at=ago(9999)))
    assert plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True) == Complete(Operation.STARTING)


GAPS = [
    # last look, were conditions unknown, how far the clock moves
    (2, False, 0),
    (10, False, 0),
    (3600, False, 3590),
    (3600, True, 3600),
    (4, True, 4),
]


@pytest.mark.parametrize(("last_look_s", "was_unknown", "moved_s"), GAPS)
def test_the_clock_stands_still_while_nobody_can_look(
    last_look_s: int, was_unknown: bool, moved_s: int
) -> None:
    before = conditions(READY, ABSENT, UNKNOWN if was_unknown else ABSENT)
    row = replace(
        STARTING,
        status=replace(
            STARTING.status,
            op_started_at=ago(last_look_s + 10),
            observed_at=ago(last_look_s),
            conditions=before,
        ),
    )
    status = judge(row, observation(None, OUR_VOLUME), NOW).status
    assert status.op_started_at == ago(last_look_s + 10) + timedelta(seconds=moved_s)
    assert status.observed_at == NOW


def test_the_clock_stands_still_while_a_step_waits_for_its_turn_and_that_is_no_news() -> None:
    row = replace(STARTING, status=replace(STARTING.status, op_started_at=ago(60), observed_at=ago(4)))
    status = judge(row, observation(None, OUR_VOLUME), NOW, is_queued=True).status
    assert status.op_started_at == ago(56)
    assert not is_worth_writing(row.status, replace(row.status, op_started_at=ago(56)))


def test_an_operation_that_was_never_looked_at_keeps_its_clock() -> None:
    row = replace(STARTING, status=replace(STARTING.status, observed_at=None))
    assert (
        judge(row, observation(None, OUR_VOLUME), NOW).status.op_started_at == STARTING.status.op_started_at
    )


def test_an_operation_begins_at_the_latest_now_though_the_clock_was_set_back() -> None:
    ahead = replace(STARTING.status, op_started_at=ago(-9 * 3600), observed_at=ago(-9 * 3600))
    row = replace(STARTING, status=ahead)
    assert judge(row, observation(None, OUR_VOLUME), NOW).status.op_started_at == NOW


@pytest.mark.parametrize("asked", [{"recover_at": ago(-3600)}, {"deleted_at": ago(-3600)}])
def test_a_request_of_before_a_clock_was_set_back_answers_no_error_that_comes_later(
    asked: dict[str, object],
) -> None:
    row = replace(STARTING, spec=replace(STARTING.spec, **asked))  # type: ignore[arg-type]  # a table of columns
    refused = Failed(ErrorReason.IMAGE_PULL_FAILED, verbatim("there is no such image"))
    late = Fail(Operation.STARTING, ErrorReason.TIMEOUT, verbatim("it took too long"))
    dead = workspace(Phase.RUNNING, restarts=(NOW,) * DEFAULT_RULES.restarts_max, home_ctx=home("v1"))
    for status in (
        apply_outcome(row.status, START, OP_ID, refused, NOW, spec=row.spec, jitter=0.0),
        apply_plan(row.spec, row.status, late, NOW, op_id=NEW_OP_ID),
        judge(replace(dead, spec=row.spec), observation(None, OUR_VOLUME), NOW).status,
    ):
        assert status.phase is Phase.ERROR
        assert status.error_info is not None
        assert not is_answered(row.spec, status.error_info)


def test_during_an_outage_nothing_fails_however_long_it_lasts() -> None:
    row = replace(STARTING, status=replace(STARTING.status, op_started_at=ago(99999), observed_at=ago(99998)))
    look = observation(UNREACHABLE, OUR_VOLUME)
    verdict = judge(row, look, NOW)
    assert plan(row.spec, verdict, look, NOW, is_mine=True, is_acting=True) == Hold(
        ("infra.container_ready",)
    )
    assert verdict.status.observed_at == ago(99998)


def test_an_unreachable_backend_is_no_failure_and_stops_the_clock() -> None:
    status = after(Unreached(verbatim("no route"), since=ago(30)))
    assert status.error_count == 0
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.UNREACHABLE
    assert status.retry_at == NOW + timedelta(seconds=30)
    assert STARTING.status.op_started_at is not None
    assert status.op_started_at == STARTING.status.op_started_at + timedelta(seconds=60)


def test_archiving_holds_while_the_object_store_is_away() -> None:
    row = workspace(
        Phase.STANDBY, operation=Operation.ARCHIVING, archive_key=KEY, home_ctx=home("v1", dirty=True)
    )
    look = observation(None, OUR_VOLUME, UNREACHABLE)
    assert plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True) == Hold(
        ("storage.archive_ready",), is_held_up=True
    )


def test_archiving_does_not_begin_while_the_object_store_is_away() -> None:
    row = workspace(Phase.STANDBY, DesiredState.ARCHIVED, archive_key=KEY, home_ctx=home("v1", dirty=True))
    look = observation(None, OUR_VOLUME, UNREACHABLE)
    assert plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True) == Hold(("storage.archive_ready",))


def test_a_purge_holds_while_the_object_store_is_away() -> None:
    row = workspace(Phase.PENDING, operation=Operation.DELETING, spec=PURGED)
    look = observation(archives_left=Unobserved.UNREACHABLE)
    assert plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True) == Hold(
        ("storage.archive_ready",), is_held_up=True
    )
