"""Credentials on PostgreSQL: what requests show goes in, whom they belong to comes out, many in one question.

Only hashes leave here.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from codehub.adapters.postgres.connect import translate_errors
from codehub.adapters.postgres.rows import Row
from codehub.adapters.postgres.sql import statements
from codehub.core.access import SESSION_LASTS
from codehub.core.origins import Door
from codehub.core.visit import Visitor
from codehub.ports.proxy_lookups import Credential

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Pool


class PostgresCredentials:
    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._sql = statements()

    async def people(self, credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
        by_hash = {(credential.kind, _hash(credential)): credential for credential in credentials}
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["people"](**_hashes(credentials)))
        return {by_hash[row["kind"], bytes(row["sha256"])]: _to_visitor(row) for row in rows}

    async def note_use(self, credentials: Collection[Credential]) -> None:
        async with translate_errors():
            await self._pool.execute(*self._sql["note_uses"](**_hashes(credentials), lasts=SESSION_LASTS))


def _to_visitor(row: Row) -> Visitor:
    workspace_id = row["workspace_id"]
    door = None if workspace_id is None else Door(workspace_id, row["port"])
    return Visitor(row["id"], row["username"], may_write=row["scope"] == "write", door=door)


def _hashes(credentials: Collection[Credential]) -> dict[str, list[bytes]]:
    """Return the hashes that they are stored under, by kind."""
    return {
        f"{kind}s": [_hash(credential) for credential in credentials if credential.kind == kind]
        for kind in ("session", "token", "door")
    }


def _hash(credential: Credential) -> bytes:
    return hashlib.sha256(credential.secret).digest()
