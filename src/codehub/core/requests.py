"""Requests: a workspace and what a person asks for in, one ruling out. Nothing is written here."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from codehub.core.conditions import unknown_conditions
from codehub.core.errors import NEWEST_ARCHIVE, ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import (
    RecoverChoice,
    Spec,
    Status,
    StorageBackend,
    Workspace,
    holdup,
    is_condemned,
)


class Refusal(StrEnum):
    """Why a request is refused; the wire's error code."""

    INVALID_STATE = "INVALID_STATE"
    OPERATION_IN_PROGRESS = "OPERATION_IN_PROGRESS"
    RECOVERY_REQUIRED = "RECOVERY_REQUIRED"
    WORKSPACE_NOT_FOUND = "WORKSPACE_NOT_FOUND"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    INVALID_REQUEST = "INVALID_REQUEST"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What people have set, with the request in it."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Accepted, and already so."""


@dataclass(frozen=True, slots=True)
class FieldRefusal:
    """What is wrong with one field."""

    field: str
    problem: Message
    bound: Mapping[str, object]
    """The bound as the wire names it: `max` or `allowed`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why not, and what to do."""

    code: Refusal
    message: Message
    details: Mapping[str, object] | None = None
    """As the wire has it."""
    in_error: Collection[str] = ()
    """At the limit: the ids of those that take a place and that no wish stops."""
    fields: Sequence[FieldRefusal] = ()
    """Above a ceiling: which field, what is wrong with it, and the bound."""


Ruling = Accepted | Unchanged | Refused


def rule_wish(
    workspace: Workspace, wanted: DesiredState, now: datetime, *, is_automatic: bool = False
) -> Ruling:
    """Rule on a wish (spec §2.4). One that is already recorded changes
    nothing; any other is recorded, even if it is satisfied.

    What is held up can be given up by another wish, and is tried at once for the same; but only by a
    person's. `is_automatic`: it is nobody's, but follows from a visit or from time.
    """
    spec, status = workspace.spec, workspace.status
    if spec.deleted_at is not None:
        return _refuse_deleted(workspace)
    is_held_up = holdup(status) is not None and not is_automatic
    if status.operation is not Operation.NONE and not is_held_up:
        return Refused(
            Refusal.OPERATION_IN_PROGRESS,
            Message(Code.OPERATION_UNDER_WAY, {"operation": status.operation}),
        )
    if status.phase is Phase.ERROR:
        return Refused(
            Refusal.RECOVERY_REQUIRED,
            Message(Code.RECOVERY_REQUIRED),
        )
    recorded = recorded_wish(spec.storage_backend, wanted)
    if recorded is not spec.desired_state:
        return Accepted(replace(spec, desired_state=recorded, revision=spec.revision + 1))
    return Accepted(replace(spec, asked_again_at=_request_time(status, now))) if is_held_up else Unchanged()


def rule_change(
    workspace: Workspace,
    changes: Mapping[str, Any],
    wanted: DesiredState | None = None,
    *,
    now: datetime,
    revisions: Collection[int] | None = None,
) -> Ruling:
    """Rule on new values for what people may set, with or without a wish:
    all of it or nothing. Only a wish waits for an operation.

    A new time to sleep counts from now: its last use may not be recorded yet, and was recorded with the old
    time in mind. `revisions`: those that the caller knows; anything newer is not changed unseen.
    """
    spec = workspace.spec
    if spec.deleted_at is not None:
        return _refuse_deleted(workspace)
    if revisions is not None and spec.revision not in revisions:
        return Refused(
            Refusal.PRECONDITION_FAILED,
            Message(Code.REVISION_CHANGED, {"revision": spec.revision}),
            {"revision": spec.revision},
        )
    wished = spec
    if wanted is not None:
        ruling = rule_wish(workspace, wanted, now)
        if isinstance(ruling, Refused):
            return ruling
        wished = ruling.spec if isinstance(ruling, Accepted) else spec
    changed = replace(wished, **_with_times(changes, spec, now))
    if changed == spec:
        return Unchanged()
    if changed == replace(spec, asked_again_at=changed.asked_again_at):
        return Accepted(changed)
    if changed.standby_ttl_seconds != spec.standby_ttl_seconds:
        changed = replace(changed, awake_until=max(now, spec.awake_until or now))
    return Accepted(replace(changed, revision=spec.revision + 1))


def _with_times(changes: Mapping[str, Any], spec: Spec, now: datetime) -> Mapping[str, Any]:
    """Return the fields to set: `pinned` is asked for with yes
    or no, and kept as the time since when it is so.
    """
    if "pinned" not in changes:
        return changes
    pinned_at = (spec.pinned_at or now) if changes["pinned"] else None
    return {name: value for name, value in changes.items() if name != "pinned"} | {"pinned_at": pinned_at}


