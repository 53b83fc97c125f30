"""Credentials on PostgreSQL: what requests show goes in, whom they belong to comes out, many in one question. Only hashes leave here."""

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from codehub.adapters.postgres.connect import translated
from codehub.adapters.postgres.sql import statements
from codehub.core.visit import Visitor
from codehub.ports.doors import Credential

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Pool


class PostgresDoorkeeper:
    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._sql = statements()["people"]

    async def people(self, credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
        by_hash = {(one.kind, hashlib.sha256(one.secret).digest()): one for one in credentials}
        sessions = [digest for kind, digest in by_hash if kind == "session"]
        tokens = [digest for kind, digest in by_hash if kind == "token"]
        async with translated():
            rows = await self._pool.fetch(self._sql, sessions, tokens)
        return {
            by_hash[row["kind"], bytes(row["sha256"])]: Visitor(
                row["id"], row["username"], may_write=row["scope"] == "write"
            )
            for row in rows
        }
