"""What a pass writes: beginnings, ends, outcomes, failures and back-off."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.workspaces import (
    COMMITTED,
    KEY,
    NEW_OP_ID,
    NOW,
    OP_ID,
    OUR_VOLUME,
    ago,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.conditions import Truth
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.judge import judge
from codehub.core.messages import Code, Message, verbatim
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Abandon, Act, Begin, Complete, Fail, TakeOver, Wait, Why, plan
from codehub.core.rules import DEFAULT_RULES
from codehub.core.transitions import (
    Done,
    Failed,
    Outcome,
    apply_outcome,
    apply_plan,
    is_worth_writing,
)
from codehub.core.workspace import ObservedStatus, Status, Workspace, is_condemned

DELETED = {"deleted_at": ago(10), "purge_at": ago(-1000)}
PURGED = {"deleted_at": ago(10), "purge_at": ago(10)}
STARTING = workspace(Phase.STANDBY, operation=Operation.STARTING, home_ctx=home("v1", dirty=True))
START = Act(Operation.STARTING, Step.START)


def begin(row: Workspace, operation: Operation) -> Status:
    return apply_plan(row.spec, row.status, Begin(operation, Why.MOVES_UP), NOW, op_id=NEW_OP_ID)


def complete(row: Workspace) -> Status:
    return apply_plan(row.spec, row.status, Complete(row.status.operation), NOW, op_id=NEW_OP_ID)


def after(
    outcome: Outcome, status: Status = STARTING.status, act: Act = START, jitter: float = 0.0
) -> Status:
    return apply_outcome(status, act, OP_ID, outcome, NOW, spec=STARTING.spec, jitter=jitter)


# Beginning


def test_beginning_records_the_operation_under_a_new_id_and_does_no_more() -> None:
    row = workspace(Phase.PENDING)
    assert begin(row, Operation.PROVISIONING) == replace(
        row.status, operation=Operation.PROVISIONING, op_id=NEW_OP_ID, op_started_at=NOW
    )


@pytest.mark.parametrize("operation", [Operation.PROVISIONING, Operation.RESTORING])
def test_beginning_to_make_a_volume_forgets_the_old_one(operation: Operation) -> None:
    assert begin(workspace(home_ctx=home("v1", marker=KEY)), operation).home_ctx == home(None)


def test_beginning_to_start_marks_the_home_dirty() -> None:
    assert begin(
        workspace(Phase.STANDBY, home_ctx=home("v1", marker=KEY)), Operation.STARTING
    ).home_ctx == home("v1", marker=KEY, dirty=True)


def test_deleting_from_error_leaves_error_in_the_same_write() -> None:
    row = workspace(Phase.ERROR, spec=DELETED, error_info=error(ErrorReason.DATA_LOST, at=ago(50)))
    status = begin(row, Operation.DELETING)
    assert (status.phase, status.operation, status.error_info) == (Phase.PENDING, Operation.DELETING, None)
    assert status.conditions.healthy.is_true


def test_an_operation_of_another_process_is_taken_over_under_a_new_id_before_acting() -> None:
    look = observation(None, OUR_VOLUME)
    verdict = judge(STARTING, look, NOW)
    planned = plan(STARTING.spec, verdict, look, NOW, is_mine=False)
    assert planned == TakeOver(Operation.STARTING)
    status = apply_plan(STARTING.spec, verdict.status, planned, NOW, op_id=NEW_OP_ID)
    assert (status.op_id, status.op_started_at) == (NEW_OP_ID, STARTING.status.op_started_at)


def test_what_only_waits_writes_nothing() -> None:
    assert (
        apply_plan(STARTING.spec, STARTING.status, Wait(NOW, Why.BACKING_OFF), NOW, op_id=NEW_OP_ID)
        == STARTING.status
    )


# Completing and abandoning


def test_completion_forgets_failures_and_keeps_the_id() -> None:
    row = replace(
        STARTING,
        status=replace(
            STARTING.status,
            error_count=2,
            error_info=error(ErrorReason.ACTION_FAILED),
            retry_at=NOW,
        ),
    )
    status = complete(row)
    assert (status.operation, status.op_id, status.op_started_at) == (Operation.NONE, OP_ID, None)
    assert (status.error_count, status.error_info, status.retry_at) == (0, None, None)


def test_completing_an_archive_forgets_the_volume() -> None:
    row = workspace(
        Phase.ARCHIVED, operation=Operation.ARCHIVING, archive_key=KEY, home_ctx=home("v1", marker="m")
    )
    assert complete(row).home_ctx.volume_id is None


def test_completing_a_deletion_keeps_the_last_archive() -> None:
    status = complete(workspace(Phase.ARCHIVED, operation=Operation.DELETING, spec=DELETED, archive_key=KEY))
    assert (status.phase, status.phase_changed_at, status.archive_key) == (Phase.DELETED, NOW, KEY)


def test_completing_a_purge_keeps_nothing() -> None:
    status = complete(workspace(Phase.ARCHIVED, operation=Operation.DELETING, spec=PURGED, archive_key=KEY))
    assert (status.phase, status.archive_key) == (Phase.DELETED, None)


@pytest.mark.parametrize(
    ("abandoned", "count"),
    [
        (Abandon(Operation.ARCHIVING, Why.IMPOSSIBLE), 2),
        (Abandon(Operation.ARCHIVING, Why.GIVEN_UP, forgives=True), 0),
    ],
)
def test_an_abandoned_operation_still_counts_its_failures_unless_a_person_gave_it_up(
    abandoned: Abandon, count: int
) -> None:
    row = workspace(Phase.STANDBY, operation=Operation.ARCHIVING, error_count=2)
    status = apply_plan(row.spec, row.status, abandoned, NOW, op_id=NEW_OP_ID)
    assert (status.operation, status.op_id, status.error_count) == (Operation.NONE, OP_ID, count)


# Outcomes of actuators


def test_success_of_an_actuator_completes_nothing() -> None:
    assert after(Done()) == STARTING.status


def test_what_an_actuator_made_is_remembered() -> None:
    restoring = workspace(Phase.ARCHIVED, operation=Operation.RESTORING, archive_key=KEY)
    act = Act(Operation.RESTORING, Step.RESTORE)
    assert after(Done(volume_id="v9", restore_marker=KEY), restoring.status, act).home_ctx == home(
        "v9", marker=KEY
    )


def test_storing_the_archive_key_and_clearing_dirty_are_one_write() -> None:
    archiving = workspace(Phase.STANDBY, operation=Operation.ARCHIVING, home_ctx=home("v1", dirty=True))
    status = after(Done(archive_key=KEY), archiving.status, Act(Operation.ARCHIVING, Step.ARCHIVE))
    assert (status.archive_key, status.home_ctx.dirty, status.operation) == (KEY, False, Operation.ARCHIVING)
    assert status.conditions.archive_ready.status is Truth.UNKNOWN


@pytest.mark.parametrize(
    "changed", [{"op_id": NEW_OP_ID}, {"operation": Operation.NONE, "op_started_at": None}]
)
def test_the_outcome_of_an_operation_that_is_no_longer_this_one_changes_nothing(
    changed: dict[str, object],
) -> None:
    status = replace(STARTING.status, **changed)  # type: ignore[arg-type]  # a table of columns
    assert after(Failed(ErrorReason.ACTION_FAILED, verbatim("late")), status) == status


def test_three_retries_then_error() -> None:
    status = STARTING.status
    for attempt in (1, 2, 3):
        status = after(Failed(ErrorReason.ACTION_FAILED, verbatim("no")), status)
        assert (status.error_count, status.operation) == (attempt, Operation.STARTING)
        assert status.error_info is not None
        assert not status.error_info.is_terminal
        assert status.retry_at is not None
    status = after(Failed(ErrorReason.ACTION_FAILED, verbatim("no")), status)
    assert (status.phase, status.operation, status.op_id) == (Phase.ERROR, Operation.NONE, OP_ID)
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.RETRY_EXCEEDED
    facts = {"step": "start", "count": 4, "message": verbatim("no")}
    assert status.error_info.message == Message(Code.FAILED_AGAIN, facts)
    assert status.retry_at is None


def test_what_is_the_engine_s_own_failure_is_tried_until_the_operation_s_time_is_up() -> None:
    status = STARTING.status
    for _ in range(2000):
        status = after(
            Failed(ErrorReason.ACTION_FAILED, verbatim("its layer is busy"), is_engines_own=True), status
        )
    assert (status.phase, status.operation) == (Phase.STANDBY, Operation.STARTING)
    assert status.retry_at is not None
    late = NOW + timedelta(minutes=5, seconds=1)
    row = replace(STARTING, status=replace(status, observed_at=late))
    look = observation(None, OUR_VOLUME)
    planned = plan(row.spec, judge(row, look, late), look, late, is_mine=True)
    assert isinstance(planned, Fail)
    facts = {"operation": "STARTING", "seconds": "300", "message": verbatim("its layer is busy")}
    assert planned.message == Message(Code.TOOK_LONGER_LAST_TRY, facts)


@pytest.mark.parametrize("reason", [reason for reason in ErrorReason if reason.is_terminal])
def test_a_terminal_failure_ends_in_error_at_once(reason: ErrorReason) -> None:
    status = after(Failed(reason, verbatim("no"), {"image": "x"}))
    assert status.phase is Phase.ERROR
    assert status.error_info == ErrorInfo(reason, verbatim("no"), Operation.STARTING, 1, NOW, {"image": "x"})
    assert status.previous_status is ObservedStatus.STANDBY
    assert status.conditions.healthy.reason == reason


def test_terminal_are_all_but_two() -> None:
    assert {reason for reason in ErrorReason if not reason.is_terminal} == {
        ErrorReason.ACTION_FAILED,
        ErrorReason.UNREACHABLE,
    }


BACKOFF = [
    (1, 0.0, 1.0),
    (1, 1.0, 2.0),
    (2, 1.0, 4.0),
    (3, 1.0, 8.0),
    (5, 1.0, 30.0),
    (50, 1.0, 30.0),
    (50, 0.0, 1.0),
]


@pytest.mark.parametrize(("count", "jitter", "seconds"), BACKOFF)
def test_back_off_doubles_within_its_bounds(count: int, jitter: float, seconds: float) -> None:
    assert DEFAULT_RULES.backoff(count, jitter) == timedelta(seconds=seconds)


def test_nothing_is_done_before_the_back_off_is_over() -> None:
    look = observation(None, OUR_VOLUME)
    row = replace(STARTING, status=replace(STARTING.status, retry_at=NOW + timedelta(seconds=1)))
    planned = plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True)
    assert planned == Wait(NOW + timedelta(seconds=1), Why.BACKING_OFF)
    later = NOW + timedelta(seconds=1)
    assert plan(row.spec, judge(row, look, later), look, later, is_mine=True) == START


def test_a_back_off_longer_than_any_was_written_by_a_clock_that_has_been_set_back() -> None:
    look = observation(None, OUR_VOLUME)
    row = replace(STARTING, status=replace(STARTING.status, retry_at=NOW + timedelta(hours=9)))
    assert plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True) == START


# Condemned volumes, and errors that were answered


def test_nothing_is_started_on_a_condemned_volume() -> None:
    row = workspace(Phase.STANDBY, archive_key=KEY, home_ctx=home("v1"))
    look = observation(None, OUR_VOLUME, COMMITTED)
    planned = plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True)
    assert planned == Begin(Operation.ARCHIVING, Why.CONDEMNED)


def test_archiving_what_is_saved_already_condemns_its_volume_before_it_is_deleted() -> None:
    row = workspace(
        Phase.STANDBY, operation=Operation.ARCHIVING, archive_key=KEY, home_ctx=home("v1", marker=KEY)
    )
    look = observation(None, OUR_VOLUME, COMMITTED)
    planned = plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True)
    assert planned == Act(Operation.ARCHIVING, Step.ARCHIVE)
    status = after(Done(archive_key=KEY), row.status, planned)
    assert is_condemned(status)
    again = replace(row, status=status)
    planned = plan(again.spec, judge(again, look, NOW), look, NOW, is_mine=True)
    assert planned == Act(Operation.ARCHIVING, Step.DELETE_VOLUME)


def test_an_error_that_was_seen_before_keeps_its_time() -> None:
    lost = error(ErrorReason.DATA_LOST, at=ago(50))
    row = workspace(Phase.ERROR, error_info=lost, home_ctx=home("v1", dirty=True))
    assert judge(row, observation(), NOW).status.error_info == lost


def test_a_deletion_clears_an_older_error_and_what_is_there_steps_down() -> None:
    row = workspace(Phase.ERROR, spec=DELETED, error_info=error(at=ago(50)), home_ctx=home("v1", dirty=True))
    look = observation(None, OUR_VOLUME)
    assert plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True) == Begin(
        Operation.ARCHIVING, Why.DELETION_STEPS_DOWN
    )


# Contract 14: what has converged is not written again


def test_a_look_that_changes_nothing_is_not_written() -> None:
    row = workspace(Phase.STANDBY, DesiredState.STANDBY, home_ctx=home("v1"))
    settled = judge(row, observation(None, OUR_VOLUME), NOW).status
    again = judge(
        replace(row, status=settled), observation(None, OUR_VOLUME), NOW + timedelta(hours=1)
    ).status
    assert is_worth_writing(row.status, settled)
    assert not is_worth_writing(settled, again)


@pytest.mark.parametrize(("seconds", "is_written"), [(2, False), (4.9, False), (5, True), (60, True)])
def test_while_an_operation_runs_that_somebody_looks_is_written_now_and_then(
    seconds: float, *, is_written: bool
) -> None:
    look = observation(None, OUR_VOLUME)
    first = judge(STARTING, look, NOW).status
    second = judge(replace(STARTING, status=first), look, NOW + timedelta(seconds=seconds)).status
    assert is_worth_writing(first, second) == is_written


def test_the_first_look_at_an_operation_is_written() -> None:
    begun = replace(STARTING.status, observed_at=None)
    assert is_worth_writing(begun, replace(begun, observed_at=NOW))
    assert not is_worth_writing(begun, begun)
