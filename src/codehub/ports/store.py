"""The store, as its two writers see it. Each has its own columns, and the database refuses the other's (contract 3)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from codehub.core.history import Event
from codehub.core.progress import Progress
from codehub.core.wishes import Refused, Ruling
from codehub.core.workspace import Spec, Status, Workspace


@dataclass(frozen=True, slots=True)
class Change:
    """One workspace's result of a pass. `status.version` is the version it was loaded with; storing it adds 1."""

    workspace_id: UUID
    status: Status
    events: tuple[Event, ...] = ()
    is_quiet: bool = False
    """Nothing but the time of the look has changed: nobody needs a hint, least of all the one who looked."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Workspaces, and the database's time at which they were read."""

    now: datetime
    workspaces: Sequence[Workspace]


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that changed since the last look, the database's time, and what to ask the next look with."""

    now: datetime
    workspaces: Sequence[Workspace]
    cursor: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as the history holds it."""

    seq: int
    at: datetime
    workspace_id: UUID
    event: Event


@dataclass(frozen=True, slots=True)
class Ruled:
    """What was ruled, and the workspace after it."""

    ruling: Ruling
    workspace: Workspace


@dataclass(frozen=True, slots=True)
class Judgement:
    """A ruling made under the row's lock, with the events to record if it is accepted."""

    ruling: Ruling
    events: tuple[Event, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Running:
    """What takes a place, beside the workspace that is asked about: its owner's by id and name, and how many in all."""

    of_owner: Sequence[tuple[UUID, str]]
    total: int


# Says why one more running workspace is refused, or nothing.
Admit = Callable[[Running], Refused | None]


class StoreUnavailable(Exception):
    """The database can't be reached or refused the connection. Try again later; nothing was decided, the outcome may be unknown."""


class NameTaken(Exception):
    """The owner has an undeleted workspace of this name."""


class UnknownWorkspace(Exception):
    """There is no such row."""


class Contradiction(Exception):
    """What was to be stored contradicts itself or the rest: the schema refuses it. Nothing was written; the caller is wrong."""


class ControllerStore(Protocol):
    """What the controller may read and write."""

    async def changes(self, cursor: str | None) -> Changes:
        """Return every row that was written since the look which gave this cursor (None: all rows). None is missed, some may repeat."""

    async def holds(self, workspace_id: UUID, op_id: UUID) -> bool:
        """Whether the row still carries this operation: asked right before an actuator is called."""

    async def load_due(self, *, limit: int = 10_000) -> Loaded:
        """Return workspaces that are not where they should be: reads only those rows, however many others there are."""

    async def load_idle(self, *, limit: int = 10_000) -> Loaded:
        """Return workspaces whose TTL has run out: converged, RUNNING or STANDBY, unused for long enough."""

    async def load(self, workspace_ids: Sequence[UUID]) -> Loaded:
        """Return these workspaces, those of them that exist."""

    async def persist(self, changes: Sequence[Change]) -> frozenset[UUID]:
        """Store a whole pass in one transaction, each row only if its version is still the one it was loaded with.

        Returns the workspaces that lost the swap: nothing of theirs was written, no event either. Hints follow the commit.
        """

    async def write_progress(
        self, progress: Mapping[UUID, tuple[UUID, Progress]], ended: Collection[UUID]
    ) -> None:
        """Store how far operations are, each with its op_id, and forget those that have ended. Not durable."""

    async def forget_history(self, older_than: timedelta) -> int:
        """Remove events that are older than this, and return how many there were."""


class ApiStore(Protocol):
    """What the service layer may read and write."""

    async def create_user(self, user_id: UUID, *, username: str, password_hash: str, role: str) -> None:
        """Store a new user."""

    async def create_workspace(self, workspace_id: UUID, spec: Spec, events: Sequence[Event]) -> Workspace:
        """Store a new workspace or raise NameTaken."""

    async def create_counted(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], admit: Admit
    ) -> Workspace | Refused:
        """Create, unless `admit`, asked with the owner locked, refuses one more."""

    async def get(self, workspace_id: UUID) -> Workspace:
        """Return one workspace or raise UnknownWorkspace."""

    async def amend(self, workspace_id: UUID, judge: Callable[[Workspace, datetime], Judgement]) -> Ruled:
        """Lock the row, let `judge` rule on it at the database's time, and store what it accepts. Hints follow the commit.

        Raises UnknownWorkspace, or NameTaken when the accepted spec's name belongs to another undeleted workspace.
        """

    async def amend_counted(
        self, workspace_id: UUID, judge: Callable[[Workspace, datetime, Running], Judgement]
    ) -> Ruled:
        """Amend with what else is running, exact under concurrency: the owner's row is locked first, and the total."""

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        """Store when workspaces were last used, many at once. A time never goes back; unknown workspaces are passed over."""

    async def progress(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Progress]:
        """Return how far these workspaces' operations are, those of them that move bytes."""

    async def history(
        self, workspace_id: UUID, *, limit: int = 50, before_seq: int | None = None
    ) -> Sequence[Recorded]:
        """Return events of one workspace, newest first."""
