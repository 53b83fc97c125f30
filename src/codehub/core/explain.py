"""Why a workspace is where it is: a row and the time in; what comes
next, what is waited for and what a person can do out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from codehub.core.conditions import Reason, lost_host, unknown_conditions
from codehub.core.errors import NEWEST_ARCHIVE, ErrorInfo, ErrorReason, Remedy
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.plan import Begin, Wait, Why, choose_next_operation
from codehub.core.requests import (
    Accepted,
    Ruling,
    recorded_wish,
    rule_deletion,
    rule_forgetting,
    rule_keep_awake,
    rule_recovery,
    rule_undeletion,
    rule_wish,
)
from codehub.core.workspace import RecoverChoice, Status, Workspace, counts_as_running, holdup, is_outdated

_ACCEPTS_LOSS = frozenset({ErrorReason.DATA_LOST, ErrorReason.ARCHIVE_CORRUPTED})


class Ask(StrEnum):
    """What a person can ask for. The catalogue has what its button says under `ask.` and its value."""

    START = "Start"
    TRY_NOW = "TryNow"
    STOP = "Stop"
    ARCHIVE = "Archive"
    RECOVER = "Recover"
    ADOPT = "Adopt"
    TAKE_NEWEST = "TakeNewest"
    ACCEPT_LOSS = "AcceptLoss"
    KEEP_AWAKE = "KeepAwake"
    UNDELETE = "Undelete"
    DELETE = "Delete"
    PURGE = "Purge"
    FORGET = "Forget"


class WaitsFor(StrEnum):
    """What it waits for. The catalogue has each as `waits.` and its value."""

    LOOK = "Look"
    MARK = "Mark"
    HOST = "Host"
    NEXT_PASS = "NextPass"  # noqa: S105  # no password
    NEXT_TRY = "NextTry"
    CHANGED_TRY = "ChangedTry"
    END_SEEN = "EndSeen"
    PERSON = "Person"
    RECOVERY = "Recovery"
    REMEDY = "Remedy"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What it waits for, and the facts of the case."""

    on: WaitsFor
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    """Something a person can do now."""

    ask: Ask
    is_retry: bool = False
    """Whether it is the same wish once more: a try at once of what is held up."""

    @property
    def label(self) -> Ask:
        """What its button says."""
        return Ask.TRY_NOW if self.is_retry else self.ask


@dataclass(frozen=True, slots=True)
class Explanation:
    operation: Operation
    why: Why
    waiting_for: Waiting | None
    since: datetime | None
    actions: tuple[Action, ...]
    error: ErrorInfo | None = None
    """What went wrong, unless what it went wrong with was changed since."""


def explain(workspace: Workspace, now: datetime, *, is_admin: bool = False) -> Explanation:
    """Explain it from what is stored: the same functions that decide say what
    they will decide. `is_admin`: to somebody who may do more.
    """
    error = workspace.status.error_info
    is_forgotten = error is not None and is_outdated(error, workspace.spec)
    return replace(_explain(workspace, now, is_admin=is_admin), error=None if is_forgotten else error)


def _explain(workspace: Workspace, now: datetime, *, is_admin: bool) -> Explanation:
    status = workspace.status
    held = holdup(status)
    since = status.op_started_at or status.phase_changed_at or workspace.created_at
    if held is not None:
        since = held.since
    actions = tuple(_actions(workspace, now, is_admin=is_admin))
    unknown = unknown_conditions(status.conditions, status.operation)
    if unknown:
        return Explanation(status.operation, Why.CANNOT_LOOK, _blind(status, unknown), since, actions)
    if status.operation is not Operation.NONE:
        return Explanation(status.operation, *_under_way(workspace, now), since, actions)
    chosen = choose_next_operation(workspace.spec, status, now)
    if isinstance(chosen, Begin):
        return Explanation(chosen.operation, chosen.why, Waiting(WaitsFor.NEXT_PASS), since, actions)
    needs_a_person = isinstance(chosen, Wait) and chosen.until is None
    waiting_for = _remedy(workspace) if needs_a_person else None
    return Explanation(Operation.NONE, chosen.why, waiting_for, since, actions)


