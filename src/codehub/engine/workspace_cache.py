"""The workspace cache: all that this controller knows of every
workspace, kept current by reading only the rows that changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from codehub.core.decide import FinishedStep, NextLook
from codehub.core.observation import Instance, Unmarked, Unobserved, Volume
from codehub.core.operations import Operation, Step
from codehub.core.plan import Act
from codehub.core.transitions import Outcome
from codehub.core.workspace import Status, Workspace
from codehub.ports.progress import ProgressMeter
from codehub.ports.store import ControllerStore
from codehub.ports.system import Task

# What one look says of a workspace's instance and volume.
Pair = tuple[Instance | Unobserved | None, Volume | Unobserved | Unmarked | None]


@dataclass(slots=True)
class RunningStep:
    """One step under way, or ended with an outcome that is not recorded yet."""

    act: Act
    op_id: UUID
    meter: ProgressMeter
    task: Task | None = None
    outcome: Outcome | None = None
    is_queued: bool = True
    """Whether it still waits for a place in its lane."""

    def is_of(self, act: Act, op_id: UUID | None) -> bool:
        return self.act == act and self.op_id == op_id


@dataclass(frozen=True, slots=True)
class Attempt:
    """A step that an actuator has done, as far as it says; it is
    done again if its effect is not seen after a while.
    """

    op_id: UUID
    step: Step
    at: float


@dataclass(slots=True)
class KnownWorkspace:
    """What this controller knows of one workspace. Only the row is true
    for others; losing the rest costs time, and nothing else.
    """

    row: Workspace
    judged_by: Pair | None = None
    """What it was last judged by, in whatever pass: not what the
    last look at everybody saw, which may be older.
    """
    next_look: NextLook = NextLook.ON_CHANGE
    issued_op_id: UUID | None = None
    """The last op_id that this process gave it."""
    running_step: RunningStep | None = None
    last_attempt: Attempt | None = None
    watched_op_id: UUID | None = None
    """The start that is watched closely, until its instance is ready or has ended."""

    @property
    def is_mine(self) -> bool:
        """Whether this process issued the op_id that the row carries."""
        return self.issued_op_id == self.row.status.op_id

    @property
    def is_acting(self) -> bool:
        """Whether a step is in flight: begun, or waiting for its turn, and without an outcome."""
        return self.running_step is not None and self.running_step.outcome is None

    @property
    def is_queued(self) -> bool:
        """Whether its step waits for others to be done first."""
        step = self.running_step
        return step is not None and step.is_queued and step.op_id == self.row.status.op_id

    @property
    def finished_step(self) -> FinishedStep | None:
        """The step whose outcome was not recorded yet."""
        step = self.running_step
        if step is None or step.outcome is None:
            return None
        return FinishedStep(step.act, step.op_id, step.outcome)


class WorkspaceCache:
    def __init__(self, store: ControllerStore) -> None:
        self._store = store
        self._known: dict[UUID, KnownWorkspace] = {}
        self._cursor: str | None = None
        self.waiting: set[UUID] = set()
        """Whom every pass looks at."""
        self.changed: set[UUID] = set()
        """Whose rows have changed since they were judged. A pass that
        fails half way must not be the only one that knew.
        """

    async def refresh(self) -> datetime:
        """Take in what changed, and return the database's time. What this
        controller wrote itself comes back too, and is no news.
        """
        changes = await self._store.changes(self._cursor)
        self.changed |= {row.id for row in changes.workspaces if self._take_in(row)}
        self._cursor = changes.cursor
        return changes.now

    def _take_in(self, row: Workspace) -> bool:
        """Return whether it was news."""
        known = self._known.get(row.id)
        if known is None:
            self._known[row.id] = KnownWorkspace(row)
        elif _is_newer(row, known.row):
            known.row = row
        else:
            return False
        return True

    def note_status(self, known: KnownWorkspace, status: Status) -> None:
        """Take in what this controller has just written, without waiting to read it back."""
        known.row = replace(known.row, status=replace(status, version=status.version + 1))

    def note_next_look(self, known: KnownWorkspace, next_look: NextLook) -> None:
        known.next_look = next_look
        if next_look is NextLook.ON_CHANGE:
            self.waiting.discard(known.row.id)
        else:
            self.waiting.add(known.row.id)

    @property
    def is_any_at_work(self) -> bool:
        """Whether an operation is under way, of those that are looked at."""
        return any(self._known[each].row.status.operation is not Operation.NONE for each in self.waiting)

    def get(self, workspace_id: UUID) -> KnownWorkspace | None:
        return self._known.get(workspace_id)

    def __iter__(self) -> Iterator[KnownWorkspace]:
        return iter(self._known.values())


def _is_newer(row: Workspace, known: Workspace) -> bool:
    if known.status.version < row.status.version:
        return True
    return known.status.version == row.status.version and known.spec != row.spec
