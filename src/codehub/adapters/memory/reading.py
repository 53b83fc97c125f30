"""What the API and the dashboard read of the store in memory: pages, streams, counts. Writes nothing."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from codehub.adapters.memory.access import Users
from codehub.adapters.memory.faults import Faults
from codehub.core.disk_space import DiskSpace, Usage
from codehub.core.history import EventKind
from codehub.core.idle import sleeps_at
from codehub.core.listing import list_position
from codehub.core.operations import Operation, Phase
from codehub.core.progress import Progress
from codehub.core.requests import in_trash
from codehub.core.workspace import Workspace, counts_as_running, is_deleted
from codehub.ports.store import (
    Feed,
    FeedEvent,
    MemberHeartbeat,
    PageQuery,
    Position,
    Recorded,
    WorkspaceProgress,
)


class MemoryReading:
    """Commits are in order here, so an event's number is its position."""

    def __init__(self, users: Users, now: Callable[[], datetime], faults: Faults) -> None:
        self._users = users
        self._now = now
        self._faults = faults
        self._workspaces: dict[UUID, Workspace] = {}
        self._history: list[Recorded] = []
        self._progress: dict[UUID, tuple[UUID, Progress]] = {}
        self._usages: dict[UUID, Usage] = {}
        self._shortage: DiskSpace | None = None
        self._members: dict[UUID, MemberHeartbeat] = {}

    async def page(self, query: PageQuery) -> Sequence[Workspace]:
        await self._faults("load")
        rows = sorted(self._workspaces.values(), key=list_position, reverse=True)
        return [row for row in rows if self._is_wanted(row, query)][: query.limit]

    async def several(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Workspace]:
        await self._faults("load")
        return {
            workspace_id: self._workspaces[workspace_id]
            for workspace_id in workspace_ids
            if workspace_id in self._workspaces
        }

    async def usernames(self, user_ids: Collection[UUID]) -> Mapping[UUID, str]:
        users = self._users
        return {user_id: users[user_id].user.username for user_id in user_ids if user_id in users}

    async def count_running(self, owner_user_id: UUID) -> int:
        rows = self._workspaces.values()
        return sum(row.spec.owner_user_id == owner_user_id and counts_as_running(row) for row in rows)

    async def now(self) -> datetime:
        return self._now()

    async def members(self, *, within_s: float = 3600.0) -> Sequence[MemberHeartbeat]:
        since = self._now() - timedelta(seconds=within_s)
        members = [member for member in self._members.values() if member.at >= since]
        return sorted(members, key=lambda member: member.at, reverse=True)

    async def phases(self) -> Mapping[Phase, int]:
        return Counter(row.status.phase for row in self._workspaces.values())

    async def feed(self, after: Position, *, limit: int, owner_user_id: UUID | None = None) -> Feed:
        await self._faults("load")
        later = [
            self._feed_event(recorded)
            for recorded in self._history
            if recorded.seq > after.seq and owner_user_id in (None, self._owner(recorded.workspace_id))
        ][:limit]
        return Feed(later, later[-1].position if later else after, is_held_back=False)

    async def feed_end(self) -> Position:
        await self._faults("load")
        return Position(0, self._history[-1].seq if self._history else 0)

    async def feed_position(self, seq: int) -> Position | None:
        await self._faults("load")
        return Position(0, seq) if any(recorded.seq == seq for recorded in self._history) else None

    async def all_progress(self) -> Sequence[WorkspaceProgress]:
        await self._faults("load")
        return [
            WorkspaceProgress(workspace_id, self._owner(workspace_id), progress)
            for workspace_id, (op_id, progress) in self._progress.items()
            if self._has_operation(workspace_id, op_id)
        ]

    async def sleeping_soon(self, within: timedelta) -> Sequence[Workspace]:
        await self._faults("load")
        until = self._now() + within
        return [
            row for row in self._workspaces.values() if (at := sleeps_at(row)) is not None and at <= until
        ]

    async def usages(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Usage]:
        await self._faults("load")
        return {
            workspace_id: self._usages[workspace_id]
            for workspace_id in workspace_ids
            if workspace_id in self._usages
        }

    async def shortage(self) -> DiskSpace | None:
        await self._faults("load")
        return self._shortage

    async def progress(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Progress]:
        await self._faults("load")
        stored = {
            workspace_id: self._progress[workspace_id]
            for workspace_id in workspace_ids
            if workspace_id in self._progress
        }
        return {
            workspace_id: progress
            for workspace_id, (op_id, progress) in stored.items()
            if self._has_operation(workspace_id, op_id)
        }

    async def history(
        self, workspace_id: UUID, *, limit: int = 50, before_seq: int | None = None
    ) -> Sequence[Recorded]:
        await self._faults("load")
        newest_first = (
            recorded
            for recorded in reversed(self._history)
            if recorded.workspace_id == workspace_id and (before_seq is None or recorded.seq < before_seq)
        )
        return [recorded for recorded, _number in zip(newest_first, range(limit), strict=False)]

    def _is_wanted(self, row: Workspace, query: PageQuery) -> bool:
        spec, phase = row.spec, row.status.phase
        texts = (spec.name.lower(), (spec.description or "").lower())
        return (
            query.owner_user_id in (None, spec.owner_user_id)
            and list_position(row) < query.after
            and query.phase in (None, phase)
            and (query.search_text is None or any(query.search_text.lower() in text for text in texts))
            and (in_trash(row, self._now()) if query.deleted else not is_deleted(row))
        )

    def _feed_event(self, recorded: Recorded) -> FeedEvent:
        event = recorded.event
        is_end = event.kind is EventKind.PHASE and event.after == Phase.DELETED
        position = Position(0, recorded.seq)
        return FeedEvent(position, recorded.workspace_id, self._owner(recorded.workspace_id), is_end)

    def _owner(self, workspace_id: UUID) -> UUID:
        return self._workspaces[workspace_id].spec.owner_user_id

    def _has_operation(self, workspace_id: UUID, op_id: UUID) -> bool:
        row = self._workspaces.get(workspace_id)
        return row is not None and row.status.op_id == op_id and row.status.operation is not Operation.NONE
