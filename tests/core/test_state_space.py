"""Every point of the state space, not a sample of it: what must hold for each."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest
from tests.core.space import (
    HAZARDS,
    Deletion,
    Pass,
    Point,
    Thing,
    build,
    error_points,
    healthy_points,
    run_pass,
)
from tests.support.workspaces import decided

from codehub.core.errors import ErrorReason
from codehub.core.operations import LEVEL, MOVES, DesiredState, Operation, Phase, Step
from codehub.core.plan import (
    Abandon,
    Act,
    Begin,
    Complete,
    EndInError,
    Fail,
    Forget,
    Hold,
    Plan,
    Rest,
    Resume,
    TakeOver,
    Wait,
    Why,
)
from codehub.core.workspace import is_condemned

STEPS_MAX = 16
EVERY_WISH = pytest.mark.parametrize("wish", DesiredState)
EVERY_OPERATION = pytest.mark.parametrize("operation", Operation)
EVERY_HAZARD = pytest.mark.parametrize("reason", HAZARDS)


@EVERY_WISH
@EVERY_OPERATION
def test_every_healthy_point_keeps_every_rule(operation: Operation, wish: DesiredState) -> None:
    count = 0
    for point in healthy_points(operation, wish):
        count += 1
        check(point)
    assert count > 1000


@EVERY_WISH
@EVERY_HAZARD
def test_every_point_in_error_keeps_every_rule(reason: ErrorReason, wish: DesiredState) -> None:
    count = 0
    for point in error_points(reason, wish):
        count += 1
        check(point)
    assert count > 1000


def check(point: Point) -> None:
    result = run_pass(point)
    legs[point] = leg_of(result)
    check_the_judge_moves_no_operation(result)
    check_unknown_begins_nothing(point, result)
    check_error_has_no_operation(result)
    check_moves(result)
    check_nothing_is_lost(point, result)
    if not isinstance(result.plan, Hold):
        check_convergence(point)


def check_the_judge_moves_no_operation(result: Pass) -> None:
    before, judged = result.row.status, result.verdict.status
    assert (judged.operation, judged.op_id) == (before.operation, before.op_id)


def check_unknown_begins_nothing(point: Point, result: Pass) -> None:
    decides = {point.volume, point.container}
    if point.volume is not Thing.READY or not point.knows_volume:
        decides.add(point.archive)
    if Thing.UNREACHABLE in decides:
        assert isinstance(result.plan, Hold), point
        assert result.status.phase is point.phase, point
        assert result.status.operation is point.operation, point
        assert result.status.observed_at == result.row.status.observed_at, point


def check_error_has_no_operation(result: Pass) -> None:
    if result.status.phase is Phase.ERROR:
        assert result.status.operation is Operation.NONE
        assert result.status.op_started_at is None
        assert result.status.op_id is not None
        assert not result.status.conditions.healthy.is_true


def check_moves(result: Pass) -> None:
    """Only the moves of spec §2.3; DELETING from anywhere is a purge, or an ERROR with nothing to save."""
    begun, status = result.plan, result.verdict.status
    if not isinstance(begun, Begin):
        return
    move = MOVES[begun.operation]
    if begun.operation is Operation.DELETING:
        assert result.row.spec.deleted_at is not None
        is_lost = status.error_info is not None and status.conditions.volume_ready.is_absent
        assert status.phase in move.sources or is_purge(result) or is_lost
    elif begun.operation is Operation.STOPPING:
        assert status.conditions.container_ready.is_present
    else:
        assert status.phase in move.sources
    if begun.operation is Operation.STARTING:
        assert result.status.home_ctx.dirty


def check_nothing_is_lost(point: Point, result: Pass) -> None:
    """No step destroys the only copy of a home, no step makes a home where one is missed."""
    acts = result.plan
    if not isinstance(acts, Act):
        return
    status = result.verdict.status
    is_saved = not status.home_ctx.dirty and (status.conditions.archive_ready.is_true or not point.has_key)
    match acts.step:
        case Step.DELETE_VOLUME:
            assert is_saved or is_purge(result), point
            assert point.container is Thing.ABSENT, point
            # Whether nobody used it since it was restored is looked at
            # first, and from then on nothing starts on it.
            assert is_condemned(status) or point.operation is not Operation.ARCHIVING, point
        case Step.RESTORE:
            assert is_saved, point
            assert point.container is Thing.ABSENT, point
        case Step.PROVISION | Step.CREATE_EMPTY_ARCHIVE:
            assert is_saved, point
            assert not point.has_key, point
        case Step.PURGE_ARCHIVES:
            assert is_purge(result), point
            assert point.volume is Thing.ABSENT, point
        case Step.START:
            assert status.conditions.volume_ready.is_true, point
            assert status.home_ctx.dirty or point.operation is Operation.STARTING, point
        case Step.ARCHIVE:
            assert status.conditions.volume_ready.is_true, point
            assert point.container is Thing.ABSENT, point
        case Step.DELETE_INSTANCE:
            assert point.operation in (Operation.STOPPING, Operation.DELETING), point


def check_convergence(point: Point) -> None:
    """With actuators that work, a point that is not in ERROR
    reaches its wish in a few steps, and then nothing moves.
    """
    path = trajectory(point)
    assert len(path) <= STEPS_MAX, point
    last = path[-1]
    check_rests(last.then)
    check_direction(path, point)
    if last.phase is Phase.ERROR:
        assert isinstance(last.plan, Wait), point
        # ERROR is what was seen, not what a working actuator has led to:
        # at most a stray container was stopped on the way.
        assert all(leg.plan.operation is Operation.STOPPING for leg in path if isinstance(leg.plan, Act)), (
            point
        )
    elif isinstance(last.plan, Rest | Wait):  # in the trash it waits for the end of its time
        assert is_satisfied(point, last.phase), point
    else:
        assert isinstance(last.plan, Hold), point
        assert point.archive is Thing.UNREACHABLE, point


@cache
def check_rests(point: Point) -> None:
    """What has converged stays converged: the pass after it writes nothing (contract 14)."""
    row, look = build(point)
    at_rest = replace(row, status=run_pass(point).status)
    decision = decided(at_rest, look)
    assert isinstance(decision.plan, Rest | Wait | Hold), point
    assert not decision.is_worth_writing, point
    assert not decision.is_urgent, point


def check_direction(path: tuple["Leg", ...], point: Point) -> None:
    """One direction per wish: once a level was gained (or left) for the wish, none is left (or gained)
    again.
    """
    ups = {leg.is_upward for leg in path if isinstance(leg.plan, Begin) and not leg.is_clearing}
    assert len(ups) <= 1, point


def is_satisfied(point: Point, phase: Phase) -> bool:
    if point.deletion is not Deletion.NONE:
        return phase is Phase.DELETED
    if point.wish is DesiredState.PENDING:
        return phase in (Phase.PENDING, Phase.ARCHIVED)
    return phase.value == point.wish.value


def is_purge(result: Pass) -> bool:
    spec = result.row.spec
    return spec.purge_at is not None and spec.deleted_at is not None and spec.purge_at <= spec.deleted_at


class Leg(NamedTuple):
    """What is remembered of a pass, so that each point is computed once."""

    plan: Plan
    phase: Phase
    is_upward: bool
    is_clearing: bool
    then: Point


legs: dict[Point, Leg] = {}


def leg_of(result: Pass) -> Leg:
    planned = result.plan
    is_upward = is_clearing = False
    if isinstance(planned, Begin):
        target = MOVES[planned.operation].target
        is_upward = target in LEVEL and LEVEL[target] > LEVEL[result.verdict.status.phase]
        # Stopping a container that has no business there is no move of the
        # workspace, nor is getting rid of a condemned volume.
        is_clearing = planned.why in (Why.STRAY_CONTAINER, Why.CONDEMNED)
    return Leg(planned, result.status.phase, is_upward, is_clearing, result.then)


def trajectory(point: Point) -> tuple[Leg, ...]:
    """Return the passes from this point until it stays where it is (or is known to go on for ever)."""
    path: list[Leg] = []
    while len(path) <= STEPS_MAX:
        leg = legs.get(point) or leg_of(run_pass(point))
        legs[point] = leg
        path.append(leg)
        if leg.then == point:
            break
        point = leg.then
    return tuple(path)


def test_the_plan_is_one_sum_type() -> None:
    carried_out = {Begin, TakeOver, Resume, Act, Complete, Abandon, Fail, EndInError, Forget}
    assert set(Plan.__args__) == {Rest, Hold, Wait, *carried_out}
