"""One decision: what is recorded, what it depends on, and when it is looked at again."""

import ast
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.workspaces import (
    COMMITTED,
    HEALTHY_INSTANCE,
    KEY,
    NEW_OP_ID,
    NOT_READY,
    NOW,
    OP_ID,
    OUR_VOLUME,
    READY,
    UNREACHABLE,
    ago,
    conditions,
    decided,
    error,
    home,
    observation,
    workspace,
)

import codehub.core
from codehub.core.ceilings import Ceilings
from codehub.core.decide import FinishedStep, NextLook
from codehub.core.errors import ErrorReason
from codehub.core.history import EventKind
from codehub.core.messages import Code, Message, verbatim
from codehub.core.observation import Observation
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import (
    Act,
    Begin,
    Complete,
    EndInError,
    Forget,
    Hold,
    Plan,
    Rest,
    Resume,
    TakeOver,
    Wait,
    Why,
    choose_next_operation,
)
from codehub.core.transitions import Done, Failed
from codehub.core.workspace import Workspace

PURGE_AT = NOW + timedelta(days=1)
TRASH = {"deleted_at": ago(10), "purge_at": PURGE_AT}
KEPT = {"deleted_at": ago(10)}
ASLEEP = observation(None, OUR_VOLUME)
STARTING = workspace(Phase.STANDBY, operation=Operation.STARTING, home_ctx=home("v1", dirty=True))
START = Act(Operation.STARTING, Step.START)
LOST = workspace(Phase.STANDBY, operation=Operation.STARTING, home_ctx=home("v1", dirty=True))

# The row, what is seen, what else is known; the plan, from when on
# each pass looks, whether one should follow at once.
NEXT_LOOK = [
    (
        workspace(Phase.STANDBY, DesiredState.STANDBY, home_ctx=home("v1")),
        ASLEEP,
        {},
        Rest,
        NextLook.ON_CHANGE,
        False,
    ),
    (
        workspace(Phase.ERROR, error_info=error(ErrorReason.TIMEOUT)),
        ASLEEP,
        {},
        Wait,
        NextLook.ON_CHANGE,
        False,
    ),
    (
        workspace(Phase.STANDBY, DesiredState.STANDBY, home_ctx=home("v1")),
        observation(UNREACHABLE),
        {},
        Hold,
        NextLook.EVERY_PASS,
        False,
    ),
    (
        workspace(Phase.STANDBY, DesiredState.RUNNING, home_ctx=home("v1")),
        ASLEEP,
        {},
        Begin,
        NextLook.EVERY_PASS,
        True,
    ),
    (
        workspace(Phase.STANDBY, DesiredState.RUNNING, archive_key=KEY),
        observation(),
        {},
        Wait,
        NextLook.ON_CHANGE,
        False,
    ),
    (STARTING, ASLEEP, {}, Act, NextLook.EVERY_PASS, False),
    (STARTING, ASLEEP, {"is_mine": False}, TakeOver, NextLook.EVERY_PASS, True),
    (STARTING, observation(HEALTHY_INSTANCE, OUR_VOLUME), {}, Complete, NextLook.EVERY_PASS, False),
    (LOST, observation(), {}, EndInError, NextLook.ON_CHANGE, True),
    (
        workspace(Phase.DELETED, DesiredState.PENDING, spec=TRASH, archive_key=KEY),
        observation(None, None, COMMITTED),
        {},
        Wait,
        NextLook.EVERY_PASS,
        False,
    ),
    (
        workspace(Phase.DELETED, DesiredState.PENDING, spec=KEPT, archive_key=KEY),
        observation(None, None, COMMITTED),
        {},
        Wait,
        NextLook.ON_CHANGE,
        False,
    ),
    (
        workspace(Phase.DELETED, DesiredState.PENDING, spec=TRASH),
        observation(),
        {},
        Rest,
        NextLook.ON_CHANGE,
        False,
    ),
    (
        workspace(
            Phase.ARCHIVED,
            DesiredState.PENDING,
            spec=TRASH,
            operation=Operation.DELETING,
            archive_key=KEY,
        ),
        observation(None, None, COMMITTED),
        {},
        Complete,
        NextLook.EVERY_PASS,
        False,
    ),
    (
        workspace(
            Phase.STANDBY, DesiredState.PENDING, spec={**TRASH, "forgotten_at": ago(1)}, archive_key=KEY
        ),
        observation(UNREACHABLE),
        {},
        Forget,
        NextLook.EVERY_PASS,
        False,
    ),
]


@pytest.mark.parametrize(("row", "look", "known", "planned", "next_look", "is_urgent"), NEXT_LOOK)
def test_when_it_is_looked_at_again(
    row: Workspace,
    look: Observation,
    known: dict[str, Any],
    planned: type[Plan],
    next_look: NextLook,
    is_urgent: bool,
) -> None:
    decision = decided(row, look, **known)
    assert isinstance(decision.plan, planned)
    assert (decision.next_look, decision.is_urgent) == (next_look, is_urgent)


def test_a_pause_between_two_tries_is_looked_at_in_every_pass_for_its_clock_runs_only_then() -> None:
    waiting = replace(
        STARTING.status, retry_at=NOW + timedelta(seconds=5), error_info=error(ErrorReason.ACTION_FAILED)
    )
    decision = decided(replace(STARTING, status=waiting), ASLEEP)
    assert decision.plan == Wait(waiting.retry_at, Why.BACKING_OFF)
    assert (decision.next_look, decision.is_urgent) == (NextLook.EVERY_PASS, False)