def _blind(status: Status, unknown: tuple[str, ...]) -> Waiting:
    volume = status.conditions.volume_ready
    if volume.is_unknown and volume.reason == Reason.MARK_MISSING:
        return Waiting(WaitsFor.MARK, {"message": volume.message})
    if (lost := lost_host(status.conditions)) is not None:
        return Waiting(WaitsFor.HOST, {"message": lost})
    return Waiting(WaitsFor.LOOK, {"conditions": list(unknown)})


def _under_way(workspace: Workspace, now: datetime) -> tuple[Why, Waiting]:
    status = workspace.status
    error = status.error_info
    if error is not None and status.retry_at is not None and status.retry_at > now:
        seconds = f"{(status.retry_at - now).total_seconds():.0f}"
        if is_outdated(error, workspace.spec):
            return Why.BACKING_OFF, Waiting(WaitsFor.CHANGED_TRY, {"seconds": seconds})
        facts = {"seconds": seconds, "message": error.message}
        return Why.BACKING_OFF, Waiting(WaitsFor.NEXT_TRY, facts)
    return Why.NOT_SEEN_YET, Waiting(WaitsFor.END_SEEN, {"operation": status.operation})


def _remedy(workspace: Workspace) -> Waiting:
    error = workspace.status.error_info
    if error is None:
        return Waiting(WaitsFor.PERSON)
    if is_outdated(error, workspace.spec):
        return Waiting(WaitsFor.RECOVERY)
    return Waiting(WaitsFor.REMEDY, {"remedy": remedy(workspace, error)})


def remedy(workspace: Workspace, error: ErrorInfo) -> ErrorReason | Remedy:
    """Return what a person can do about it. A newer archive than the row's
    is there to be taken, but not of what is being deleted.
    """
    if NEWEST_ARCHIVE not in error.context:
        return error.reason
    return Remedy.NEWER_ARCHIVE if workspace.spec.deleted_at is None else Remedy.KEPT_ARCHIVE


def _actions(workspace: Workspace, now: datetime, *, is_admin: bool) -> list[Action]:
    """Return what would be accepted now, and would change something."""
    error = workspace.status.error_info
    asks: list[tuple[Action, Ruling]] = [
        _wish(workspace, Ask.START, DesiredState.RUNNING, now),
        _wish(workspace, Ask.ARCHIVE, DesiredState.ARCHIVED, now),
        (Action(Ask.RECOVER), rule_recovery(workspace, now)),
    ]
    if counts_as_running(workspace):  # from below, the same wish would lift it up
        asks.insert(1, _wish(workspace, Ask.STOP, DesiredState.STANDBY, now))
    if error is not None and workspace.status.conditions.volume_ready.is_unidentified:
        adopting = Action(Ask.ADOPT)
        asks.append((adopting, rule_recovery(workspace, now, choice=RecoverChoice.ADOPT)))
    if error is not None and NEWEST_ARCHIVE in error.context:
        newest = Action(Ask.TAKE_NEWEST)
        asks.append((newest, rule_recovery(workspace, now, choice=RecoverChoice.NEWEST)))
    if error is not None and error.reason in _ACCEPTS_LOSS:
        lossy = Action(Ask.ACCEPT_LOSS)
        asks.append((lossy, rule_recovery(workspace, now, accept_loss=True)))
    if workspace.status.phase is Phase.RUNNING:
        asks.append((Action(Ask.KEEP_AWAKE), rule_keep_awake(workspace, now, seconds=3600)))
    if workspace.spec.deleted_at is not None:
        asks.append((Action(Ask.UNDELETE), rule_undeletion(workspace, now)))
    asks += [
        (Action(Ask.DELETE), rule_deletion(workspace, now, trash_s=1)),
        (Action(Ask.PURGE), rule_deletion(workspace, now, trash_s=1, purge=True)),
    ]
    if is_admin:
        asks.append((Action(Ask.FORGET), rule_forgetting(workspace, now)))
    return [action for action, ruling in asks if isinstance(ruling, Accepted)]


def _wish(workspace: Workspace, ask: Ask, wanted: DesiredState, now: datetime) -> tuple[Action, Ruling]:
    is_retry = recorded_wish(workspace.spec.storage_backend, wanted) is workspace.spec.desired_state
    return Action(ask, is_retry), rule_wish(workspace, wanted, now)
