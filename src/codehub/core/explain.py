"""Why a workspace is where it is: a row and the time in; what comes next, what is waited for and what a person can do out."""

from dataclasses import dataclass
from datetime import datetime

from codehub.core.errors import REMEDY, ErrorReason
from codehub.core.judge import unknown_conditions
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.plan import Begin, Wait, Why, choose
from codehub.core.wishes import (
    Accepted,
    Ruling,
    rule_deletion,
    rule_keep_awake,
    rule_recovery,
    rule_undeletion,
    rule_wish,
)
from codehub.core.workspace import Workspace

_ACCEPTS_LOSS = frozenset({ErrorReason.DATA_LOST, ErrorReason.ARCHIVE_CORRUPTED})


@dataclass(frozen=True, slots=True)
class Action:
    """Something a person can do now. `place` follows the workspace's own path."""

    label: str
    method: str
    place: str


@dataclass(frozen=True, slots=True)
class Explanation:
    operation: Operation
    why: str
    waiting_for: str | None
    since: datetime | None
    actions: tuple[Action, ...]


def explain(workspace: Workspace, now: datetime) -> Explanation:
    """Explain it from what is stored: the same functions that decide say what they will decide."""
    status = workspace.status
    since = status.op_started_at or status.phase_changed_at or workspace.created_at
    actions = tuple(_actions(workspace, now))
    unknown = unknown_conditions(status.conditions, status.operation)
    if unknown:
        blind = f"a look at {', '.join(unknown)}: the backend does not answer"
        return Explanation(status.operation, Why.CANNOT_LOOK.value, blind, since, actions)
    if status.operation is not Operation.NONE:
        return Explanation(status.operation, *_under_way(workspace, now), since, actions)
    chosen = choose(workspace.spec, status, now)
    if isinstance(chosen, Begin):
        return Explanation(chosen.operation, chosen.why.value, "the controller's next pass", since, actions)
    waiting_for = _remedy(workspace) if isinstance(chosen, Wait) else None
    return Explanation(Operation.NONE, chosen.why.value, waiting_for, since, actions)


def _under_way(workspace: Workspace, now: datetime) -> tuple[str, str]:
    status = workspace.status
    error = status.error_info
    if error is not None and status.retry_at is not None and status.retry_at > now:
        seconds = (status.retry_at - now).total_seconds()
        return Why.BACKING_OFF.value, f"the next try, in {seconds:.0f} s. The last one said: {error.message}"
    return Why.NOT_SEEN_YET.value, f"{status.operation} to be seen as done"


def _remedy(workspace: Workspace) -> str:
    error = workspace.status.error_info
    return "a person" if error is None else f"a person. {REMEDY[error.reason]}"


def _actions(workspace: Workspace, now: datetime) -> list[Action]:
    """Return what would be accepted now, and would change something."""
    error = workspace.status.error_info
    asks: list[tuple[Action, Ruling]] = [
        (Action("Start", "POST", ":start"), rule_wish(workspace, DesiredState.RUNNING)),
        (Action("Stop", "POST", ":stop"), rule_wish(workspace, DesiredState.STANDBY)),
        (Action("Archive", "POST", ":archive"), rule_wish(workspace, DesiredState.ARCHIVED)),
        (Action("Recover", "POST", ":recover"), rule_recovery(workspace, now)),
    ]
    if error is not None and error.reason in _ACCEPTS_LOSS:
        lossy = Action("Recover and accept the loss", "POST", ":recover")
        asks.append((lossy, rule_recovery(workspace, now, accept_loss=True)))
    if workspace.status.phase is Phase.RUNNING:
        asks.append(
            (Action("Keep awake", "POST", ":keep_awake"), rule_keep_awake(workspace, now, seconds=3600))
        )
    if workspace.spec.deleted_at is not None:
        asks.append((Action("Undelete", "POST", ":undelete"), rule_undeletion(workspace, now)))
    asks += [
        (Action("Delete", "DELETE", ""), rule_deletion(workspace, now, trash_s=1)),
        (Action("Purge", "DELETE", "?purge=true"), rule_deletion(workspace, now, trash_s=1, purge=True)),
    ]
    return [action for action, ruling in asks if isinstance(ruling, Accepted)]
