"""A meeting: a client and a server of one edge, whose every step
is the test's, between two turns of the event loop.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.support.edge import PREFIX, OpenGate, serving, until
from tests.support.patience import PATIENCE_S

from codehub.adapters.system.machine import SystemClock
from codehub.ports.instances import TcpUpstream, UnixUpstream, Upstream
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.server import Edge
from codehub.proxy.engine.targets import Target


class Ahead(SystemClock):
    """So many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def monotonic(self) -> float:
        return super().monotonic() + self._seconds


class Meeting:
    """A client and a server, as plain sockets: what both do between
    two turns of the proxy's loop, it finds done at once.
    """

    def __init__(self, edge: Edge, address: tuple[str, int], listener: socket.socket) -> None:
        self.edge = edge
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self.client = socket.create_connection(address)
        self.client.setblocking(False)
        self.server = self.client

    async def ask(self, raw: bytes) -> None:
        """Send these bytes, and wait until they have all come to the server, which has read none of them
        yet.
        """
        async with asyncio.timeout(PATIENCE_S):
            await self._loop.sock_sendall(self.client, raw)
            self.server, _ = await self._loop.sock_accept(self._listener)
        await until(lambda: self.waiting().endswith(raw[-1:]))

    def accept(self) -> None:
        """Let the server accept a connection that has just been made, without a turn of the loop."""
        self._listener.settimeout(PATIENCE_S)
        self.server, _ = self._listener.accept()
        self.server.setblocking(False)
        self._listener.setblocking(False)

    def narrow(self) -> ClientConnection:
        """Let little fit between the proxy and its two ends.
        Returns the proxy's side of the client's connection.
        """
        [connection] = self.edge.connections
        assert connection.transport is not None
        assert connection.upstream is not None
        for transport in (connection.transport, connection.upstream.transport):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
        return connection

    def fill(self, transport: asyncio.BaseTransport | None) -> int:
        """Write to this end of the proxy's until no more fits, and return how
        much that was: what the proxy writes then stays with it.
        """
        assert transport is not None
        filled = 0
        with suppress(BlockingIOError):
            while True:
                filled += os.write(transport.get_extra_info("socket").fileno(), b"-" * 65_536)
        return filled

    def pass_time(self, seconds: float) -> None:
        self.edge.clock = Ahead(seconds)
        self.edge.sweep()

    def read(self) -> None:
        """Let the server read what has come. One that closes without having done so resets its connection."""
        self.server.recv(65_536)

    async def taken(self, size: int) -> bytes:
        """Return so many bytes as the server reads them, or what comes until its connection ends."""
        got = b""
        async with asyncio.timeout(PATIENCE_S):
            while len(got) < size and (part := await self._loop.sock_recv(self.server, 65_536)):
                got += part
        return got

    def waiting(self) -> bytes:
        try:
            return self.server.recv(65_536, socket.MSG_PEEK)
        except BlockingIOError:
            return b""

    def cross(self, answer: bytes, *, more: bytes = b"y" * 1000) -> None:
        """Go on sending, and answer and close meanwhile: the proxy
        sees first what is to be sent, and that can't be.
        """
        self.client.send(more)
        self.server.send(answer)
        self.server.close()

    async def heard(self, last: bytes | None = None) -> bytes:
        """Return what the client gets until it ends so, or its connection ends, however it does."""
        got = b""
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                while not (last and got.endswith(last)) and (
                    part := await self._loop.sock_recv(self.client, 65_536)
                ):
                    got += part
        return got


@asynccontextmanager
async def meeting_by(kind: str, path: Path) -> AsyncIterator[Meeting]:
    with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as listener:
        listener.bind(str(path / "s") if kind == "unix" else ("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        name = listener.getsockname()
        place: Upstream = UnixUpstream(Path(name)) if kind == "unix" else TcpUpstream(*name)
        target = Target(place, mount=PREFIX.encode(), strips=True)
        async with serving(OpenGate(target, target)) as (edge, address):
            made = Meeting(edge, address, listener)
            try:
                yield made
            finally:
                made.client.close()
                made.server.close()
