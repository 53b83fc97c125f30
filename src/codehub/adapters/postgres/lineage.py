"""The lineage of a database: each new connection goes in, how
often the cluster's history has changed comes out.

After a fail-over, or a restore to a point in time, transactions may be gone, and their numbers be given anew:
what was remembered by them counts no more.
"""

from typing import Any, Protocol

import asyncpg

# The first eight digits of the name of the log's current file.
# The control file tells it only after a checkpoint.
_TIMELINE = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"


class Connection(Protocol):
    async def fetchval(self, query: str) -> Any: ...


class Lineage:
    """Another history is another server, or one that was restarted: it is reached by new connections
    alone.
    """

    def __init__(self) -> None:
        self.number = 0
        self._timeline: str | None = None

    async def note(self, connection: Connection) -> None:
        """Look at a new connection, before anybody uses it."""
        try:
            timeline = await connection.fetchval(_TIMELINE)
        except (asyncpg.FeatureNotSupportedError, asyncpg.InsufficientPrivilegeError):
            return  # a service that keeps its log to itself
        if self._timeline not in (None, timeline):
            self.number += 1
        self._timeline = timeline
