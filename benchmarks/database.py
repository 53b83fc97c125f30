"""An embedded server of one's own for a benchmark: started in a directory that is gone afterwards."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from codehub.adapters.postgres.connect import ConnectArgs
from codehub.adapters.postgres.embedded import EmbeddedPostgres
from codehub.adapters.postgres.migrate import migrate
from codehub.adapters.system.machine import SystemClock, SystemTasks


@asynccontextmanager
async def migrated_database() -> AsyncIterator[ConnectArgs]:
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as directory:
        tasks = SystemTasks()
        server = EmbeddedPostgres(Path(directory), clock=SystemClock(), tasks=tasks)
        await server.start()
        try:
            await migrate(server.connect_args)
            yield server.connect_args
        finally:
            await server.stop()
            await tasks.cancel_all()
