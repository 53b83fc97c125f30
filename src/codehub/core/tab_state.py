"""What the script in an IDE's tab is told: a workspace and when it was used last go in, what the tab shows
comes out (docs/adr/0043).
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from codehub.core.idle import sleeps_at
from codehub.core.operations import DesiredState, Phase
from codehub.core.visit import is_on_its_way, is_open
from codehub.core.workspace import Workspace

NOTE_S_MAX = 20.0
_NOTES_PER_TTL = 4
_WARNINGS_PER_TTL = 2


class TabState(StrEnum):
    OPEN = "open"
    STARTING = "starting"
    ASLEEP = "asleep"
    """Or on its way there."""
    ARCHIVED = "archived"
    UNSTARTED = "unstarted"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class TabView:
    state: TabState
    run: str
    """Which run of its IDE this is: a tab that was loaded in another one is to be loaded again."""
    sleeps_in_s: float | None
    """How long it runs on if nobody uses it; None: for ever."""
    warns_s: float
    """So long before that people are told."""
    note_s: float
    """How often a tab says at most that somebody is there."""


def tab_view(workspace: Workspace, now: datetime, used_at: datetime | None, *, warning_s: float) -> TabView:
    """Say what a tab shows. `used_at`: a use that may not be recorded yet."""
    spec, status = workspace.spec, workspace.status
    known = [at for at in (spec.last_access_at, used_at) if at is not None]
    deadline = sleeps_at(replace(workspace, spec=replace(spec, last_access_at=max(known, default=None))))
    changed_at, ttl_s = status.phase_changed_at, spec.standby_ttl_seconds
    return TabView(
        tab_state(workspace),
        "" if changed_at is None else f"{changed_at.timestamp():.6f}",
        None if deadline is None else max(0.0, (deadline - now).total_seconds()),
        warning_s if ttl_s is None else min(warning_s, ttl_s / _WARNINGS_PER_TTL),
        note_s(ttl_s),
    )


def note_s(standby_ttl_s: int | None) -> float:
    """Return how often a tab says at most that somebody is there: while they work, it must not sleep."""
    return NOTE_S_MAX if standby_ttl_s is None else min(NOTE_S_MAX, standby_ttl_s / _NOTES_PER_TTL)


def tab_state(workspace: Workspace) -> TabState:
    phase, wish = workspace.status.phase, workspace.spec.desired_state
    if is_open(workspace):
        return TabState.OPEN
    if wish is DesiredState.RUNNING and is_on_its_way(workspace):
        return TabState.STARTING
    if phase is Phase.ERROR:
        return TabState.PROBLEM
    if wish in (DesiredState.RUNNING, DesiredState.STANDBY):
        return TabState.ASLEEP
    return TabState.ARCHIVED if wish is DesiredState.ARCHIVED else TabState.UNSTARTED
