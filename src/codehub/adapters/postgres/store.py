"""The controller's store on PostgreSQL. A pass goes in, who lost the swap comes out.

Writes the controller's columns only.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.postgres.connect import translate_errors
from codehub.adapters.postgres.lineage import Lineage
from codehub.adapters.postgres.rows import from_changes, from_events, to_workspace
from codehub.adapters.postgres.sql import statements
from codehub.core.disk_space import DiskSpace, Usage
from codehub.core.membership import Member, Members
from codehub.core.progress import Progress
from codehub.ports.hints import Hints
from codehub.ports.store import Change, Changes, HistoryChanged, LoadedWorkspaces

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Pool
    from codehub.core.workspace import Workspace


_PREFETCH = 1_000


class PostgresControllerStore:
    def __init__(self, pool: "Pool", hints: Hints, lineage: Lineage | None = None) -> None:
        self._pool = pool
        self._hints = hints
        self._lineage = lineage or Lineage()
        self._sql = statements()

    async def load_idle(self, *, limit: int = 10_000) -> LoadedWorkspaces:
        return await self._load(*self._sql["load_idle"](limit=limit))

    async def load(self, workspace_ids: Sequence[UUID]) -> LoadedWorkspaces:
        return await self._load(*self._sql["load"](ids=list(workspace_ids)))

    async def changes(self, cursor: str | None) -> Changes:
        if cursor is None:
            return await self._load_all()
        history, _, transaction = cursor.partition("/")
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["changes"](cursor=transaction))
        if int(history) != self._lineage.number:
            raise HistoryChanged
        # The clock's row is always there; where nothing has changed, the workspace in it is NULL.
        workspaces = [to_workspace(row) for row in rows if row["id"] is not None]
        return Changes(rows[0]["loaded_at"], workspaces, f"{history}/{rows[0]['cursor']}")

    async def _load_all(self) -> Changes:
        """Read row by row: memory then holds the workspaces, and no second copy of them."""
        workspaces: list[Workspace] = []
        now, next_cursor = None, ""
        async with (
            translate_errors(),
            self._pool.acquire() as connection,
            connection.transaction(readonly=True),
        ):
            history = self._lineage.number
            async for row in connection.cursor(*self._sql["changes"](cursor="0"), prefetch=_PREFETCH):
                now, next_cursor = row["loaded_at"], row["cursor"]
                if row["id"] is not None:
                    workspaces.append(to_workspace(row))
        assert now is not None
        return Changes(now, workspaces, f"{history}/{next_cursor}")

    async def holds(self, workspace_id: UUID, op_id: UUID) -> datetime | None:
        async with translate_errors():
            statement = self._sql["holds"](id=workspace_id, op_id=op_id)
            now: datetime | None = await self._pool.fetchval(*statement)
            return now

    async def persist(self, changes: Sequence[Change]) -> frozenset[UUID]:
        if not changes:
            return frozenset()
        columns = from_changes(changes)
        ids = columns["id"]
        if len(set(ids)) != len(ids):
            raise ValueError("a pass has one change per workspace")
        events = [(change.workspace_id, event) for change in changes for event in change.events]
        store_pass = self._sql["store_pass"](**columns, **from_events(events))
        async with translate_errors(), self._pool.acquire() as connection:
            if len(ids) == 1:  # one row alone has no order, and one statement is a transaction
                losers = await connection.fetch(*store_pass)
            else:
                lock_pass = self._sql["lock_pass"](ids=ids, versions=columns["version"])
                async with connection.transaction():
                    await connection.execute(*lock_pass)
                    losers = await connection.fetch(*store_pass)
        lost = frozenset(row["id"] for row in losers)
        changed_ids = (change.workspace_id for change in changes if not change.is_quiet)
        await self._hints.send([workspace_id for workspace_id in changed_ids if workspace_id not in lost])
        return lost

    async def write_progress(
        self, progress: Mapping[UUID, tuple[UUID, Progress]], ended: Collection[UUID]
    ) -> None:
        reports = [report for _op_id, report in progress.values()]
        statement = self._sql["write_progress"](
            workspace_id=list(progress),
            op_id=[op_id for op_id, _report in progress.values()],
            stage=[report.stage for report in reports],
            done_bytes=[report.done_bytes for report in reports],
            total_bytes=[report.total_bytes for report in reports],
            bytes_per_second=[report.bytes_per_second for report in reports],
            eta_seconds=[report.eta_seconds for report in reports],
        )
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            if progress:
                await connection.execute(*statement)
            if ended:
                await connection.execute(*self._sql["end_progress"](ids=list(ended)))

    async def write_usage(self, usages: Mapping[UUID, Usage]) -> None:
        statement = self._sql["write_usage"](
            workspace_id=list(usages),
            memory_mb=[usage.memory_mb for usage in usages.values()],
            cpu=[usage.cpu for usage in usages.values()],
            disk_mb=[usage.disk_mb for usage in usages.values()],
            at=[usage.at for usage in usages.values()],
        )
        async with translate_errors():
            await self._pool.execute(*statement)

    async def write_shortage(self, room: DiskSpace | None) -> None:
        async with translate_errors():
            if room is None:
                await self._pool.execute(*self._sql["end_shortage"]())
            else:
                statement = self._sql["write_shortage"](free_mb=room.free_mb, floor_mb=room.floor_mb)
                await self._pool.execute(*statement)

    async def forget_history(self, older_than: timedelta) -> int:
        async with translate_errors():
            return int(await self._pool.fetchval(*self._sql["forget_history"](older_than=older_than)))

    async def beat(self, member: Member, *, alive_s: float, looked_at: datetime | None = None) -> Members:
        async with translate_errors():
            alive = await self._pool.fetch(
                *self._sql["beat"](
                    id=member.id,
                    host=member.host,
                    backends=sorted(member.backends),
                    alive=timedelta(seconds=alive_s),
                    looked_at=looked_at,
                )
            )
        return {row["id"]: Member(row["id"], row["host"], frozenset(row["backends"])) for row in alive}

    async def leave(self, member_id: UUID) -> None:
        async with translate_errors():
            await self._pool.execute(*self._sql["leave"](id=member_id))

    async def _load(self, statement: str, *arguments: object) -> LoadedWorkspaces:
        async with translate_errors():
            rows = await self._pool.fetch(statement, *arguments)
        # The clock's row is always there; where nothing fits, the workspace in it is NULL.
        return LoadedWorkspaces(
            rows[0]["loaded_at"], [to_workspace(row) for row in rows if row["id"] is not None]
        )
