"""The store, as its two writers see it.

Each has its own columns, and the database refuses the other's (contract 3).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from codehub.core.amendments import RulingRecord, Running
from codehub.core.disk_space import DiskSpace, Usage
from codehub.core.history import Event
from codehub.core.listing import BEFORE_ALL, ListPosition
from codehub.core.membership import Member, Members
from codehub.core.operations import Phase
from codehub.core.progress import Progress
from codehub.core.requests import Refused, Ruling
from codehub.core.workspace import Spec, Status, StorageBackend, Workspace


@dataclass(frozen=True, slots=True)
class Change:
    """One workspace's result of a pass.

    `status.version` is the version it was loaded with; storing it adds 1.
    """

    workspace_id: UUID
    status: Status
    events: tuple[Event, ...] = ()
    revision: int | None = None
    """The request that it answers: the swap is lost if there is a newer one.

    None: it holds whatever was asked since.
    """
    recover_at: datetime | None = None
    """With a revision: the last recovery that was known.

    It moves no revision, and a later one may choose something else.
    """
    is_quiet: bool = False
    """Nothing but the time of the look has changed: nobody needs a hint, least of all the one who looked."""


@dataclass(frozen=True, slots=True)
class LoadedWorkspaces:
    """Workspaces, and the database's time at which they were read."""

    now: datetime
    workspaces: Sequence[Workspace]


@dataclass(frozen=True, slots=True)
class PlacesInUse:
    """Where something of a workspace lies by now: whether there is any archive, and which storage holds
    homes.
    """

    has_archives: bool
    homes: frozenset[StorageBackend]


class HistoryChanged(Exception):
    """The database's history is not the one that was read from:
    after a fail-over what was written last may be gone.

    Whoever remembers anything begins anew.
    """


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
class Key:
    """A caller's idempotency key for one creation, and the hash of its body."""

    word: str
    body_sha256: bytes


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which workspaces to list, pinned ones first (core/listing.py). None: all of them. `deleted`: those that
    can be undeleted, instead of the others.
    """

    limit: int
    owner_user_id: UUID | None = None
    after: ListPosition = BEFORE_ALL
    search_text: str | None = None
    phase: Phase | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the history that no event can come before any more."""

    xact: int
    seq: int


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """What a stream needs to know of an event."""

    position: Position
    workspace_id: UUID
    owner_user_id: UUID
    is_end: bool
    """The workspace became DELETED with it."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Events after a position, in order; where to go on; and whether some are there that can't be
    read yet.
    """

    events: Sequence[FeedEvent]
    position: Position
    is_held_back: bool


@dataclass(frozen=True, slots=True)
class WorkspaceProgress:
    """A workspace whose bytes move, and how far they are."""

    workspace_id: UUID
    owner_user_id: UUID
    progress: Progress


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """A controller, and when it was last heard of."""

    member: Member
    at: datetime
    looked_at: datetime | None
    """All that it handles was looked at after this.

    None: not yet, or not since somebody else came or went.
    """


# Says why one more running workspace is refused, or nothing.
Admit = Callable[[Running], Refused | None]


class StoreUnavailable(Exception):
    """The database can't be reached or refused the connection.

    Try again later; nothing was decided, the outcome may be unknown.
    """


class NameTaken(Exception):
    """The owner has an undeleted workspace of this name."""


class KeyReused(Exception):
    """The key was used before, for something else."""


class UnknownWorkspace(Exception):
    """There is no such row."""


class Contradiction(Exception):
    """What was to be stored contradicts itself or the rest: the schema refuses it.

    Nothing was written; the caller is wrong.
    """


class ControllerStore(Protocol):
    """What the controller may read and write."""

    async def changes(self, cursor: str | None) -> Changes:
        """Return every row that was written since the look which gave this cursor (None: all rows).

        None is missed, some may repeat. Raises HistoryChanged.
        """

    async def holds(self, workspace_id: UUID, op_id: UUID) -> datetime | None:
        """Return the database's time if the row still carries this operation: asked right before an actuator
        is called, and before an archive is committed.
        """

    async def load_idle(self, *, limit: int = 10_000) -> LoadedWorkspaces:
        """Return workspaces whose TTL has run out: converged, RUNNING or STANDBY, unused for long enough."""

    async def load(self, workspace_ids: Sequence[UUID]) -> LoadedWorkspaces:
        """Return these workspaces, those of them that exist."""

    async def persist(self, changes: Sequence[Change]) -> frozenset[UUID]:
        """Store a whole pass in one transaction, each row only if its version, and the request it names, are
        still the same.

        Returns the workspaces that lost the swap: nothing of theirs was written, no event either. Hints
        follow the commit.
        """

    async def write_progress(
        self, progress: Mapping[UUID, tuple[UUID, Progress]], ended: Collection[UUID]
    ) -> None:
        """Store how far operations are, each with its op_id, and forget those that have ended.

        Not durable.
        """

    async def forget_history(self, older_than: timedelta) -> int:
        """Remove events that are older than this, and return how many there were."""

    async def beat(self, member: Member, *, alive_s: float, looked_at: datetime | None = None) -> Members:
        """Note that this controller lives, and when it looked at all it handles; return all who were heard of
        within so many seconds, by the database's time.
        """

    async def leave(self, member_id: UUID) -> None:
        """Forget this controller at once."""