def recorded_wish(storage: StorageBackend, wanted: DesiredState) -> DesiredState:
    """Return the wish as it is stored: a home that lives in the object store never rests in a volume."""
    if storage is StorageBackend.OBJECT_STORE and wanted is DesiredState.STANDBY:
        return DesiredState.ARCHIVED
    return wanted


def rule_deletion(workspace: Workspace, now: datetime, *, trash_s: int | None, purge: bool = False) -> Ruling:
    """Rule on a deletion. Asked again it is a retry: the newer
    request answers the older error. A purge keeps nothing.

    `trash_s`: how long it can be undone; None: until a person purges it.
    """
    spec, status = workspace.spec, workspace.status
    if spec.deleted_at is not None:
        if status.phase is Phase.DELETED and (not purge or not in_trash(workspace, now)):
            return _refuse_deleted(workspace)
        is_over = is_purge_due(spec, now) and not is_purge_asked(spec)
        if is_over and not purge and not is_kept(workspace):
            return _remove_again(workspace, now)
    elif status.operation is not Operation.NONE and holdup(status) is None:
        return Refused(
            Refusal.OPERATION_IN_PROGRESS,
            Message(Code.DELETE_AFTER_OPERATION, {"operation": status.operation}),
        )
    return Accepted(
        replace(
            spec,
            desired_state=DesiredState.PENDING,
            deleted_at=_request_time(status, now),
            purge_at=now if purge else _purge_time(spec, now, trash_s),
            revision=spec.revision + 1,
        )
    )


def _remove_again(workspace: Workspace, now: datetime) -> Ruling:
    """Rule on a deletion that is asked for again once its removal is due: what may be removed
    at any moment gets no new time in the trash. After an error it is a retry under the old
    request, so that what was worked on since that one is still looked for.
    """
    spec, status = workspace.spec, workspace.status
    if status.phase is not Phase.ERROR:
        return Unchanged()
    retried = replace(
        spec,
        recover_at=_request_time(status, now),
        recover_accepts_loss=False,
        recover_choice=None,
        recover_offered_key=None,
    )
    return Accepted(replace(retried, revision=spec.revision + 1))


def rule_undeletion(workspace: Workspace, now: datetime) -> Ruling:
    """Rule on taking a deletion back: possible until purge_at (if there is one), but for the moment in which
    DELETING runs. Later only for what was kept because somebody worked on it since.
    """
    spec, status = workspace.spec, workspace.status
    if spec.deleted_at is None:
        return Unchanged()
    if is_purge_due(spec, now) and not is_kept(workspace):
        return Refused(Refusal.WORKSPACE_NOT_FOUND, Message(Code.TRASH_TIME_OVER))
    if status.operation is Operation.DELETING:
        return Refused(
            Refusal.OPERATION_IN_PROGRESS,
            Message(Code.UNDELETE_AFTER_DELETING),
        )
    return Accepted(
        replace(
            spec,
            desired_state=DesiredState.PENDING,
            deleted_at=None,
            purge_at=None,
            forgotten_at=None,
            revision=spec.revision + 1,
        )
    )


def rule_forgetting(workspace: Workspace, now: datetime) -> Ruling:
    """Rule on giving up a deletion that a dead backend holds up. The
    controller then records it as deleted, whatever its backends say.

    No file goes: what is left lies where it was until purge_at, and can
    be undeleted; afterwards garbage collection removes it.
    """
    spec, status = workspace.spec, workspace.status
    if spec.deleted_at is None:
        return Refused(Refusal.INVALID_STATE, Message(Code.NOT_BEING_DELETED))
    if status.phase is Phase.DELETED:
        return Refused(Refusal.WORKSPACE_NOT_FOUND, Message(Code.DELETED))
    if spec.forgotten_at is not None:
        return Unchanged()
    if not is_deletion_held_up(status):
        return Refused(
            Refusal.INVALID_STATE,
            Message(Code.DELETION_NOT_HELD_UP),
        )
    return Accepted(replace(spec, forgotten_at=now, revision=spec.revision + 1))


def rule_recovery(
    workspace: Workspace, now: datetime, *, accept_loss: bool = False, choice: RecoverChoice | None = None
) -> Ruling:
    """Rule on a recovery: the controller then drops older errors and judges
    anew from reality, by the choice that was made, if any.
    """
    assert not (accept_loss and choice is not None)
    spec, status = workspace.spec, workspace.status
    if status.phase is Phase.DELETED:
        return _refuse_deleted(workspace)
    if status.phase is not Phase.ERROR:
        return Unchanged()
    if choice is not None and spec.deleted_at is not None:
        return Refused(
            Refusal.INVALID_STATE,
            Message(Code.DELETION_WAS_ASKED_FOR),
        )
    # Whoever was not told that the home is lost does not give it up, though it may be lost by then.
    if choice is RecoverChoice.NEWEST and not status.conditions.volume_ready.is_false:
        choice = None
    # Each is told from the one before by its time, though a clock was set back.
    at = _request_time(status, now)
    if spec.recover_at is not None:
        at = max(at, spec.recover_at + timedelta(microseconds=1))
    recovered = replace(
        spec,
        recover_at=at,
        recover_accepts_loss=accept_loss,
        recover_choice=choice,
        recover_offered_key=_newest_known_archive(status) if choice is RecoverChoice.NEWEST else None,
    )
    if not _could_not_be_archived(workspace):
        return Accepted(recovered)
    stays = (
        DesiredState.RUNNING if spec.storage_backend is StorageBackend.OBJECT_STORE else DesiredState.STANDBY
    )
    return Accepted(replace(recovered, desired_state=stays, revision=spec.revision + 1))


