"""Doors on PostgreSQL: each of the three questions is one statement. All time is the database's."""

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.postgres.connect import translate_errors
from codehub.adapters.postgres.sql import statements
from codehub.core.origins import Door
from codehub.ports.doors import CODE_LASTS, DOORS_MAX

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Pool


class PostgresDoors:
    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._sql = statements()

    async def workspace_of(self, label: str) -> UUID | None:
        async with translate_errors():
            workspace_id: UUID | None = await self._pool.fetchval(
                *self._sql["workspace_of_label"](label=label)
            )
        return workspace_id

    async def issue_code(
        self,
        code_sha256: bytes,
        door: Door,
        *,
        session_sha256: bytes,
        challenge: bytes,
        path: str,
        lasts: timedelta = CODE_LASTS,
    ) -> bool:
        async with translate_errors():
            is_issued = await self._pool.fetchval(
                *self._sql["issue_code"](
                    code_sha256=code_sha256,
                    session_sha256=session_sha256,
                    workspace_id=door.workspace_id,
                    port=door.port,
                    challenge=challenge,
                    path=path,
                    lasts=lasts,
                )
            )
        return is_issued is True

    async def open_door(
        self, code_sha256: bytes, door_sha256: bytes, door: Door, *, challenge: bytes
    ) -> str | None:
        async with translate_errors():
            path: str | None = await self._pool.fetchval(
                *self._sql["open_door"](
                    code_sha256=code_sha256,
                    door_sha256=door_sha256,
                    workspace_id=door.workspace_id,
                    port=door.port,
                    challenge=challenge,
                    most=DOORS_MAX,
                )
            )
        return path
