"""Wishes, deletion, undo, recovery and pins: what is accepted, and what is refused."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.workspaces import (
    KEY,
    NOW,
    READY,
    accepted,
    ago,
    conditions,
    error,
    home,
    refused,
    workspace,
)

from codehub.core.conditions import Condition
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.messages import verbatim
from codehub.core.observation import VOLUME_READY, VOLUME_UNKNOWN
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.recoveries import is_answered
from codehub.core.requests import (
    Accepted,
    Refusal,
    Refused,
    Unchanged,
    in_trash,
    is_purge_asked,
    is_purge_due,
    rule_change,
    rule_deletion,
    rule_recovery,
    rule_undeletion,
    rule_wish,
)
from codehub.core.workspace import RecoverChoice, StorageBackend, Workspace, display

TRASH = {"deleted_at": ago(10), "purge_at": ago(-1000), "desired_state": DesiredState.PENDING}
PURGED = {"deleted_at": ago(10), "purge_at": ago(10), "desired_state": DesiredState.PENDING}
KEPT = {"deleted_at": ago(10), "purge_at": None, "desired_state": DesiredState.PENDING}


def deleted(phase: Phase = Phase.STANDBY, spec: dict[str, Any] | None = None, **status: Any) -> Workspace:
    row = workspace(phase, **status)
    return replace(row, spec=replace(row.spec, **(spec or TRASH)))


# Wishes


def test_a_wish_moves_the_revision_and_nothing_else() -> None:
    row = workspace(Phase.RUNNING, DesiredState.RUNNING)
    assert accepted(rule_wish(row, DesiredState.STANDBY, NOW)) == replace(
        row.spec, desired_state=DesiredState.STANDBY, revision=2
    )


def test_a_wish_that_is_satisfied_still_takes_back_the_one_before() -> None:
    row = workspace(Phase.PENDING, DesiredState.RUNNING)
    assert accepted(rule_wish(row, DesiredState.PENDING, NOW)).desired_state is DesiredState.PENDING


def test_a_home_in_the_object_store_never_rests() -> None:
    row = workspace(
        Phase.RUNNING, DesiredState.RUNNING, spec={"storage_backend": StorageBackend.OBJECT_STORE}
    )
    assert accepted(rule_wish(row, DesiredState.STANDBY, NOW)).desired_state is DesiredState.ARCHIVED
    archived = replace(row, spec=replace(row.spec, desired_state=DesiredState.ARCHIVED))
    assert isinstance(rule_wish(archived, DesiredState.STANDBY, NOW), Unchanged)


# Deletion and undo


def test_a_deletion_wishes_pending_and_says_until_when_it_can_be_taken_back() -> None:
    spec = accepted(rule_deletion(workspace(Phase.RUNNING), NOW, trash_s=700))
    assert (spec.deleted_at, spec.purge_at) == (NOW, NOW + timedelta(seconds=700))
    assert (spec.desired_state, spec.revision) == (DesiredState.PENDING, 2)


def test_a_purge_is_due_at_once() -> None:
    spec = accepted(rule_deletion(workspace(Phase.RUNNING), NOW, trash_s=700, purge=True))
    assert (spec.deleted_at, spec.purge_at) == (NOW, NOW)


def test_without_an_end_of_the_trash_a_deletion_has_no_time_and_can_be_undone_or_purged_whenever() -> None:
    spec = accepted(rule_deletion(workspace(Phase.RUNNING), NOW, trash_s=None))
    assert (spec.deleted_at, spec.purge_at, spec.desired_state) == (NOW, None, DesiredState.PENDING)
    row, later = deleted(Phase.DELETED, KEPT), NOW + timedelta(days=10_000)
    assert in_trash(row, later)
    assert not is_purge_due(row.spec, later)
    assert accepted(rule_undeletion(row, later)).deleted_at is None
    assert is_purge_asked(accepted(rule_deletion(row, later, trash_s=None, purge=True)))


def test_what_was_deleted_keeps_its_time_when_later_deletions_get_another() -> None:
    for spec, trash_s in ((TRASH, None), (KEPT, 700)):
        row = deleted(Phase.DELETED, spec)
        assert refused(rule_deletion(row, NOW, trash_s=trash_s)) is Refusal.WORKSPACE_NOT_FOUND


def test_a_purge_is_not_taken_back_by_a_deletion_without_a_time() -> None:
    assert accepted(rule_deletion(deleted(spec=PURGED), NOW, trash_s=None)).purge_at == NOW


def test_a_deletion_asked_for_again_is_a_newer_request_even_while_it_steps_down() -> None:
    spec = accepted(rule_deletion(deleted(operation=Operation.STOPPING), NOW, trash_s=700))
    assert (spec.deleted_at, spec.purge_at) == (NOW, NOW + timedelta(seconds=700))


def test_a_mere_deletion_does_not_take_back_a_purge() -> None:
    spec = accepted(rule_deletion(deleted(spec=PURGED), NOW, trash_s=700))
    assert spec.purge_at == NOW


def test_what_is_in_the_trash_can_be_purged_but_not_deleted_again() -> None:
    row = deleted(Phase.DELETED)
    assert in_trash(row, NOW)
    assert accepted(rule_deletion(row, NOW, trash_s=700, purge=True)).purge_at == NOW
    assert refused(rule_deletion(row, NOW, trash_s=700)) is Refusal.WORKSPACE_NOT_FOUND


def test_what_is_purged_is_gone() -> None:
    row = deleted(Phase.DELETED, PURGED)
    assert not in_trash(row, NOW)
    assert refused(rule_deletion(row, NOW, trash_s=700, purge=True)) is Refusal.WORKSPACE_NOT_FOUND
    assert refused(rule_undeletion(row, NOW)) is Refusal.WORKSPACE_NOT_FOUND


UNDO = [
    (deleted(Phase.DELETED), "accepted"),
    (deleted(Phase.STANDBY, operation=Operation.ARCHIVING), "accepted"),
    (deleted(Phase.ERROR, error_info=error()), "accepted"),
    (deleted(Phase.ARCHIVED, operation=Operation.DELETING), "OPERATION_IN_PROGRESS"),
    (deleted(Phase.STANDBY, PURGED), "WORKSPACE_NOT_FOUND"),
    (workspace(Phase.RUNNING), "unchanged"),
]


@pytest.mark.parametrize(("row", "expected"), UNDO)
def test_a_deletion_can_be_taken_back(row: Workspace, expected: str) -> None:
    match rule_undeletion(row, NOW):
        case Accepted(spec=spec):
            assert expected == "accepted"
            assert (spec.deleted_at, spec.purge_at, spec.desired_state) == (None, None, DesiredState.PENDING)
        case Unchanged():
            assert expected == "unchanged"
        case Refused(code=code):
            assert code == expected


def test_what_is_being_deleted_is_shown_so() -> None:
    assert display(deleted(Phase.STANDBY)) == "DELETING"
    assert display(deleted(Phase.DELETED)) == "DELETED"
    assert display(workspace(Phase.ERROR)) == "ERROR"


# Recovery


def test_recovery_is_a_request_with_a_time() -> None:
    row = workspace(Phase.ERROR, error_info=error())
    assert accepted(rule_recovery(row, NOW)) == replace(row.spec, recover_at=NOW)
    assert accepted(rule_recovery(row, NOW, accept_loss=True)).recover_accepts_loss
    chosen = accepted(rule_recovery(row, NOW, choice=RecoverChoice.NEWEST))
    assert chosen.recover_choice is RecoverChoice.NEWEST


@pytest.mark.parametrize("seen", [VOLUME_READY, VOLUME_UNKNOWN])
def test_who_takes_an_archive_and_was_not_told_of_a_loss_has_not_given_up_the_home(seen: Condition) -> None:
    row = workspace(Phase.ERROR, error_info=error(), home_ctx=home("v1", dirty=True))
    ready = replace(row.status.conditions, volume_ready=seen)
    row = replace(row, status=replace(row.status, conditions=ready))
    spec = accepted(rule_recovery(row, NOW, choice=RecoverChoice.NEWEST))
    assert (spec.recover_at, spec.recover_choice, spec.recover_offered_key) == (NOW, None, None)


def test_a_later_recovery_forgets_an_earlier_choice() -> None:
    row = workspace(Phase.ERROR, error_info=error(), spec={"recover_choice": RecoverChoice.ADOPT})
    assert accepted(rule_recovery(row, NOW)).recover_choice is None


def test_a_recovery_is_later_than_the_one_before_though_a_clock_was_set_back() -> None:
    row = workspace(Phase.ERROR, error_info=error(), spec={"recover_at": ago(-9 * 3600)})
    recover_at = accepted(rule_recovery(row, NOW)).recover_at
    assert recover_at is not None
    assert recover_at > ago(-9 * 3600)


def test_only_an_error_can_be_recovered() -> None:
    assert isinstance(rule_recovery(workspace(Phase.RUNNING), NOW), Unchanged)
    assert refused(rule_recovery(deleted(Phase.DELETED), NOW)) is Refusal.WORKSPACE_NOT_FOUND


NOT_ARCHIVED = error(ErrorReason.RETRY_EXCEEDED, operation=Operation.ARCHIVING)
AFTER_ARCHIVING = [
    # wish, backend, status, the wish after a recovery
    (DesiredState.ARCHIVED, StorageBackend.LOCAL_DIR, {}, DesiredState.STANDBY),
    (DesiredState.PENDING, StorageBackend.LOCAL_DIR, {}, DesiredState.STANDBY),
    (DesiredState.ARCHIVED, StorageBackend.OBJECT_STORE, {}, DesiredState.RUNNING),
    (DesiredState.RUNNING, StorageBackend.LOCAL_DIR, {}, DesiredState.RUNNING),
    (DesiredState.ARCHIVED, StorageBackend.LOCAL_DIR, {"archive_key": KEY}, DesiredState.ARCHIVED),
    (DesiredState.ARCHIVED, StorageBackend.LOCAL_DIR, {"conditions": conditions()}, DesiredState.ARCHIVED),
    (DesiredState.ARCHIVED, StorageBackend.LOCAL_DIR, {"error_info": error()}, DesiredState.ARCHIVED),
]


@pytest.mark.parametrize(("wish", "backend", "status", "expected"), AFTER_ARCHIVING)
def test_what_could_not_be_archived_is_not_sent_straight_back_to_it(
    wish: DesiredState, backend: StorageBackend, status: dict[str, Any], expected: DesiredState
) -> None:
    status_fields = {"conditions": conditions(READY), "error_info": NOT_ARCHIVED, **status}
    row = workspace(Phase.ERROR, wish, spec={"storage_backend": backend}, **status_fields)
    spec = accepted(rule_recovery(row, NOW))
    assert spec.desired_state is expected
    assert spec.revision == row.spec.revision + (expected is not wish)


def test_a_deletion_that_failed_to_archive_is_not_taken_back_by_a_recovery() -> None:
    row = deleted(Phase.ERROR, conditions=conditions(READY), error_info=NOT_ARCHIVED)
    assert accepted(rule_recovery(row, NOW)) == replace(row.spec, recover_at=NOW)


def test_a_request_answers_an_error_that_a_clock_which_was_set_back_put_into_the_future() -> None:
    to_come = error(at=ago(-9 * 3600))
    row = workspace(Phase.ERROR, conditions=conditions(READY), error_info=to_come)
    for spec in (
        accepted(rule_recovery(row, NOW)),
        accepted(rule_deletion(row, NOW, trash_s=700)),
        accepted(rule_deletion(row, NOW, trash_s=700, purge=True)),
    ):
        assert is_answered(spec, to_come)


# The end of the time in the trash

P = DesiredState.PENDING
IN_TRASH = {"deleted_at": ago(10), "purge_at": ago(-1000)}


def test_what_is_being_deleted_is_not_gone_on_with() -> None:
    row = workspace(Phase.ERROR, P, error_info=error(ErrorReason.DATA_LOST), spec=IN_TRASH)
    ruled = rule_recovery(row, NOW, choice=RecoverChoice.NEWEST)
    assert isinstance(ruled, Refused)
    assert ruled.code is Refusal.INVALID_STATE


OVER = IN_TRASH | {"purge_at": ago(5)}
ASKED = IN_TRASH | {"purge_at": ago(10)}


@pytest.mark.parametrize(
    ("phase", "spec", "may"),
    [
        (Phase.ERROR, OVER, True),
        (Phase.ERROR, ASKED, False),
        (Phase.DELETED, OVER, False),
        (Phase.ARCHIVED, OVER, False),
    ],
)
def test_what_outlived_its_time_in_the_trash_can_be_undeleted(
    phase: Phase, spec: dict[str, Any], may: bool
) -> None:
    row = workspace(phase, P, error_info=error() if phase is Phase.ERROR else None, spec=spec)
    assert isinstance(rule_undeletion(row, NOW), Accepted) is may


@pytest.mark.parametrize(
    ("reason", "operation", "failed_at", "may"),
    [
        (ErrorReason.RETRY_EXCEEDED, Operation.DELETING, ago(2), False),
        (ErrorReason.TIMEOUT, Operation.DELETING, ago(2), False),
        (ErrorReason.RETRY_EXCEEDED, Operation.DELETING, ago(7), True),
        (ErrorReason.RETRY_EXCEEDED, Operation.ARCHIVING, ago(2), True),
        (ErrorReason.DATA_LOST, Operation.DELETING, ago(2), True),
    ],
)
def test_a_purge_that_failed_half_way_is_not_taken_back_for_its_last_call_may_still_come(
    reason: ErrorReason, operation: Operation, failed_at: datetime, may: bool
) -> None:
    failed = ErrorInfo(reason, verbatim("it failed"), operation, 4, failed_at)
    row = workspace(Phase.ERROR, P, error_info=failed, spec=OVER)
    assert isinstance(rule_undeletion(row, NOW), Accepted) is may


def test_a_deletion_that_is_asked_for_again_after_the_trash_s_time_is_no_purge() -> None:
    row = workspace(Phase.ERROR, P, error_info=error(), spec=OVER)
    assert accepted(rule_deletion(row, NOW, trash_s=700)).purge_at == ago(-700)
    row = workspace(Phase.ERROR, P, error_info=error(), spec=ASKED)
    assert accepted(rule_deletion(row, NOW, trash_s=700)).purge_at == NOW


def test_a_pin_is_kept_with_the_time_since_when_it_is_so() -> None:
    pinned = accepted(rule_change(workspace(), {"pinned": True}, now=NOW))
    assert pinned.pinned_at == NOW
    later = rule_change(workspace(spec={"pinned_at": NOW}), {"pinned": True}, now=NOW + timedelta(hours=1))
    assert later == Unchanged()
    assert (
        accepted(rule_change(workspace(spec={"pinned_at": NOW}), {"pinned": False}, now=NOW)).pinned_at
        is None
    )


REMOVAL_DUE = {"deleted_at": ago(700), "purge_at": ago(60)}


def test_what_is_being_removed_gets_no_new_time_in_the_trash() -> None:
    """A call that was given up on may still come, and takes what a longer time in the trash would keep."""
    removing = workspace(Phase.ARCHIVED, operation=Operation.DELETING, spec=REMOVAL_DUE)
    assert rule_deletion(removing, NOW, trash_s=700) == Unchanged()
    failed = error(operation=Operation.DELETING, at=ago(10))
    retried = accepted(
        rule_deletion(workspace(Phase.ERROR, spec=REMOVAL_DUE, error_info=failed), NOW, trash_s=700)
    )
    assert (retried.deleted_at, retried.purge_at) == (ago(700), ago(60))
    assert retried.recover_at == NOW
    assert not retried.recover_accepts_loss


def test_a_purge_of_what_is_being_removed_is_a_persons_word() -> None:
    removing = workspace(Phase.ARCHIVED, operation=Operation.DELETING, spec=REMOVAL_DUE)
    assert is_purge_asked(accepted(rule_deletion(removing, NOW, trash_s=700, purge=True)))
