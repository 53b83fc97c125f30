"""The API's store on PostgreSQL. Requests go in under the row's lock, workspaces come out.

Writes the API's columns only.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.adapters.postgres.connect import repeat_on_new_schema, translate_errors
from codehub.adapters.postgres.lineage import Lineage
from codehub.adapters.postgres.reading import PostgresReading
from codehub.adapters.postgres.rows import from_events, from_spec, to_recorded, to_workspace
from codehub.core.amendments import RulingRecord, Running
from codehub.core.disk_space import DiskSpace, Usage
from codehub.core.history import Event
from codehub.core.operations import Phase
from codehub.core.progress import Progress
from codehub.core.requests import Accepted, Refused
from codehub.core.workspace import Spec, Workspace
from codehub.ports.hints import Hints
from codehub.ports.store import Admit, Key, KeyReused, Recorded, Ruled, UnknownWorkspace

if TYPE_CHECKING:
    import asyncpg

    from codehub.adapters.postgres.connect import Executor, Pool


# Counting waits for a lock that all requests share. They wait here without a connection, which readers need.
_COUNTING_MAX = 2


class PostgresApiStore(PostgresReading):
    def __init__(self, pool: "Pool", hints: Hints, lineage: Lineage | None = None) -> None:
        super().__init__(pool, lineage)
        self._hints = hints
        self._counting_slots = asyncio.Semaphore(_COUNTING_MAX)

    async def create_workspace(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], key: Key | None = None
    ) -> Workspace:
        created = await self.create_counted(workspace_id, spec, events, None, key)
        assert isinstance(created, Workspace)
        return created

    @repeat_on_new_schema
    async def create_counted(
        self,
        workspace_id: UUID,
        spec: Spec,
        events: Sequence[Event],
        admit: Admit | None,
        key: Key | None = None,
    ) -> Workspace | Refused:
        owner_id = spec.owner_user_id
        async with (
            self._counting_slots,
            translate_errors(),
            self._pool.acquire() as connection,
            connection.transaction(),
        ):
            if key is not None or admit is not None:
                await connection.execute(*self._sql["lock_owner"](user_id=owner_id))
            if (
                key is not None
                and (workspace := await self._find_created(connection, owner_id, key)) is not None
            ):
                return workspace
            if admit is not None:
                refused = admit(await self._count_running(connection, workspace_id, owner_id))
                if refused is not None:
                    return refused
            create = self._sql["create_workspace"](id=workspace_id, **from_spec(spec))
            row = await connection.fetchrow(*create)
            if events:
                await connection.execute(*self._record_events(workspace_id, events))
            if key is not None:
                note_key = self._sql["note_key"](
                    owner_user_id=owner_id,
                    key=key.word,
                    body_sha256=key.body_sha256,
                    workspace_id=workspace_id,
                )
                await connection.execute(*note_key)
        await self._hints.send({workspace_id})
        return self._rows.take(_require_row(row, workspace_id))

    async def _find_created(self, connection: "Executor", owner_id: UUID, key: Key) -> Workspace | None:
        """Return what this key has made, with the owner locked: two of the same at once make one."""
        await connection.execute(*self._sql["forget_keys"](owner_user_id=owner_id))
        stored_key = await connection.fetchrow(*self._sql["used_key"](owner_user_id=owner_id, key=key.word))
        if stored_key is None:
            return None
        if stored_key["body_sha256"] != key.body_sha256:
            raise KeyReused(key.word)
        workspace_id: UUID = stored_key["workspace_id"]
        row = await connection.fetchrow(*self._sql["get"](id=workspace_id))
        return self._rows.take(_require_row(row, workspace_id))

    async def get(self, workspace_id: UUID) -> Workspace:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["get"](id=workspace_id))
        return self._rows.take(_require_row(row, workspace_id))

    @repeat_on_new_schema
    async def amend(self, workspace_id: UUID, rule: Callable[[Workspace, datetime], RulingRecord]) -> Ruled:
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            result = await self._amend(connection, workspace_id, rule)
        if isinstance(result.ruling, Accepted):
            await self._hints.send({workspace_id})
        return result

    @repeat_on_new_schema
    async def amend_counted(
        self, workspace_id: UUID, rule: Callable[[Workspace, datetime, Running], RulingRecord]
    ) -> Ruled:
        async with (
            self._counting_slots,
            translate_errors(),
            self._pool.acquire() as connection,
            connection.transaction(),
        ):
            lock_owner = self._sql["lock_owner_of"](workspace_id=workspace_id)
            owner = _require_row(await connection.fetchrow(*lock_owner), workspace_id)
            running = await self._count_running(connection, workspace_id, owner["id"])
            result = await self._amend(connection, workspace_id, lambda row, now: rule(row, now, running))
        if isinstance(result.ruling, Accepted):
            await self._hints.send({workspace_id})
        return result

    async def _amend(
        self, connection: "Executor", workspace_id: UUID, rule: Callable[[Workspace, datetime], RulingRecord]
    ) -> Ruled:
        row = _require_row(await connection.fetchrow(*self._sql["lock"](id=workspace_id)), workspace_id)
        workspace = to_workspace(row)
        record = rule(workspace, row["loaded_at"])
        ruling = record.ruling
        if not isinstance(ruling, Accepted):
            return Ruled(ruling, workspace)
        amend = self._sql["amend"](id=workspace_id, **from_spec(ruling.spec))
        amended_row = await connection.fetchrow(*amend)
        if record.events:
            await connection.execute(*self._record_events(workspace_id, record.events))
        return Ruled(ruling, self._rows.take(_require_row(amended_row, workspace_id)))

    async def _count_running(self, connection: "Executor", workspace_id: UUID, owner_id: UUID) -> Running:
        """Count what runs, with the owner locked: nobody else can add to it until this transaction ends."""
        await connection.execute(*self._sql["lock_total"]())
        of_owner = {"owner_user_id": owner_id, "beside": workspace_id}
        rows = await connection.fetch(*self._sql["running_of_owner"](**of_owner))
        total = await connection.fetchval(*self._sql["running_in_all"](beside=workspace_id))
        owned_count = await connection.fetchval(*self._sql["owned"](**of_owner))
        return Running([(row["id"], row["name"], Phase(row["phase"])) for row in rows], total, owned_count)

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        async with translate_errors():
            statement = self._sql["touch"](ids=list(accesses), times=list(accesses.values()))
            await self._pool.execute(*statement)

    async def usages(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Usage]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["usages"](ids=list(workspace_ids)))
        return {row["workspace_id"]: Usage(*tuple(row)[1:]) for row in rows}

    async def shortage(self) -> DiskSpace | None:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["shortage"]())
        return None if row is None else DiskSpace(*row)

    async def progress(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Progress]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["progress"](ids=list(workspace_ids)))
        return {row["workspace_id"]: Progress(*tuple(row)[1:]) for row in rows}

    async def history(
        self, workspace_id: UUID, *, limit: int = 50, before_seq: int | None = None
    ) -> Sequence[Recorded]:
        async with translate_errors():
            statement = self._sql["history"](workspace_id=workspace_id, before_seq=before_seq, limit=limit)
            rows = await self._pool.fetch(*statement)
        return [to_recorded(row) for row in rows]

    def _record_events(self, workspace_id: UUID, events: Sequence[Event]) -> tuple[Any, ...]:
        return self._sql["record_events"](**from_events([(workspace_id, event) for event in events]))


def _require_row(row: "asyncpg.Record | None", workspace_id: UUID) -> "asyncpg.Record":
    if row is None:
        raise UnknownWorkspace(str(workspace_id))
    return row
