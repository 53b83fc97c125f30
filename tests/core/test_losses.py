"""Losses: what is gone, what a person may accept, and instances that die again and again."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.workspaces import (
    ABSENT,
    COMMITTED,
    FOREIGN_VOLUME,
    HALF_VOLUME,
    HEALTHY_INSTANCE,
    KEY,
    NEW_OP_ID,
    NOW,
    OP_ID,
    OUR_VOLUME,
    READY,
    UNREACHABLE,
    ago,
    conditions,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.errors import ErrorReason
from codehub.core.judge import judge
from codehub.core.messages import Code, Message, verbatim
from codehub.core.observation import Instance, Observation, Volume
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Act, Begin, Fail, Why, choose_next_operation, plan
from codehub.core.transitions import apply_plan
from codehub.core.workspace import Status

# Contract 11: when a home is lost

LOST = [
    # dirty, archive_key, volume, archive, reason
    (True, None, None, None, ErrorReason.DATA_LOST),
    (True, KEY, None, COMMITTED, ErrorReason.DATA_LOST),
    (True, None, HALF_VOLUME, None, ErrorReason.DATA_LOST),
    (False, KEY, None, None, ErrorReason.DATA_LOST),
    (False, KEY, None, COMMITTED, None),
    (False, None, None, None, None),
    (True, None, OUR_VOLUME, None, None),
    (True, KEY, OUR_VOLUME, None, None),
]


@pytest.mark.parametrize(("dirty", "key", "volume", "archive", "reason"), LOST)
def test_no_silent_loss(
    dirty: bool, key: str | None, volume: object, archive: object, reason: ErrorReason | None
) -> None:
    row = workspace(Phase.STANDBY, home_ctx=home("v1", dirty=dirty), archive_key=key)
    look = Observation(None, volume, archive)  # type: ignore[arg-type]  # a table of looks
    error_info = judge(row, look, NOW).status.error_info
    assert (error_info.reason if error_info else None) == reason


def test_a_loss_that_was_accepted_before_a_clock_was_set_back_is_no_word_about_the_next_one() -> None:
    row = workspace(
        Phase.STANDBY,
        spec={"recover_at": ago(-3600), "recover_accepts_loss": True},
        home_ctx=home("v1", dirty=True),
        archive_key=KEY,
    )
    look = observation(None, None, COMMITTED)
    lost = judge(row, look, NOW).status
    seen_again = judge(replace(row, status=lost), look, NOW).status
    assert seen_again.phase is Phase.ERROR
    assert seen_again.home_ctx.dirty


def test_a_container_that_is_seen_makes_the_home_dirty() -> None:
    row = workspace(Phase.RUNNING, home_ctx=home("v1"))
    assert judge(row, observation(HEALTHY_INSTANCE, OUR_VOLUME), NOW).status.home_ctx.dirty
    assert judge(row, observation(HEALTHY_INSTANCE, UNREACHABLE), NOW).status.home_ctx.dirty


@pytest.mark.parametrize("volume", [FOREIGN_VOLUME, HALF_VOLUME])
def test_what_an_instance_writes_to_a_volume_that_the_row_does_not_know_is_not_lost_silently(
    volume: Volume,
) -> None:
    # As after a dump of the database was restored: it knows an
    # archive, and the home was restored and used since.
    row = workspace(Phase.ARCHIVED, archive_key=KEY, home_ctx=home(None))
    status = judge(row, Observation(HEALTHY_INSTANCE, volume, COMMITTED), NOW).status
    assert status.error_info is not None
    assert (status.error_info.reason, status.home_ctx.dirty) == (ErrorReason.CONTAINER_WITHOUT_VOLUME, True)
    stopped = replace(row, spec=replace(row.spec, recover_at=NOW), status=status)
    error_info = judge(stopped, Observation(None, volume, COMMITTED), NOW).status.error_info
    assert error_info is not None
    assert error_info.reason is ErrorReason.DATA_LOST


def test_recovery_alone_does_not_accept_a_loss() -> None:
    lost = error(ErrorReason.DATA_LOST, at=ago(50))
    row = workspace(
        Phase.ERROR, spec={"recover_at": ago(1)}, error_info=lost, home_ctx=home("v1", dirty=True)
    )
    status = judge(row, observation(), NOW).status
    assert status.phase is Phase.ERROR
    assert status.error_info is not None
    assert (status.error_info.reason, status.error_info.occurred_at) == (ErrorReason.DATA_LOST, NOW)


ACCEPTED = [
    # error, archive_key, archive, dirty and key afterwards, phase
    (ErrorReason.DATA_LOST, None, None, None, Phase.PENDING),
    (ErrorReason.DATA_LOST, KEY, COMMITTED, KEY, Phase.ARCHIVED),
    (ErrorReason.DATA_LOST, KEY, None, None, Phase.PENDING),
    (ErrorReason.ARCHIVE_CORRUPTED, KEY, COMMITTED, None, Phase.PENDING),
]


@pytest.mark.parametrize(("reason", "key", "archive", "key_after", "phase"), ACCEPTED)
def test_accepting_a_loss_goes_on_with_what_is_left(
    reason: ErrorReason, key: str | None, archive: object, key_after: str | None, phase: Phase
) -> None:
    row = workspace(
        Phase.ERROR,
        spec={"recover_at": ago(1), "recover_accepts_loss": True},
        error_info=error(reason, at=ago(50)),
        archive_key=key,
        home_ctx=home("v1", dirty=True),
        error_count=3,
        restarts=(ago(60),),
    )
    status = judge(row, Observation(None, None, archive), NOW).status  # type: ignore[arg-type]  # a table of looks
    assert (status.phase, status.archive_key, status.home_ctx.dirty) == (phase, key_after, False)
    assert (status.error_info, status.error_count, status.restarts) == (None, 0, ())


def test_accepting_a_loss_does_not_forget_that_a_volume_which_is_there_is_unsaved() -> None:
    row = workspace(
        Phase.ERROR,
        spec={"recover_at": ago(1), "recover_accepts_loss": True},
        error_info=error(ErrorReason.TIMEOUT, at=ago(50)),
        home_ctx=home("v1", dirty=True),
    )
    status = judge(row, observation(None, OUR_VOLUME), NOW).status
    assert (status.phase, status.home_ctx.dirty) == (Phase.STANDBY, True)


def test_recovery_from_a_container_without_volume_begins_with_stopping() -> None:
    row = workspace(
        Phase.ERROR,
        spec={"recover_at": ago(1), "recover_accepts_loss": True},
        error_info=error(ErrorReason.CONTAINER_WITHOUT_VOLUME, at=ago(50)),
        home_ctx=home("v1", dirty=True),
    )
    look = observation(HEALTHY_INSTANCE, None)
    verdict = judge(row, look, NOW)
    planned = plan(row.spec, verdict, look, NOW, is_mine=True)
    assert planned == Begin(Operation.STOPPING, Why.STRAY_CONTAINER)
    stopping = replace(row, status=apply_plan(row.spec, verdict.status, planned, NOW, op_id=OP_ID))
    assert plan(row.spec, judge(stopping, look, NOW), look, NOW, is_mine=True) == Act(
        Operation.STOPPING, Step.DELETE_INSTANCE
    )


def test_a_deletion_that_answers_a_loss_has_all_its_tries() -> None:
    row = workspace(
        Phase.ERROR,
        DesiredState.PENDING,
        spec={"deleted_at": ago(1), "purge_at": ago(-1000)},
        error_info=replace(error(ErrorReason.CONTAINER_WITHOUT_VOLUME, at=ago(50)), error_count=4),
        error_count=4,
        home_ctx=home("v1", dirty=True),
    )
    look = observation(HEALTHY_INSTANCE, None)
    verdict = judge(row, look, NOW)
    planned = plan(row.spec, verdict, look, NOW, is_mine=True)
    status = apply_plan(row.spec, verdict.status, planned, NOW, op_id=OP_ID)
    assert (status.operation, status.error_count) == (Operation.DELETING, 0)


# Contract 15: crash loops


def crashed(restarts: tuple[int, ...], left: Instance | None = None, **changes: Any) -> Status:
    row = workspace(
        Phase.RUNNING,
        home_ctx=home("v1", dirty=True),
        conditions=conditions(READY, ABSENT, READY),
        restarts=tuple(ago(seconds) for seconds in restarts),
        **changes,
    )
    return judge(row, observation(left, OUR_VOLUME), NOW).status


def test_a_lost_instance_is_counted_and_started_again() -> None:
    status = crashed((700, 30))
    assert (status.phase, status.restarts) == (Phase.STANDBY, (ago(30), NOW))


def test_the_sixth_loss_in_ten_minutes_is_a_crash_loop() -> None:
    assert crashed((50, 40, 30, 20)).phase is Phase.STANDBY
    status = crashed((50, 40, 30, 20, 10))
    assert status.phase is Phase.ERROR
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.CRASH_LOOP
    assert status.error_info.message == Message(Code.DIED_AGAIN, {"restarts": 5, "minutes": "10"})


def test_a_crash_loop_says_what_ended_the_last_one_where_its_platform_tells() -> None:
    why = Message(Code.OUT_OF_MEMORY, {"memory": "64Mi"})
    ended = Instance(running=False, healthy=False, has_ended=True, why=why)
    error = crashed((50, 40, 30, 20, 10), ended).error_info
    assert error is not None
    died = Message(Code.DIED_AGAIN, {"restarts": 5, "minutes": "10"})
    assert error.message == Message(Code.SEVERAL, {"messages": [died, why]})


def test_losses_that_somebody_wished_for_are_no_crashes() -> None:
    assert crashed((), wish=DesiredState.STANDBY).restarts == ()
    assert crashed((), operation=Operation.STOPPING).restarts == ()


def test_losses_found_at_start_up_are_no_crashes() -> None:
    row = workspace(
        Phase.RUNNING, home_ctx=home("v1", dirty=True), conditions=conditions(READY, ABSENT, READY)
    )
    assert judge(row, observation(None, OUR_VOLUME), NOW, starting_up=True).status.restarts == ()


# Counting


def test_every_entry_into_error_counts_once() -> None:
    row = workspace(Phase.STANDBY, DesiredState.STANDBY, home_ctx=home(dirty=True), error_count=2)
    entered = judge(row, observation(), NOW).status
    assert entered.error_info is not None
    assert (entered.phase, entered.error_count, entered.error_info.error_count) == (Phase.ERROR, 3, 3)
    later = judge(replace(row, status=entered), observation(), NOW).status
    assert later.error_count == 3


def test_another_error_in_error_is_no_second_entry() -> None:
    row = workspace(Phase.ERROR, error_info=error(), error_count=1, home_ctx=home(dirty=True))
    lost = judge(row, observation(), NOW).status
    assert lost.error_info is not None
    assert (lost.error_info.reason, lost.error_count) == (ErrorReason.DATA_LOST, 1)


def test_an_entry_after_an_answer_is_the_first() -> None:
    row = workspace(
        Phase.ERROR, error_info=error(), error_count=4, home_ctx=home(dirty=True), spec={"recover_at": ago(1)}
    )
    assert judge(row, observation(), NOW).status.error_count == 1


def test_a_crash_loop_and_a_time_out_count_too() -> None:
    died = workspace(
        Phase.RUNNING,
        DesiredState.RUNNING,
        home_ctx=home(dirty=True),
        restarts=tuple(ago(n) for n in range(5)),
    )
    assert judge(died, observation(None, OUR_VOLUME), NOW).status.error_count == 1
    late = workspace(Phase.STANDBY, operation=Operation.STARTING, home_ctx=home(), error_count=2)
    failed = Fail(Operation.STARTING, ErrorReason.TIMEOUT, verbatim("too long"))
    assert apply_plan(late.spec, late.status, failed, NOW, op_id=NEW_OP_ID).error_count == 3


# Start-up (spec §5)


@pytest.mark.parametrize(("starting_up", "phase"), [(True, Phase.STANDBY), (False, Phase.RUNNING)])
def test_one_failed_check_is_enough_at_start_up(starting_up: bool, phase: Phase) -> None:
    row = workspace(
        Phase.RUNNING,
        DesiredState.RUNNING,
        conditions=conditions(READY, ABSENT, READY),
        home_ctx=home(dirty=True),
    )
    look = observation(Instance(running=True, healthy=False, failed_checks=1), OUR_VOLUME)
    judged = judge(row, look, NOW, starting_up=starting_up).status
    assert (judged.phase, judged.restarts) == (phase, ())
    if starting_up:
        assert choose_next_operation(row.spec, judged, NOW) == Begin(Operation.STARTING, Why.MOVES_UP)
