"""An edge with real sockets on both sides: a gate that lets everybody in,
servers that do as the test says, and a client that speaks bytes.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import SupportsIndex

from tests.support.patience import PATIENCE_S

from codehub.adapters.system.machine import SystemClock, SystemRandomness, SystemTasks
from codehub.core.origins import WorkspaceOrigins
from codehub.core.route import Kind
from codehub.ports.instances import TcpUpstream, UnixUpstream, Upstream
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.context import DEFAULT_LIMITS, EdgeLimits, Gate, Networks
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.server import Edge
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.policy.answers import EngineAnswers, bad_gateway
from codehub.proxy.policy.header_rules import header_rules

WORKSPACE = "019a8b00-0000-7000-8000-000000000001"
PREFIX = f"/w/{WORKSPACE}"
Handler = Callable[["Talk"], Awaitable[None]]


async def until(holds: Callable[[], bool], *, seconds: float = PATIENCE_S) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # whatever it is, it does not tell
            await asyncio.sleep(0.005)


class Talk:
    """One end of a connection, read and written as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readuntil(b"\r\n\r\n")

    async def exactly(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readexactly(size)

    async def until_text(self, text: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readuntil(text)

    async def rest(self) -> bytes:
        """Return what comes until the other side ends the connection, however it does."""
        got = b""
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                while part := await self.reader.read(1 << 16):
                    got += part
        return got

    async def is_closed(self) -> bool:
        return await self.rest() == b""

    def end(self) -> None:
        self.writer.write_eof()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@dataclass
class Server:
    """A server that handles each connection as the test says, and remembers every byte that reached it."""

    upstream: Upstream
    talks: list[Talk] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)


class _Recorder(asyncio.StreamReader):
    """A reader that notes what it is fed."""

    notes: list[bytes]

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.notes.append(bytes(data))
        super().feed_data(data)


@asynccontextmanager
async def server(handler: Handler, path: Path | None = None) -> AsyncIterator[Server]:
    made = Server(TcpUpstream("127.0.0.1", 0))
    live: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()

    def accepted() -> asyncio.StreamReaderProtocol:
        reader = _Recorder(limit=1 << 20, loop=loop)
        reader.notes = made.received

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            talk = Talk(reader, writer)
            made.talks.append(talk)
            try:
                with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                    await handler(talk)
            finally:
                writer.close()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(serve(reader, writer))
            live.add(task)
            task.add_done_callback(live.discard)

        return asyncio.StreamReaderProtocol(reader, begin, loop=loop)

    if path is None:
        listening = await loop.create_server(accepted, "127.0.0.1", 0)
        made.upstream = TcpUpstream("127.0.0.1", listening.sockets[0].getsockname()[1])
    else:
        listening = await loop.create_unix_server(accepted, str(path))
        made.upstream = UnixUpstream(path)
    try:
        yield made
    finally:
        listening.close()
        for task in list(live):
            task.cancel()
        await asyncio.gather(*live, return_exceptions=True)
        for talk in made.talks:
            talk.writer.transport.abort()


class OpenGate:
    """Lets everybody in: `/w/{id}/…` to the workspace, all else to the API."""

    def __init__(self, workspace: Target, api: Target) -> None:
        self.workspace = workspace
        self.api = api
        self.moved_to: Target | None = None
        self.admitted: list[bytes] = []
        self.searches = 0

    def admit(self, head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        self.admitted.append(head.target)
        return self.workspace if head.route.kind is Kind.WORKSPACE else self.api

    async def find_again(self, _head: RequestHead, _target: Target) -> Target | Answer:
        self.searches += 1
        return self.moved_to or bad_gateway("It is not there.")


@dataclass
class World:
    edge: Edge
    gate: OpenGate
    workspace: Server
    address: tuple[str, int]

    async def connect(self) -> Talk:
        return Talk(*await asyncio.open_connection(*self.address, limit=1 << 20))

    async def ask(self, raw: bytes) -> bytes:
        """Send these bytes and return all that comes until the connection ends."""
        talk = await self.connect()
        await talk.send(raw)
        try:
            return await talk.rest()
        finally:
            await talk.close()


@asynccontextmanager
async def serving(
    gate: Gate,
    *,
    limits: EdgeLimits = DEFAULT_LIMITS,
    proto: bytes = b"http",
    trusted_proxies: Networks = (),
    connections: set[ClientConnection] | None = None,
    origins: WorkspaceOrigins | None = None,
) -> AsyncIterator[tuple[Edge, tuple[str, int]]]:
    tasks = SystemTasks()
    edge = Edge(
        gate,
        rules=header_rules(secure=proto == b"https", origins=origins),
        answers=EngineAnswers(),
        clock=SystemClock(),
        tasks=tasks,
        randomness=SystemRandomness(),
        limits=limits,
        proto=proto,
        trusted_proxies=trusted_proxies,
        connections=connections,
    )
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    async with edge.serving(listener):
        yield edge, listener.getsockname()
    await tasks.cancel_all()


@asynccontextmanager
async def world(
    handler: Handler,
    *,
    limits: EdgeLimits = DEFAULT_LIMITS,
    path: Path | None = None,
    strips: bool = True,
    trusted_proxies: Networks = (),
) -> AsyncIterator[World]:
    """An edge whose workspace and API are both served by `handler`."""
    async with server(handler, path) as workspace:
        target = Target(workspace.upstream, mount=PREFIX.encode(), strips=strips)
        gate = OpenGate(target, Target(workspace.upstream))
        async with serving(gate, limits=limits, trusted_proxies=trusted_proxies) as (edge, address):
            yield World(edge, gate, workspace, address)


def get(path: str = "/", *lines: str, method: str = "GET", version: str = "1.1") -> bytes:
    """Return a request to the workspace without a body."""
    head = [f"{method} {PREFIX}{path} HTTP/{version}", "Host: hub.test", *lines]
    return "\r\n".join((*head, "", "")).encode()


async def answer_ok(talk: Talk) -> None:
    """Answer every request of a connection with what it asked for."""
    while True:
        head = await talk.head()
        body = head.split(b"\r\n", 1)[0]
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