def rule_keep_awake(workspace: Workspace, now: datetime, *, seconds: int) -> Ruling:
    """Rule on staying awake: the latest such request counts, and none shortens another."""
    spec = workspace.spec
    if spec.deleted_at is not None:
        return _refuse_deleted(workspace)
    until = now + timedelta(seconds=seconds)
    if spec.awake_until is not None and spec.awake_until >= until:
        return Unchanged()
    return Accepted(replace(spec, awake_until=until))


def is_deletion_held_up(status: Status) -> bool:
    """Whether a deletion can't go on: a backend does not answer, or DELETING itself has failed for good."""
    error = status.error_info
    if unknown_conditions(status.conditions, status.operation):
        return True
    if error is None:
        return False
    return error.reason is ErrorReason.UNREACHABLE or (
        status.phase is Phase.ERROR and error.operation is Operation.DELETING
    )


def is_purge_due(spec: Spec, now: datetime) -> bool:
    """Whether nothing of it need be kept: a purge was asked for, or its time in the trash is over."""
    return spec.deleted_at is not None and spec.purge_at is not None and spec.purge_at <= now


def is_purge_asked(spec: Spec) -> bool:
    """Whether a person asked for a purge, which keeps nothing. The end of
    the trash's time is nobody's word for what came later.
    """
    return spec.deleted_at is not None and spec.purge_at is not None and spec.purge_at <= spec.deleted_at


def is_kept(workspace: Workspace) -> bool:
    """Whether its time in the trash is over, but nothing was removed by that: it
    was in ERROR by then, or somebody worked on it after its deletion. A removal
    that failed may still come, and would take what is made after it.
    """
    spec, error = workspace.spec, workspace.status.error_info
    if workspace.status.phase is not Phase.ERROR or is_purge_asked(spec) or error is None:
        return False
    is_removal = error.operation is Operation.DELETING and error.reason is not ErrorReason.DATA_LOST
    return not (is_removal and is_purge_due(spec, error.occurred_at))


def in_trash(workspace: Workspace, now: datetime) -> bool:
    """Whether it is deleted but can still be undeleted."""
    spec = workspace.spec
    return (
        spec.deleted_at is not None
        and workspace.status.phase is Phase.DELETED
        and not is_purge_due(spec, now)
    )


def _request_time(status: Status, now: datetime) -> datetime:
    """Return when a request counts as made: after the error that
    it answers, though a clock was set back since.
    """
    error = status.error_info
    return now if error is None else max(now, error.occurred_at + timedelta(microseconds=1))


def _newest_known_archive(status: Status) -> str | None:
    """Return which archive is the newest as far as the row knows: the one that
    the error named, else its own, if that was not seen to be gone.
    """
    error = status.error_info
    if error is not None and NEWEST_ARCHIVE in error.context:
        return error.context[NEWEST_ARCHIVE]
    return None if status.conditions.archive_ready.is_false else status.archive_key


def _could_not_be_archived(workspace: Workspace) -> bool:
    """Whether it failed to be archived, and is here. It is not sent straight back to what
    failed: the cause may be in the home, and to mend it somebody must get in.
    """
    spec, status = workspace.spec, workspace.status
    return (
        status.error_info is not None
        and status.error_info.operation is Operation.ARCHIVING
        and status.conditions.volume_ready.is_true
        and not is_condemned(status)
        and spec.deleted_at is None
        and spec.desired_state in (DesiredState.ARCHIVED, DesiredState.PENDING)
    )


def _purge_time(spec: Spec, now: datetime, trash_s: int | None) -> datetime | None:
    """A purge that was asked for is not taken back by asking for a mere deletion."""
    if is_purge_asked(spec):
        return now
    return None if trash_s is None else now + timedelta(seconds=trash_s)


def _refuse_deleted(workspace: Workspace) -> Refused:
    if workspace.status.phase is Phase.DELETED:
        return Refused(Refusal.WORKSPACE_NOT_FOUND, Message(Code.DELETED))
    return Refused(
        Refusal.INVALID_STATE,
        Message(Code.BEING_DELETED),
    )