class RoomStore(Protocol):
    """What the disk guard may write. None of it is durable: after a crash it is measured again."""

    async def load(self, workspace_ids: Sequence[UUID]) -> LoadedWorkspaces:
        """Return these workspaces, those of them that exist."""

    async def write_usage(self, usages: Mapping[UUID, Usage]) -> None:
        """Store what workspaces use, those of them that exist."""

    async def write_shortage(self, room: DiskSpace | None) -> None:
        """Store how little room is left, or that there is enough."""


class ApiStore(Protocol):
    """What the service layer may read and write."""

    async def create_workspace(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], key: Key | None = None
    ) -> Workspace:
        """Store a new workspace or raise NameTaken.

        A key that made one before returns that one, or raises KeyReused.
        """

    async def create_counted(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], admit: Admit, key: Key | None = None
    ) -> Workspace | Refused:
        """Create, unless `admit`, asked with the owner locked, refuses one more."""

    async def get(self, workspace_id: UUID) -> Workspace:
        """Return one workspace or raise UnknownWorkspace."""

    async def load(self, workspace_ids: Collection[UUID]) -> LoadedWorkspaces:
        """Return these workspaces, those of them that exist, and the database's time."""

    async def amend(self, workspace_id: UUID, rule: Callable[[Workspace, datetime], RulingRecord]) -> Ruled:
        """Lock the row, apply `rule` to it at the database's time, and store what it accepts. Hints follow
        the commit.

        Raises UnknownWorkspace, or NameTaken when the accepted spec's name belongs to another undeleted
        workspace.
        """

    async def amend_counted(
        self, workspace_id: UUID, rule: Callable[[Workspace, datetime, Running], RulingRecord]
    ) -> Ruled:
        """Amend with what else is running, exact under concurrency: the owner's row is locked first, and the
        total.
        """

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        """Store when workspaces were last used, many at once.

        A time never goes back; unknown workspaces are passed over.
        """

    async def usages(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Usage]:
        """Return what these workspaces use, as far as it was measured."""

    async def shortage(self) -> DiskSpace | None:
        """Return how little room is left on a disk, if nothing starts because of it."""

    async def progress(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Progress]:
        """Return how far these workspaces' operations are, those of them that move bytes."""

    async def page(self, query: PageQuery) -> Sequence[Workspace]:
        """Return workspaces in the order of lists. One that has not changed is the same object as before."""

    async def several(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Workspace]:
        """Return these workspaces, those of them that exist.

        One that has not changed is the same object as before.
        """

    async def usernames(self, user_ids: Collection[UUID]) -> Mapping[UUID, str]:
        """Return what people are called. A name never changes."""

    async def count_running(self, owner_user_id: UUID) -> int:
        """Return how many places somebody takes."""

    async def now(self) -> datetime:
        """Return the database's time."""

    async def members(self, *, within_s: float = 3600.0) -> Sequence[MemberHeartbeat]:
        """Return the controllers that were heard of within that time and have not left, the latest first."""

    async def phases(self) -> Mapping[Phase, int]:
        """Return how many workspaces are in each phase."""

    async def feed(self, after: Position, *, limit: int, owner_user_id: UUID | None = None) -> Feed:
        """Return the next events of everybody, or of one owner.

        None is missed, however transactions overlap.
        """

    async def feed_end(self) -> Position:
        """Return the position after everything that can be read now."""

    async def feed_position(self, seq: int) -> Position | None:
        """Return the position right after this event; None if it is not in the history (any more)."""

    async def all_progress(self) -> Sequence[WorkspaceProgress]:
        """Return every workspace whose bytes move."""

    async def sleeping_soon(self, within: timedelta) -> Sequence[Workspace]:
        """Return running workspaces that will be stopped within that time if nobody uses them."""

    async def history(
        self, workspace_id: UUID, *, limit: int = 50, before_seq: int | None = None
    ) -> Sequence[Recorded]:
        """Return events of one workspace, newest first."""
