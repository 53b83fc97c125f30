"""Forgetting a workspace whose deletion a dead backend holds up (ADR
0024): who is held up, what becomes of it, what stays.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.workspaces import (
    COMMITTED,
    HEALTHY_INSTANCE,
    KEY,
    NOW,
    OP_ID,
    OUR_VOLUME,
    READY,
    UNKNOWN,
    UNREACHABLE,
    WORKSPACE_ID,
    ago,
    conditions,
    decided,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.decide import NextLook
from codehub.core.errors import ErrorReason
from codehub.core.explain import Ask, explain
from codehub.core.garbage import BackendItem, Thing, sort_garbage
from codehub.core.history import Event, EventKind, events_of_request
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.plan import Begin, Forget, Hold, Rest, Why
from codehub.core.requests import (
    Accepted,
    Refusal,
    Refused,
    Unchanged,
    rule_deletion,
    rule_forgetting,
    rule_undeletion,
)
from codehub.core.rules import DEFAULT_RULES
from codehub.core.workspace import Workspace

TRASH = {"deleted_at": ago(10), "purge_at": ago(-1000)}
OVER = {**TRASH, "purge_at": ago(5)}
FORGOTTEN = {**TRASH, "forgotten_at": ago(1)}
BLIND = conditions(volume=READY, container=UNKNOWN)
VOLUME = conditions(volume=READY)


def held_up(**fields: Any) -> Workspace:
    """A home that is dirty, whose instances can't be listed, in the middle of stepping down."""
    given: dict[str, Any] = {"conditions": BLIND, "home_ctx": home(dirty=True), "spec": TRASH, **fields}
    return workspace(Phase.RUNNING, DesiredState.PENDING, operation=Operation.STOPPING, **given)


CASES = [
    # what it is, what becomes of the request
    (held_up(), Accepted),
    (held_up(spec=OVER), Accepted),
    (
        workspace(Phase.ARCHIVED, operation=Operation.DELETING, conditions=conditions(UNKNOWN), spec=TRASH),
        Accepted,
    ),
    (
        workspace(
            Phase.STANDBY,
            operation=Operation.ARCHIVING,
            conditions=VOLUME,
            error_info=error(ErrorReason.UNREACHABLE, operation=Operation.ARCHIVING),
            spec=TRASH,
        ),
        Accepted,
    ),
    (
        workspace(
            Phase.ERROR,
            conditions=VOLUME,
            error_info=error(ErrorReason.RETRY_EXCEEDED, operation=Operation.DELETING),
            spec=OVER,
        ),
        Accepted,
    ),
    (held_up(spec=FORGOTTEN), Unchanged),
    # Its last archive failed: that is tried again, or purged. Its
    # files are at stake, and its backends answer.
    (
        workspace(
            Phase.ERROR,
            conditions=VOLUME,
            error_info=error(ErrorReason.RETRY_EXCEEDED, operation=Operation.ARCHIVING),
            spec=TRASH,
        ),
        Refusal.INVALID_STATE,
    ),
    (
        workspace(
            Phase.STANDBY,
            operation=Operation.ARCHIVING,
            conditions=VOLUME,
            error_info=error(ErrorReason.ACTION_FAILED, operation=Operation.ARCHIVING),
            spec=TRASH,
        ),
        Refusal.INVALID_STATE,
    ),
    (workspace(Phase.STANDBY, conditions=VOLUME, spec=TRASH), Refusal.INVALID_STATE),
    (workspace(Phase.RUNNING, conditions=BLIND), Refusal.INVALID_STATE),
    (workspace(Phase.DELETED, spec=TRASH), Refusal.WORKSPACE_NOT_FOUND),
]


@pytest.mark.parametrize(("row", "becomes"), CASES)
def test_only_a_deletion_that_is_held_up_can_be_forgotten(row: Workspace, becomes: type | Refusal) -> None:
    ruling = rule_forgetting(row, NOW)
    assert (ruling.code if isinstance(ruling, Refused) else type(ruling)) == becomes
    if isinstance(ruling, Accepted):
        assert ruling.spec == replace(row.spec, forgotten_at=NOW, revision=row.spec.revision + 1)


def test_a_forgotten_workspace_is_deleted_whatever_can_not_be_seen_and_keeps_every_name() -> None:
    row = held_up(spec=FORGOTTEN, archive_key=KEY)
    decision = decided(row, observation(UNREACHABLE, UNREACHABLE, UNREACHABLE))
    status = decision.status
    assert (status.phase, status.operation, status.error_info) == (Phase.DELETED, Operation.NONE, None)
    assert (status.op_id, status.archive_key, status.home_ctx) == (OP_ID, KEY, home(dirty=True))
    assert decision.plan == Forget(row.spec.purge_at, Why.IN_TRASH)
    assert (decision.next_look, decision.depends_on_request) == (NextLook.EVERY_PASS, True)


def test_forgetting_is_a_step_of_its_own_though_a_purge_is_due() -> None:
    row = held_up(spec={**FORGOTTEN, "purge_at": ago(1)}, archive_key=KEY)
    decision = decided(row, observation(None, OUR_VOLUME, COMMITTED))
    assert (decision.status.phase, decision.status.operation) == (Phase.DELETED, Operation.NONE)
    assert decision.plan == Forget(row.spec.purge_at, Why.IN_TRASH)
    assert decision.is_urgent


