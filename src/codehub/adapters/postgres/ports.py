"""Shared ports on PostgreSQL. Requests go in under the workspace's lock."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.postgres.connect import repeat_on_new_schema, translate_errors
from codehub.adapters.postgres.rows import from_events, to_workspace
from codehub.adapters.postgres.sql import statements
from codehub.core.requests import Refused
from codehub.core.visibility import SharedPort, Visibility
from codehub.ports.hints import Hints
from codehub.ports.shared_ports import ShareRule, ShareRuled
from codehub.ports.store import UnknownWorkspace

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Executor, Pool


class PostgresSharedPorts:
    def __init__(self, pool: "Pool", hints: Hints) -> None:
        self._pool = pool
        self._hints = hints
        self._sql = statements()

    async def shared(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Mapping[int, SharedPort]]:
        async with translate_errors(), self._pool.acquire() as connection:
            return await self._shared(connection, workspace_ids)

    async def amend(self, workspace_id: UUID, rule: ShareRule) -> ShareRuled:
        ruled, is_changed = await self._amend(workspace_id, rule)
        if is_changed:
            await self._hints.send({workspace_id})
        return ruled

    @repeat_on_new_schema
    async def _amend(self, workspace_id: UUID, rule: ShareRule) -> tuple[ShareRuled, bool]:
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(*self._sql["lock"](id=workspace_id))
            if row is None:
                raise UnknownWorkspace(str(workspace_id))
            shares = (await self._shared(connection, [workspace_id])).get(workspace_id, {})
            workspace = to_workspace(row)
            record = rule(workspace, shares, row["loaded_at"])
            share = record.ruling
            if isinstance(share, Refused) or not record.events:
                return ShareRuled(share, workspace), False
            await connection.execute(*self._sql["forget_ports"](id=workspace_id, port=share.port))
            if share.visibility is not Visibility.PRIVATE:
                await connection.execute(
                    *self._sql["share_port"](
                        id=workspace_id,
                        port=share.port,
                        visibility=share.visibility,
                        expires_at=share.expires_at,
                    )
                )
            events = from_events([(workspace_id, event) for event in record.events])
            await connection.execute(*self._sql["record_events"](**events))
        return ShareRuled(share, workspace), True

    async def _shared(
        self, executor: "Executor", workspace_ids: Collection[UUID]
    ) -> Mapping[UUID, Mapping[int, SharedPort]]:
        rows = await executor.fetch(*self._sql["shared_ports"](ids=list(workspace_ids)))
        shared: dict[UUID, dict[int, SharedPort]] = {}
        for workspace_id, port, visibility, expires_at in rows:
            share = SharedPort(port, Visibility(visibility), expires_at)
            shared.setdefault(workspace_id, {})[port] = share
        return shared
