"""Deletion, undo, recovery, keeping awake, idleness, limits, and what the history says of them."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.workspaces import (
    ABSENT,
    KEY,
    NEW_OP_ID,
    NOT_READY,
    NOW,
    READY,
    UNKNOWN,
    ago,
    conditions,
    error,
    workspace,
)

from codehub.core.conditions import HEALTHY, Condition, Conditions
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.history import Event, EventKind, is_to_be_carried_out, observed, wished
from codehub.core.idle import archives_at, idle_wish, sleeps_at, sleeps_soon
from codehub.core.judge import is_answered
from codehub.core.messages import Message, verbatim
from codehub.core.observation import (
    ARCHIVE_READY,
    INSTANCE_READY,
    INSTANCE_STOPPED,
    VOLUME_ABSENT,
    VOLUME_READY,
)
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.plan import Why
from codehub.core.requests import (
    Accepted,
    Refusal,
    Refused,
    Ruling,
    Unchanged,
    in_trash,
    is_purge_asked,
    rule_change,
    rule_deletion,
    rule_keep_awake,
    rule_recovery,
    rule_undeletion,
    rule_wish,
)
from codehub.core.workspace import RecoverChoice, StorageBackend, Workspace, counts_as_running, display

TRASH = {"deleted_at": ago(10), "purge_at": ago(-1000), "desired_state": DesiredState.PENDING}
PURGED = {"deleted_at": ago(10), "purge_at": ago(10), "desired_state": DesiredState.PENDING}


def accepted(ruling: Ruling) -> Any:
    assert isinstance(ruling, Accepted), ruling
    return ruling.spec


def refused(ruling: Ruling) -> Refusal:
    assert isinstance(ruling, Refused), ruling
    return ruling.code


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
    found = {"conditions": conditions(READY), "error_info": NOT_ARCHIVED, **status}
    row = workspace(Phase.ERROR, wish, spec={"storage_backend": backend}, **found)
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


# Idleness


def test_keeping_awake_never_shortens() -> None:
    row = workspace(Phase.RUNNING)
    assert accepted(rule_keep_awake(row, NOW, seconds=60)).awake_until == NOW + timedelta(seconds=60)
    awake = replace(row, spec=replace(row.spec, awake_until=NOW + timedelta(hours=1)))
    assert isinstance(rule_keep_awake(awake, NOW, seconds=60), Unchanged)
    assert refused(rule_keep_awake(deleted(), NOW, seconds=60)) is Refusal.INVALID_STATE


IDLE = [
    # phase, wish, last use, in the phase since, awake until, ttl, then
    (Phase.RUNNING, DesiredState.RUNNING, 301, 500, None, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, 300, 500, None, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, 299, 500, None, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 900, 299, None, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 900, 900, 299, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 900, 900, 301, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, None, 500, None, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, None, None, None, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 99999, 99999, None, None, None),
    (Phase.RUNNING, DesiredState.STANDBY, 99999, 99999, None, 300, None),
    (Phase.STANDBY, DesiredState.STANDBY, 500, 500, None, 300, DesiredState.ARCHIVED),
    (Phase.STANDBY, DesiredState.STANDBY, 500, 299, None, 300, None),
    (Phase.STANDBY, DesiredState.STANDBY, 500, 500, -99, 300, DesiredState.ARCHIVED),
    (Phase.STANDBY, DesiredState.STANDBY, 0, 0, None, 0, DesiredState.ARCHIVED),
    (Phase.STANDBY, DesiredState.RUNNING, 500, 500, None, 300, None),
    (Phase.ARCHIVED, DesiredState.ARCHIVED, 99999, 99999, None, 300, None),
]


@pytest.mark.parametrize(("phase", "wish", "used", "entered", "awake", "ttl", "then"), IDLE)
def test_time_to_live(
    phase: Phase,
    wish: DesiredState,
    used: int | None,
    entered: int | None,
    awake: int | None,
    ttl: int | None,
    then: DesiredState | None,
) -> None:
    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else ago(seconds)

    row = workspace(
        phase,
        wish,
        spec={
            "last_access_at": at(used),
            "awake_until": at(awake),
            "standby_ttl_seconds": ttl,
            "archive_ttl_seconds": ttl,
        },
        phase_changed_at=at(entered),
    )
    assert idle_wish(row, NOW) is then


def test_only_a_running_workspace_says_when_it_sleeps() -> None:
    spec = {"last_access_at": ago(100)}
    assert sleeps_at(workspace(Phase.RUNNING, spec=spec)) == ago(-200)
    assert sleeps_at(workspace(Phase.STANDBY, DesiredState.STANDBY, spec=spec)) is None


def test_only_a_sleeping_workspace_says_when_it_is_archived() -> None:
    spec = {"last_access_at": ago(100), "archive_ttl_seconds": 300}
    assert archives_at(workspace(Phase.STANDBY, DesiredState.STANDBY, spec=spec)) == ago(-200)
    assert archives_at(workspace(Phase.RUNNING, spec=spec)) is None
    kept = {"last_access_at": ago(100), "archive_ttl_seconds": None}
    assert archives_at(workspace(Phase.STANDBY, DesiredState.STANDBY, spec=kept)) is None


def test_people_are_told_shortly_before_it_sleeps() -> None:
    row = workspace(Phase.RUNNING, spec={"last_access_at": ago(100)})
    assert sleeps_soon(row, NOW, warning_s=60) is None
    assert sleeps_soon(row, NOW, warning_s=200) == ago(-200)
    assert sleeps_soon(row, NOW + timedelta(seconds=150), warning_s=60) == ago(-200)
    kept = workspace(Phase.RUNNING, spec={"last_access_at": ago(100), "standby_ttl_seconds": None})
    assert sleeps_soon(kept, NOW, warning_s=1000) is None


@pytest.mark.parametrize(
    "row", [workspace(Phase.RUNNING, operation=Operation.STOPPING), deleted(Phase.RUNNING)]
)
def test_what_moves_is_left_alone(row: Workspace) -> None:
    assert idle_wish(row, NOW + timedelta(days=1)) is None


# Limits

COUNTS = [
    # wish, phase, operation, container, takes a place
    (DesiredState.RUNNING, Phase.PENDING, Operation.NONE, ABSENT, True),
    (DesiredState.RUNNING, Phase.RUNNING, Operation.NONE, READY, True),
    (DesiredState.STANDBY, Phase.RUNNING, Operation.NONE, READY, True),
    (DesiredState.STANDBY, Phase.RUNNING, Operation.STOPPING, READY, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.STOPPING, NOT_READY, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.NONE, ABSENT, False),
    (DesiredState.RUNNING, Phase.ERROR, Operation.NONE, ABSENT, False),
    (DesiredState.RUNNING, Phase.ERROR, Operation.NONE, READY, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.NONE, UNKNOWN, False),
    (DesiredState.STANDBY, Phase.RUNNING, Operation.NONE, UNKNOWN, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.STOPPING, UNKNOWN, True),
    (DesiredState.STANDBY, Phase.ERROR, Operation.NONE, UNKNOWN, True),
]


@pytest.mark.parametrize(("wish", "phase", "operation", "container", "expected"), COUNTS)
def test_a_workspace_counts_from_the_wish_until_its_container_is_gone(
    wish: DesiredState, phase: Phase, operation: Operation, container: Any, expected: bool
) -> None:
    row = workspace(phase, wish, operation=operation, conditions=conditions(READY, ABSENT, container))
    assert counts_as_running(row) is expected


# History


def kinds(events: Any) -> list[tuple[EventKind, str | None, str | None]]:
    return [(event.kind, event.before, event.after) for event in events]


def test_the_history_tells_what_was_asked_for() -> None:
    row = workspace(Phase.RUNNING)
    spec = accepted(rule_deletion(row, NOW, trash_s=700))
    assert list(wished(row.spec, spec, actor="ann", reason=verbatim("delete"), request_id="r1")) == [
        Event(EventKind.DELETION, None, "trash", "ann", verbatim("delete"), "r1"),
        Event(EventKind.WISH, "RUNNING", "PENDING", "ann", verbatim("delete"), "r1"),
    ]
    purged = accepted(rule_deletion(row, NOW, trash_s=700, purge=True))
    assert kinds(wished(spec, purged, actor="ann", reason=verbatim(""))) == [
        (EventKind.DELETION, "trash", "purge")
    ]
    lost = workspace(Phase.ERROR, error_info=error())
    for accept, choice, word in (
        (False, None, "recover"),
        (True, None, "accept_loss"),
        (False, RecoverChoice.NEWEST, "take_newest"),
        (False, RecoverChoice.ADOPT, "adopt"),
    ):
        recovered = accepted(rule_recovery(lost, NOW, accept_loss=accept, choice=choice))
        assert kinds(wished(lost.spec, recovered, actor="ann", reason=verbatim(""))) == [
            (EventKind.RECOVERY, None, word)
        ]


def test_a_wish_a_deletion_and_a_recovery_are_carried_out_and_nothing_else() -> None:
    row, lost = workspace(Phase.RUNNING), workspace(Phase.ERROR, error_info=error())
    for before, after in (
        (row.spec, accepted(rule_wish(row, DesiredState.STANDBY, NOW))),
        (row.spec, accepted(rule_deletion(row, NOW, trash_s=700))),
        (lost.spec, accepted(rule_recovery(lost, NOW))),
    ):
        assert is_to_be_carried_out(before, after)
    for after in (
        accepted(rule_keep_awake(row, NOW, seconds=60)),
        accepted(rule_change(row, {"memo": "x", "image_ref": "y"}, now=NOW)),
    ):
        assert not is_to_be_carried_out(row.spec, after)


def test_the_history_tells_what_a_pass_changed() -> None:
    before = workspace(Phase.STANDBY).status
    begun = replace(before, operation=Operation.STARTING, op_id=NEW_OP_ID)
    assert kinds(observed(before, begun, actor="c1", reason=verbatim(""))) == [
        (EventKind.OPERATION, "NONE", "STARTING")
    ]
    taken = replace(begun, op_id=None)
    assert kinds(observed(begun, taken, actor="c1", reason=verbatim(""))) == [
        (EventKind.OPERATION, "STARTING", "STARTING")
    ]
    failed = replace(before, phase=Phase.ERROR, error_info=error(ErrorReason.TIMEOUT))
    assert list(observed(before, failed, actor="c1", reason=verbatim("time is up"))) == [
        Event(EventKind.ERROR, None, "Timeout", "c1", verbatim("as the test says")),
        Event(EventKind.PHASE, "STANDBY", "ERROR", "c1", verbatim("time is up")),
    ]
    assert kinds(observed(failed, before, actor="c1", reason=verbatim(""))) == [
        (EventKind.ERROR, "Timeout", None),
        (EventKind.PHASE, "ERROR", "STANDBY"),
    ]
    assert list(observed(before, before, actor="c1", reason=verbatim(""))) == []


@pytest.mark.parametrize(
    ("before", "after", "because"),
    [
        (Phase.STANDBY, Phase.RUNNING, INSTANCE_READY),
        (Phase.RUNNING, Phase.STANDBY, INSTANCE_STOPPED),
        (Phase.PENDING, Phase.STANDBY, VOLUME_READY),
        (Phase.STANDBY, Phase.ARCHIVED, ARCHIVE_READY),
        (Phase.ARCHIVED, Phase.PENDING, VOLUME_ABSENT),
    ],
)
def test_a_phase_changes_because_of_what_was_seen(before: Phase, after: Phase, because: Condition) -> None:
    observation = Conditions(
        volume_ready=VOLUME_ABSENT if after is Phase.PENDING else VOLUME_READY,
        archive_ready=ARCHIVE_READY,
        container_ready=INSTANCE_READY if after is Phase.RUNNING else INSTANCE_STOPPED,
        healthy=HEALTHY,
    )
    (event,) = observed(
        workspace(before).status,
        workspace(after, conditions=observation).status,
        actor="c1",
        reason=verbatim("what comes next"),
    )
    assert event.reason == because.message


def test_a_deletion_is_done_because_its_end_was_seen() -> None:
    (event,) = observed(
        workspace(Phase.ARCHIVED).status,
        workspace(Phase.DELETED).status,
        actor="c1",
        reason=Message(Why.SEEN),
    )
    assert event.reason == Message(Why.SEEN)


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