def test_what_was_judged_an_error_ends_its_operation_in_the_same_write() -> None:
    decision = decided(LOST, observation())
    status = decision.status
    assert (status.phase, status.operation, status.op_id) == (Phase.ERROR, Operation.NONE, OP_ID)
    assert (status.op_started_at, status.retry_at, status.held_up) == (None, None, None)
    assert status.error_info is not None
    assert (status.error_info.reason, status.error_info.operation) == (
        ErrorReason.DATA_LOST,
        Operation.STARTING,
    )
    assert (decision.workspace_id, decision.plan) == (LOST.id, EndInError(Operation.STARTING))
    reasons = [event.reason for event in decision.events("c1") if event.kind is EventKind.OPERATION]
    assert reasons == [Message(Why.NEEDS_A_PERSON)]


# Finished steps


@pytest.mark.parametrize(
    ("act", "op_id", "is_recorded"),
    [
        (START, OP_ID, True),
        (START, NEW_OP_ID, False),
        (Act(Operation.STOPPING, Step.DELETE_INSTANCE), OP_ID, False),
    ],
)
def test_only_the_outcome_of_the_planned_step_is_recorded(act: Act, op_id: Any, is_recorded: bool) -> None:
    failed = Failed(ErrorReason.ACTION_FAILED, verbatim("it broke"))
    decision = decided(STARTING, ASLEEP, finished=FinishedStep(act, op_id, failed))
    assert decision.plan == START
    assert decision.records_outcome is is_recorded
    assert decision.status.error_count == (1 if is_recorded else 0)
    if is_recorded:
        assert decision.status.retry_at == NOW + timedelta(seconds=1.5)


def test_an_outcome_counts_for_nothing_once_the_end_is_seen() -> None:
    finished = FinishedStep(START, OP_ID, Done())
    decision = decided(STARTING, observation(HEALTHY_INSTANCE, OUR_VOLUME), finished=finished)
    assert (decision.plan, decision.records_outcome) == (Complete(Operation.STARTING), False)


# What is written


def test_what_has_converged_is_not_written() -> None:
    row = workspace(Phase.STANDBY, DesiredState.STANDBY, home_ctx=home("v1"))
    settled = replace(row, status=decided(row, ASLEEP).status)
    decision = decided(settled, ASLEEP, NOW + timedelta(hours=1))
    assert (decision.is_worth_writing, decision.is_quiet) == (False, True)


def test_what_begins_must_meet_the_request_that_it_was_begun_for() -> None:
    assert decided(
        workspace(Phase.STANDBY, DesiredState.RUNNING, home_ctx=home("v1")), ASLEEP
    ).depends_on_request
    assert not decided(STARTING, observation(HEALTHY_INSTANCE, OUR_VOLUME)).depends_on_request


def test_what_is_tried_again_must_meet_the_request_too_and_is_looked_at_at_once() -> None:
    failed = decided(
        STARTING,
        ASLEEP,
        finished=FinishedStep(START, OP_ID, Failed(ErrorReason.ACTION_FAILED, verbatim("it broke"))),
    )
    later = NOW + timedelta(seconds=2)
    decision = decided(replace(STARTING, status=failed.status), ASLEEP, later)
    assert decision.plan == Resume(Operation.STARTING)
    assert (decision.depends_on_request, decision.is_urgent) == (True, True)


# Ownership


def test_only_transitions_writes_an_operation() -> None:
    """Judge, plan and the rest read it: whoever looks for what begins or ends an operation reads one
    module.
    """
    writers = {
        path.name
        for path in Path(codehub.core.__path__[0]).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _is_write(node)
    }
    assert writers == {"transitions.py"}


def _is_write(call: ast.Call) -> bool:
    makes = call.func.id if isinstance(call.func, ast.Name) else ""
    return makes in ("replace", "Status") and any(
        keyword.arg in ("operation", "op_id") for keyword in call.keywords
    )


def test_the_history_says_with_what_it_starts_where_that_is_less_than_was_asked_for() -> None:
    row = workspace(Phase.STANDBY, home_ctx=home())
    ceilings = Ceilings(resources=replace(row.spec.resources, memory_mb=512))
    (event,) = decided(row, ASLEEP, ceilings=ceilings).events("c1")
    assert event.after == Operation.STARTING
    assert (event.reason.code, event.reason.facts["memory"]) == (Code.CLAMPED, 512)
    (plain,) = decided(row, ASLEEP).events("c1")
    assert plain.reason == Message(Why.MOVES_UP)


def test_what_runs_on_a_volume_that_is_not_its_own_is_stopped_before_a_deletion_goes_on() -> None:
    """What it writes may make that volume the only copy (simulator, seed 10005)."""
    row = workspace(
        Phase.ARCHIVED,
        DesiredState.PENDING,
        spec={"deleted_at": ago(1), "purge_at": PURGE_AT},
        conditions=conditions(volume=NOT_READY, archive=READY, container=READY),
        archive_key=KEY,
    )
    chosen = choose_next_operation(row.spec, row.status, NOW)
    assert chosen == Begin(Operation.STOPPING, Why.STRAY_CONTAINER)
    alone = replace(row.status, conditions=conditions(volume=NOT_READY, archive=READY))
    assert choose_next_operation(row.spec, alone, NOW) == Begin(Operation.DELETING, Why.DELETION)
