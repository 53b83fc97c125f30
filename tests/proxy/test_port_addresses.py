"""A port inside a workspace, through the engine: real HTTP servers and clients, and a relay between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID, uuid4

import pytest
from tests.support.edge import OpenGate, Talk, serving
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.byte_streams import ConnectionStream
from codehub.adapters.port_address import CONNECTIONS_MAX, PortAddress
from codehub.adapters.system.machine import SystemTasks
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import ByteStream, Command, CommandSession, Listener, NothingListens
from codehub.proxy.engine.targets import Target

WORKSPACE, PORT = uuid4(), 3000
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class LoopbackAccess:
    """An InstanceAccess whose instance is this very process."""

    port: int | None
    refusal: ActionFailed | BackendUnreachable | None = None
    open_relays: int = 0
    relays: int = 0
    is_slow: asyncio.Event = field(default_factory=asyncio.Event)
    """Set as soon as somebody dials."""
    may_go_on: asyncio.Event | None = None

    @asynccontextmanager
    async def relay(self, workspace_id: UUID, port: int) -> AsyncIterator[ByteStream]:
        assert (workspace_id, port) == (WORKSPACE, PORT)
        self.is_slow.set()
        if self.may_go_on is not None:
            await self.may_go_on.wait()
        if self.refusal is not None:
            raise self.refusal
        if self.port is None:
            raise NothingListens(port)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.open_relays += 1
        self.relays += 1
        try:
            yield ConnectionStream(reader, writer)
        finally:
            self.open_relays -= 1
            writer.transport.abort()

    def exec(self, workspace_id: UUID, command: Command) -> CommandSession: ...  # type: ignore[empty-body]

    async def listening(self, workspace_id: UUID) -> list[Listener]: ...  # type: ignore[empty-body]


@dataclass
class Way:
    """The way through the edge to one server."""

    access: LoopbackAccess
    address: PortAddress
    edge: tuple[str, int]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.edge)


@asynccontextmanager
async def way_to(serve: Serve | None) -> AsyncIterator[Way]:
    tasks = SystemTasks()
    server = None if serve is None else await asyncio.start_server(serve, "127.0.0.1", 0)
    access = LoopbackAccess(None if server is None else server.sockets[0].getsockname()[1])
    address = PortAddress(access, WORKSPACE, PORT, tasks)  # type: ignore[arg-type]
    target = Target(address, mount=b"/w/x")
    try:
        async with asyncio.timeout(PATIENCE_S), serving(OpenGate(target, target)) as (_edge, where):
            yield Way(access, address, where)
    finally:
        await tasks.cancel_all()
        if server is not None:
            server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    return head, await reader.readexactly(length)


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            _, body = await read_request(reader)
            writer.write(answer(sha256(body).hexdigest().encode()))
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


def get(path: str = "/w/x/") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head, body = await read_request(reader)
    return int(head.split(b" ", 2)[1]), body


async def test_requests_are_answered_over_one_relay_that_waits_between_them() -> None:
    async with way_to(echo) as way:
        for _ in range(3):
            reader, writer = await way.connect()
            for _ in range(3):
                writer.write(get())
                assert (await read_answer(reader))[0] == 200
            writer.close()
        assert way.access.relays == 1


async def test_a_hundred_megabytes_go_up_and_down() -> None:
    size = 100 << 20
    part = bytes(range(256)) * 256

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        digest, left = sha256(), size
        while head.startswith(b"PUT") and left:
            data = await reader.read(1 << 20)
            digest.update(data)
            left -= len(data)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (64 + size))
        writer.write(digest.hexdigest().encode())
        for _ in range(size // len(part)):
            writer.write(part)
            await writer.drain()
        writer.close()

    async with way_to(serve) as way:
        reader, writer = await way.connect()
        expected, received = sha256(), sha256()

        async def upload() -> None:
            writer.write(b"PUT /w/x/ HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size // len(part)):
                expected.update(part)
                writer.write(part)
                await writer.drain()

        uploading = asyncio.create_task(upload())
        await reader.readuntil(b"\r\n\r\n")
        digest_there = await reader.readexactly(64)
        left = size
        while left:
            data = await reader.read(1 << 20)
            received.update(data)
            left -= len(data)
        await uploading
        assert digest_there.decode() == expected.hexdigest() == received.hexdigest()
        writer.close()


async def test_a_client_that_takes_nothing_holds_the_server_up() -> None:
    sent = 0
    stuck = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
        try:
            while sent < 1 << 30:
                writer.write(bytes(1 << 16))
                draining = asyncio.ensure_future(writer.drain())
                await asyncio.wait([draining], timeout=1)
                if not draining.done():
                    stuck.set()
                await draining
                sent += 1 << 16
        except OSError:
            pass

    async with way_to(serve) as way:
        _, writer = await way.connect()
        writer.write(get())
        await stuck.wait()
        assert sent < 64 << 20
        writer.transport.abort()
        await until(lambda: way.access.open_relays == 0)


async def test_a_tunnel_goes_both_ways_and_ends_with_either_side() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        while data := await reader.read(1 << 16):
            writer.write(data.upper())
        writer.close()

    upgrade = b"GET /w/x/ HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with way_to(serve) as way:
        for is_polite in (True, False):
            reader, writer = await way.connect()
            writer.write(upgrade)
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"HELLO"
            if is_polite:
                writer.write_eof()
            else:
                writer.transport.abort()
            await until(lambda: way.access.open_relays == 0)
            writer.close()


async def test_a_stream_arrives_part_by_part_and_its_end_is_the_clients() -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(b"data: one\n\n")
        assert await reader.read() == b""
        writer.close()
        gone.set()

    async with way_to(serve) as way:
        reader, writer = await way.connect()
        writer.write(get())
        await reader.readuntil(b"data: one\n\n")
        Talk(reader, writer).reset()
        await gone.wait()
        await until(lambda: way.access.open_relays == 0)


async def test_a_server_may_answer_and_close_before_it_has_read_the_request() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        writer.close()

    async with way_to(serve) as way:
        reader, writer = await way.connect()
        writer.write(b"PUT /w/x/ HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (8 << 20))
        writer.write(bytes(8 << 20))
        assert await read_answer(reader) == (413, b"no")
        writer.close()


@pytest.mark.parametrize(
    "refusal", [None, NothingListens(PORT), BackendUnreachable("gone")], ids=["none", "silent", "gone"]
)
async def test_what_can_not_be_reached_is_told_and_why_is_kept(
    refusal: ActionFailed | BackendUnreachable | None,
) -> None:
    async with way_to(None) as way:
        way.access.refusal = refusal
        reader, writer = await way.connect()
        writer.write(get())
        assert (await read_answer(reader))[0] == 502
        assert type(way.address.refusal) is type(refusal or NothingListens(PORT))
        writer.close()


async def test_who_gives_up_while_it_is_dialled_leaves_nothing_open() -> None:
    async with way_to(echo) as way:
        way.access.may_go_on = asyncio.Event()
        dialling = asyncio.create_task(way.address.dial())
        await way.access.is_slow.wait()
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
        way.access.may_go_on.set()
        await until(lambda: way.access.open_relays == 0)


async def test_what_was_refused_a_moment_ago_is_not_looked_for_again() -> None:
    async with way_to(None) as way:
        with pytest.raises(ConnectionRefusedError):
            await way.address.dial()
        way.access.is_slow.clear()
        with pytest.raises(ConnectionRefusedError):
            await way.address.dial()
        assert not way.access.is_slow.is_set()


async def test_there_are_so_many_connections_to_a_port_and_no_more() -> None:
    async with way_to(echo) as way:
        ends = [await way.address.dial() for _ in range(CONNECTIONS_MAX)]
        with pytest.raises(ConnectionRefusedError):
            await way.address.dial()
        for end in ends:
            end.close()
        await until(lambda: way.access.open_relays == 0)
        (await way.address.dial()).close()


def test_addresses_of_one_port_are_one() -> None:
    access, tasks = LoopbackAccess(None), SystemTasks()
    address = PortAddress(access, WORKSPACE, PORT, tasks)  # type: ignore[arg-type]
    assert address == PortAddress(access, WORKSPACE, PORT, tasks)  # type: ignore[arg-type]
    assert len({address, PortAddress(access, WORKSPACE, PORT, tasks)}) == 1  # type: ignore[arg-type]
    assert address != PortAddress(access, WORKSPACE, PORT + 1, tasks)  # type: ignore[arg-type]
    assert address != PortAddress(access, uuid4(), PORT, tasks)  # type: ignore[arg-type]
