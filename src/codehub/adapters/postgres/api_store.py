"""The API's store on PostgreSQL. Requests go in under the row's lock, workspaces come out. Writes the API's columns only."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.postgres.connect import translated
from codehub.adapters.postgres.rows import from_events, from_spec, to_recorded, to_workspace
from codehub.adapters.postgres.sql import statements
from codehub.core.history import Event
from codehub.core.progress import Progress
from codehub.core.wishes import Accepted, Refused
from codehub.core.workspace import Spec, Workspace
from codehub.ports.hints import Hints
from codehub.ports.store import Admit, Judgement, Recorded, Ruled, Running, UnknownWorkspace

if TYPE_CHECKING:
    import asyncpg

    from codehub.adapters.postgres.connect import Executor, Pool


class PostgresApiStore:
    def __init__(self, pool: "Pool", hints: Hints) -> None:
        self._pool = pool
        self._hints = hints
        self._sql = statements()

    async def create_user(self, user_id: UUID, *, username: str, password_hash: str, role: str) -> None:
        async with translated():
            await self._pool.execute(self._sql["create_user"], user_id, username, password_hash, role)

    async def create_workspace(self, workspace_id: UUID, spec: Spec, events: Sequence[Event]) -> Workspace:
        async with translated(), self._pool.acquire() as connection, connection.transaction():
            created = await self._create(connection, workspace_id, spec, events)
        await self._hints.send({workspace_id})
        return created

    async def create_counted(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], admit: Admit
    ) -> Workspace | Refused:
        async with translated(), self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self._sql["lock_owner"], spec.owner_user_id)
            refused = admit(await self._running(connection, workspace_id, spec.owner_user_id))
            if refused is not None:
                return refused
            created = await self._create(connection, workspace_id, spec, events)
        await self._hints.send({workspace_id})
        return created

    async def _create(
        self, connection: "Executor", workspace_id: UUID, spec: Spec, events: Sequence[Event]
    ) -> Workspace:
        row = await connection.fetchrow(self._sql["create_workspace"], workspace_id, *from_spec(spec))
        await self._record(connection, workspace_id, events)
        return to_workspace(_found(row, workspace_id))

    async def get(self, workspace_id: UUID) -> Workspace:
        async with translated():
            row = await self._pool.fetchrow(self._sql["get"], workspace_id)
        return to_workspace(_found(row, workspace_id))

    async def amend(self, workspace_id: UUID, judge: Callable[[Workspace, datetime], Judgement]) -> Ruled:
        async with translated(), self._pool.acquire() as connection, connection.transaction():
            ruled = await self._amend(connection, workspace_id, judge)
        return await self._hinted(ruled)

    async def amend_counted(
        self, workspace_id: UUID, judge: Callable[[Workspace, datetime, Running], Judgement]
    ) -> Ruled:
        async with translated(), self._pool.acquire() as connection, connection.transaction():
            owner = _found(await connection.fetchrow(self._sql["lock_owner_of"], workspace_id), workspace_id)
            running = await self._running(connection, workspace_id, owner["id"])
            ruled = await self._amend(connection, workspace_id, lambda row, now: judge(row, now, running))
        return await self._hinted(ruled)

    async def _amend(
        self, connection: "Executor", workspace_id: UUID, judge: Callable[[Workspace, datetime], Judgement]
    ) -> Ruled:
        row = _found(await connection.fetchrow(self._sql["lock"], workspace_id), workspace_id)
        workspace = to_workspace(row)
        judgement = judge(workspace, row["loaded_at"])
        ruling = judgement.ruling
        if not isinstance(ruling, Accepted):
            return Ruled(ruling, workspace)
        amended = await connection.fetchrow(self._sql["amend"], workspace_id, *from_spec(ruling.spec))
        await self._record(connection, workspace_id, judgement.events)
        return Ruled(ruling, to_workspace(_found(amended, workspace_id)))

    async def _hinted(self, ruled: Ruled) -> Ruled:
        if isinstance(ruled.ruling, Accepted):
            await self._hints.send({ruled.workspace.id})
        return ruled

    async def _running(self, connection: "Executor", workspace_id: UUID, owner_id: UUID) -> Running:
        """Count what runs, with the owner locked: nobody else can add to it until this transaction ends."""
        await connection.execute(self._sql["lock_total"])
        mine = await connection.fetch(self._sql["running_of_owner"], owner_id, workspace_id)
        total = await connection.fetchval(self._sql["running_in_all"], workspace_id)
        return Running([(row["id"], row["name"]) for row in mine], total)

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        async with translated():
            await self._pool.execute(self._sql["touch"], list(accesses), list(accesses.values()))

    async def progress(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Progress]:
        async with translated():
            rows = await self._pool.fetch(self._sql["progress"], list(workspace_ids))
        return {row["workspace_id"]: Progress(*tuple(row)[1:]) for row in rows}

    async def history(
        self, workspace_id: UUID, *, limit: int = 50, before_seq: int | None = None
    ) -> Sequence[Recorded]:
        async with translated():
            rows = await self._pool.fetch(self._sql["history"], workspace_id, before_seq, limit)
        return [to_recorded(row) for row in rows]

    async def _record(self, connection: "Executor", workspace_id: UUID, events: Sequence[Event]) -> None:
        if events:
            arguments = from_events([(workspace_id, event) for event in events])
            await connection.execute(self._sql["record_events"], *arguments)


def _found(row: "asyncpg.Record | None", workspace_id: UUID) -> "asyncpg.Record":
    if row is None:
        raise UnknownWorkspace(str(workspace_id))
    return row