def test_one_in_error_is_deleted_too() -> None:
    failed = error(ErrorReason.RETRY_EXCEEDED, operation=Operation.DELETING)
    row = workspace(Phase.ERROR, conditions=VOLUME, error_info=failed, spec=FORGOTTEN)
    decision = decided(row, observation(None, OUR_VOLUME))
    assert (decision.status.phase, decision.status.error_info) == (Phase.DELETED, None)
    assert decision.status.conditions.healthy.is_true
    assert decision.plan == Forget(None, Why.FORGOTTEN)
    assert decision.next_look is NextLook.ON_CHANGE


def test_what_the_end_of_the_trash_has_found_to_keep_since_is_not_forgotten_again() -> None:
    lost = error(ErrorReason.DATA_LOST, operation=Operation.DELETING, at=ago(0.5))
    row = workspace(Phase.ERROR, conditions=conditions(), error_info=lost, spec={**FORGOTTEN, **OVER})
    status = decided(row, observation(None, None)).status
    assert (status.phase, status.error_info) == (Phase.ERROR, lost)


@pytest.mark.parametrize("instance", [HEALTHY_INSTANCE, None])
def test_it_stays_deleted_when_its_backend_answers_again_with_everything_there(instance: Any) -> None:
    row = workspace(Phase.DELETED, conditions=BLIND, home_ctx=home(dirty=True), spec=FORGOTTEN)
    decision = decided(row, observation(instance, OUR_VOLUME))
    assert decision.status.phase is Phase.DELETED
    assert decision.plan == Rest(Why.FORGOTTEN)


def test_one_that_nobody_forgot_does_not() -> None:
    row = workspace(Phase.DELETED, conditions=conditions(), home_ctx=home(), spec=TRASH)
    assert decided(row, observation(None, OUR_VOLUME)).status.phase is Phase.STANDBY


def test_when_its_time_in_the_trash_is_over_the_rest_is_deleted_but_only_once_it_is_seen() -> None:
    spec = {**FORGOTTEN, "purge_at": ago(5)}
    row = workspace(Phase.DELETED, conditions=BLIND, archive_key=KEY, spec=spec)
    assert isinstance(decided(row, observation(UNREACHABLE, OUR_VOLUME, COMMITTED)).plan, Hold)
    planned = decided(row, observation(None, OUR_VOLUME, COMMITTED)).plan
    assert planned == Begin(Operation.DELETING, Why.PURGE)


def test_it_can_be_taken_back_and_is_judged_from_what_is_there() -> None:
    row = workspace(Phase.DELETED, conditions=BLIND, home_ctx=home(dirty=True), spec=FORGOTTEN)
    ruling = rule_undeletion(row, NOW)
    assert isinstance(ruling, Accepted)
    assert (ruling.spec.deleted_at, ruling.spec.forgotten_at) == (None, None)
    status = decided(replace(row, spec=ruling.spec), observation(None, OUR_VOLUME)).status
    assert (status.phase, status.home_ctx) == (Phase.STANDBY, home(dirty=True))


def test_what_is_left_of_it_is_reported_and_goes_when_its_time_in_the_trash_is_over() -> None:
    left = [BackendItem(Thing.VOLUME, WORKSPACE_ID, "v1"), BackendItem(Thing.INSTANCE, WORKSPACE_ID, None)]
    row = workspace(Phase.DELETED, conditions=BLIND, spec=FORGOTTEN)
    waits = sort_garbage(left, {row.id: row}, NOW, grace=DEFAULT_RULES.look_gap_max)
    assert (waits.forgotten, waits.removals, waits.unknown) == (tuple(left), (), ())
    over = replace(row, spec=replace(row.spec, purge_at=ago(5)))
    goes = sort_garbage(left, {row.id: over}, NOW, grace=DEFAULT_RULES.look_gap_max)
    assert ([removal.item for removal in goes.removals], goes.forgotten) == (left, ())


def test_in_a_trash_without_end_what_is_left_of_it_waits_for_a_purge() -> None:
    left = [BackendItem(Thing.VOLUME, WORKSPACE_ID, "v1")]
    row = workspace(Phase.DELETED, conditions=BLIND, spec=FORGOTTEN | {"purge_at": None})
    later = NOW + timedelta(days=10_000)
    waits = sort_garbage(left, {row.id: row}, later, grace=DEFAULT_RULES.look_gap_max)
    assert (waits.forgotten, waits.removals) == (tuple(left), ())
    purge = rule_deletion(row, later, trash_s=None, purge=True)
    assert isinstance(purge, Accepted)
    purged = replace(row, spec=purge.spec)
    goes = sort_garbage(left, {row.id: purged}, later, grace=DEFAULT_RULES.look_gap_max)
    assert [removal.item for removal in goes.removals] == left


def test_the_history_says_who_gave_it_up() -> None:
    before = held_up().spec
    events = list(
        events_of_request(
            before, replace(before, forgotten_at=NOW), actor="root", reason=verbatim("Asked to forget it.")
        )
    )
    assert events == [
        Event(EventKind.DELETION, "trash", "forgotten", "root", verbatim("Asked to forget it."))
    ]


def test_only_an_admin_is_told_that_it_can_be_forgotten() -> None:
    def offered(row: Workspace, *, is_admin: bool) -> bool:
        return Ask.FORGET in [action.label for action in explain(row, NOW, is_admin=is_admin).actions]

    assert offered(held_up(), is_admin=True)
    assert not offered(held_up(), is_admin=False)
    assert not offered(workspace(Phase.STANDBY, conditions=VOLUME, spec=TRASH), is_admin=True)
