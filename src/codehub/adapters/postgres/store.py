"""The controller's store on PostgreSQL. A pass goes in, who lost the swap comes out. Writes the controller's columns only."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.postgres.connect import translated
from codehub.adapters.postgres.rows import from_changes, from_events, to_workspace
from codehub.adapters.postgres.sql import statements
from codehub.core.disk_space import DiskSpace, Usage
from codehub.core.membership import Member, Members
from codehub.core.progress import Progress
from codehub.ports.hints import Hints
from codehub.ports.store import Change, Changes, Loaded

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Executor, Pool
    from codehub.core.workspace import Workspace


_PREFETCH = 1_000


class PostgresControllerStore:
    def __init__(self, pool: "Pool", hints: Hints) -> None:
        self._pool = pool
        self._hints = hints
        self._sql = statements()

    async def load_due(self, *, limit: int = 10_000) -> Loaded:
        return await self._load("load_due", limit)

    async def load_idle(self, *, limit: int = 10_000) -> Loaded:
        return await self._load("load_idle", limit)

    async def load(self, workspace_ids: Sequence[UUID]) -> Loaded:
        return await self._load("load", list(workspace_ids))

    async def changes(self, cursor: str | None) -> Changes:
        if cursor is None:
            return await self._everything()
        async with translated():
            rows = await self._pool.fetch(self._sql["changes"], cursor)
        # The clock's row is always there; where nothing was found, the workspace in it is NULL.
        found = [to_workspace(row) for row in rows if row["id"] is not None]
        return Changes(rows[0]["loaded_at"], found, rows[0]["cursor"])

    async def _everything(self) -> Changes:
        """Read row by row: memory then holds the workspaces, and no second copy of them."""
        found: list[Workspace] = []
        now, seen = None, ""
        async with translated(), self._pool.acquire() as connection, connection.transaction(readonly=True):
            async for row in connection.cursor(self._sql["changes"], "0", prefetch=_PREFETCH):
                now, seen = row["loaded_at"], row["cursor"]
                if row["id"] is not None:
                    found.append(to_workspace(row))
        assert now is not None
        return Changes(now, found, seen)

    async def holds(self, workspace_id: UUID, op_id: UUID) -> datetime | None:
        async with translated():
            held_at: datetime | None = await self._pool.fetchval(self._sql["holds"], workspace_id, op_id)
            return held_at

    async def persist(self, changes: Sequence[Change]) -> frozenset[UUID]:
        if not changes:
            return frozenset()
        columns = from_changes(changes)
        ids, versions = columns[:2]
        if len(set(ids)) != len(ids):
            raise ValueError("a pass has one change per workspace")
        events = [(change.workspace_id, event) for change in changes for event in change.events]
        arguments = (*columns, *from_events(events))
        async with translated(), self._pool.acquire() as connection:
            if len(ids) == 1:  # one row alone has no order, and one statement is a transaction
                lost = await self._store_pass(connection, arguments)
            else:
                async with connection.transaction():
                    await connection.execute(self._sql["lock_pass"], ids, versions)
                    lost = await self._store_pass(connection, arguments)
        heard = (change.workspace_id for change in changes if not change.is_quiet)
        await self._hints.send([workspace_id for workspace_id in heard if workspace_id not in lost])
        return lost

    async def _store_pass(self, connection: "Executor", arguments: Sequence[object]) -> frozenset[UUID]:
        return frozenset(row[0] for row in await connection.fetch(self._sql["store_pass"], *arguments))

    async def write_progress(
        self, progress: Mapping[UUID, tuple[UUID, Progress]], ended: Collection[UUID]
    ) -> None:
        rows = [
            (
                workspace_id,
                op_id,
                one.stage,
                one.done_bytes,
                one.total_bytes,
                one.bytes_per_second,
                one.eta_seconds,
            )
            for workspace_id, (op_id, one) in progress.items()
        ]
        async with translated(), self._pool.acquire() as connection, connection.transaction():
            if rows:
                await connection.execute(self._sql["write_progress"], *map(list, zip(*rows, strict=True)))
            if ended:
                await connection.execute(self._sql["end_progress"], list(ended))

    async def write_usage(self, usages: Mapping[UUID, Usage]) -> None:
        rows = [(one, usage.memory_mb, usage.cpu, usage.disk_mb, usage.at) for one, usage in usages.items()]
        async with translated():
            await self._pool.execute(self._sql["write_usage"], *map(list, zip(*rows, strict=True)))

    async def write_shortage(self, room: DiskSpace | None) -> None:
        async with translated():
            if room is None:
                await self._pool.execute(self._sql["end_shortage"])
            else:
                await self._pool.execute(self._sql["write_shortage"], room.free_mb, room.floor_mb)

    async def forget_history(self, older_than: timedelta) -> int:
        async with translated():
            return int(await self._pool.fetchval(self._sql["forget_history"], older_than))

    async def beat(self, member: Member, *, alive_s: float, looked_at: datetime | None = None) -> Members:
        async with translated():
            alive = await self._pool.fetch(
                self._sql["beat"],
                member.id,
                member.host,
                sorted(member.backends),
                timedelta(seconds=alive_s),
                looked_at,
            )
        return {row["id"]: Member(row["id"], row["host"], frozenset(row["backends"])) for row in alive}

    async def leave(self, member_id: UUID) -> None:
        async with translated():
            await self._pool.execute(self._sql["leave"], member_id)

    async def _load(self, name: str, argument: object) -> Loaded:
        async with translated():
            rows = await self._pool.fetch(self._sql[name], argument)
        # The clock's row is always there; where nothing was found, the workspace in it is NULL.
        return Loaded(rows[0]["loaded_at"], [to_workspace(row) for row in rows if row["id"] is not None])
