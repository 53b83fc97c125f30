"""The edge of one process: connections come in, and each is served as the gate decides."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import structlog

from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.context import Context
from codehub.proxy.engine.targets import Target

log = structlog.get_logger()

_BACKLOG = 4096
_TICK_S = 0.5
_LEAVE_TICK_S = 0.05
_LAST_WORDS_S_MAX = 2.0


class Edge(Context):
    connections: set[ClientConnection]
    _server: asyncio.Server

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve connections of this listener; at the end all of them are closed."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ClientConnection(self), sock=listener, backlog=_BACKLOG
        )
        ticking = self.tasks.spawn(self._tick(), name="edge-tick")
        try:
            yield
        finally:
            ticking.cancel()
            self._server.close()
            for connection in list(self.connections):
                connection.abort()
            self.pool.close()

    async def drain(self, seconds: float) -> None:
        """Take nobody new, and return when nothing is under way any more; what is left then has ended."""
        self.is_leaving = True
        self._server.close()
        await self._until_alone(seconds, ClientConnection.leave)
        await self._until_alone(_LAST_WORDS_S_MAX, ClientConnection.end)

    async def _until_alone(self, seconds: float, ask: Callable[[ClientConnection], None]) -> None:
        until = self.clock.monotonic() + seconds
        while self.connections and self.clock.monotonic() < until:
            for connection in list(self.connections):
                ask(connection)
            await self.clock.sleep(_LEAVE_TICK_S)

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
