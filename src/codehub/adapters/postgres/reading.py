"""What the API and the dashboard read of the store on PostgreSQL: pages, streams, counts. Writes nothing."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.postgres.connect import translate_errors
from codehub.adapters.postgres.known_rows import KnownRows
from codehub.adapters.postgres.lineage import Lineage
from codehub.adapters.postgres.rows import Row, to_workspace
from codehub.adapters.postgres.sql import statements
from codehub.core.membership import Member
from codehub.core.operations import Phase
from codehub.core.progress import Progress
from codehub.core.workspace import StorageBackend, Workspace
from codehub.ports.store import (
    Feed,
    FeedEvent,
    LoadedWorkspaces,
    MemberHeartbeat,
    PageQuery,
    PlacesInUse,
    Position,
    WorkspaceProgress,
)

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Pool


class PostgresReading:
    def __init__(self, pool: "Pool", lineage: Lineage | None) -> None:
        self._pool = pool
        self._sql = statements()
        self._rows = KnownRows(lineage or Lineage())

    async def page(self, query: PageQuery) -> Sequence[Workspace]:
        pattern = None if query.search_text is None else f"%{_literal(query.search_text)}%"
        parameters = {
            "pinned_at": query.after.pinned_at,
            "id": query.after.workspace_id,
            "phase": query.phase,
            "search_text": pattern,
            "deleted": query.deleted,
            "limit": query.limit,
        }
        if query.owner_user_id is None:
            statement = self._sql["page_of_all"](**parameters)
        else:
            statement = self._sql["page_of_owner"](owner_user_id=query.owner_user_id, **parameters)
        async with translate_errors():
            stamps = await self._pool.fetch(*statement)
        current = await self._current(stamps)
        return [current[stamp["id"]] for stamp in stamps if stamp["id"] in current]

    async def several(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Workspace]:
        async with translate_errors():
            stamps = await self._pool.fetch(*self._sql["stamps"](ids=list(workspace_ids)))
        return await self._current(stamps)

    async def load(self, workspace_ids: Collection[UUID]) -> LoadedWorkspaces:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["load"](ids=list(workspace_ids)))
        # The clock's row is always there; where nothing was found, the workspace in it is NULL.
        return LoadedWorkspaces(
            rows[0]["loaded_at"], [to_workspace(row) for row in rows if row["id"] is not None]
        )

    async def places_in_use(self) -> PlacesInUse:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["places_in_use"]())
        assert row is not None
        return PlacesInUse(row["has_archives"], frozenset(map(StorageBackend, row["homes"])))

    async def usernames(self, user_ids: Collection[UUID]) -> Mapping[UUID, str]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["usernames"](ids=list(user_ids)))
        return {row["id"]: row["username"] for row in rows}

    async def count_running(self, owner_user_id: UUID) -> int:
        async with translate_errors():
            statement = self._sql["count_running"](owner_user_id=owner_user_id)
            return int(await self._pool.fetchval(*statement))

    async def now(self) -> datetime:
        async with translate_errors():
            now: datetime = await self._pool.fetchval(*self._sql["now"]())
        return now

    async def members(self, *, within_s: float = 3600.0) -> Sequence[MemberHeartbeat]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["members"](within=timedelta(seconds=within_s)))
        return [
            MemberHeartbeat(
                Member(row["id"], row["host"], frozenset(row["backends"])),
                row["heartbeat_at"],
                row["looked_at"],
            )
            for row in rows
        ]

    async def phases(self) -> Mapping[Phase, int]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["phases"]())
        return {Phase(row["phase"]): row["count"] for row in rows}

    async def feed(self, after: Position, *, limit: int, owner_user_id: UUID | None = None) -> Feed:
        since = {"xact": str(after.xact), "seq": after.seq, "limit": limit}
        if owner_user_id is None:
            statement = self._sql["feed"](**since)
        else:
            statement = self._sql["feed_of_owner"](owner_user_id=owner_user_id, **since)
        async with translate_errors():
            rows = await self._pool.fetch(*statement)
        # The row of the open transactions is always there; where there is no event, the event in it is NULL.
        later = [row for row in rows if row["seq"] is not None]
        position = _to_position(later[-1]) if later else after
        events = [
            FeedEvent(_to_position(row), row["workspace_id"], row["owner_user_id"], row["is_end"])
            for row in later
        ]
        return Feed(events, position, rows[0]["is_held_back"])

    async def feed_end(self) -> Position:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["feed_end"]())
        return Position(0, 0) if row is None else _to_position(row)

    async def feed_position(self, seq: int) -> Position | None:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["feed_position"](seq=seq))
        return None if row is None else _to_position(row)

    async def all_progress(self) -> Sequence[WorkspaceProgress]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["all_progress"]())
        return [WorkspaceProgress(row["id"], row["owner_user_id"], Progress(*tuple(row)[2:])) for row in rows]

    async def sleeping_soon(self, within: timedelta) -> Sequence[Workspace]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["sleeping_soon"](within=within))
        return [self._rows.take(row) for row in rows]

    async def _current(self, stamps: Sequence[Row]) -> Mapping[UUID, Workspace]:
        current, missing = self._rows.compare(stamps)
        if missing:
            async with translate_errors():
                rows = await self._pool.fetch(*self._sql["several"](ids=missing))
            current.update((row["id"], self._rows.take(row)) for row in rows)
        return current


def _to_position(row: Row) -> Position:
    return Position(int(row["xact"]), row["seq"])


def _literal(text: str) -> str:
    """Escape a text for LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
