"""Idleness: when a workspace that nobody uses goes to sleep, and when one that sleeps goes to the archive."""

from datetime import datetime, timedelta

from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Workspace


def sleeps_at(workspace: Workspace) -> datetime | None:
    """Return when a running workspace will be stopped if nobody uses it; None if it will not."""
    return _deadline(workspace) if workspace.status.phase is Phase.RUNNING else None


def archives_at(workspace: Workspace) -> datetime | None:
    """Return when a sleeping workspace will be archived if nobody uses it; None if it will not."""
    return _deadline(workspace) if workspace.status.phase is Phase.STANDBY else None


def sleeps_soon(workspace: Workspace, now: datetime, *, warning_s: float) -> datetime | None:
    """Return when it will be stopped, if that is so near that
    people should be told; None if there is nothing to say.
    """
    deadline = sleeps_at(workspace)
    is_near = deadline is not None and now >= deadline - timedelta(seconds=warning_s)
    return deadline if is_near else None


def idle_wish(workspace: Workspace, now: datetime) -> DesiredState | None:
    """Return the wish of a workspace whose time is up. One that still moves, or is to move, is left alone."""
    deadline = _deadline(workspace)
    if deadline is None or deadline > now:
        return None
    return DesiredState.STANDBY if workspace.status.phase is Phase.RUNNING else DesiredState.ARCHIVED


def _deadline(workspace: Workspace) -> datetime | None:
    spec, status = workspace.spec, workspace.status
    is_at_rest = (
        status.operation is Operation.NONE
        and spec.deleted_at is None
        and status.phase == spec.desired_state.value
    )
    if not is_at_rest:
        return None
    match status.phase:
        case Phase.RUNNING:
            ttl_s, since = (
                spec.standby_ttl_seconds,
                (spec.last_access_at, status.phase_changed_at, spec.awake_until),
            )
        case Phase.STANDBY:
            ttl_s, since = spec.archive_ttl_seconds, (spec.last_access_at, status.phase_changed_at, None)
        case _:
            return None
    known = [at for at in since if at is not None]
    if ttl_s is None or not known:
        return None
    return max(known) + timedelta(seconds=ttl_s)
