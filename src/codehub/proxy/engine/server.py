"""The edge of one process: connections come in, and each is served as the gate decides."""

import asyncio
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import structlog

from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.context import Context
from codehub.proxy.engine.targets import Target

log = structlog.get_logger()

_BACKLOG = 4096
_TICK_S = 0.5


class Edge(Context):
    connections: set[ClientConnection]

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve connections of this listener; at the end all of them are closed."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientConnection(self), sock=listener, backlog=_BACKLOG)
        ticking = self.tasks.spawn(self._tick(), name="edge-tick")
        try:
            yield
        finally:
            ticking.cancel()
            server.close()
            for connection in list(self.connections):
                connection.abort()
            self.pool.close()

    def sweep(self) -> None:
        """End what is over time, and what may no longer be open."""
        self.now = now = self.clock.monotonic()
        for connection in list(self.connections):
            if connection.deadline <= now:
                connection.expire()
            elif connection.target is not None and not connection.target.alive:
                connection.revoke()
        self.pool.sweep()

    async def _tick(self) -> None:
        while True:
            await self.clock.sleep(_TICK_S)
            try:
                self.sweep()
            except Exception:
                log.exception("sweep_failed")


def targets_in_use(connections: Collection[ClientConnection]) -> set[Target]:
    """Return where connections lead right now."""
    return {connection.target for connection in connections if connection.target is not None}
