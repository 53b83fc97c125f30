"""A web server inside a real instance, asked through the proxy's engine: small, large, and by WebSocket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

import pytest
from tests.contracts.test_instance_access import in_cluster, platform, read_line, running, with_loopback
from tests.support.access_worlds import AccessWorld, MemoryAccessWorld
from tests.support.edge import PREFIX, OpenGate, Talk, serving
from tests.support.patience import PATIENCE_S

from codehub.adapters.port_address import PortAddress
from codehub.adapters.system.machine import SystemTasks
from codehub.ports.instance_access import Command, NothingListens
from codehub.proxy.engine.targets import Target

__all__ = ["in_cluster", "platform", "running", "with_loopback"]
PORT, LARGE = 3000, 100 << 20
# With what the smallest Python has: some images hold no more.
_SERVER = """
import socket, threading
PATTERN = bytes(range(256)) * 8192
def answer(connection):
    data = b""
    while True:
        while b"\\r\\n\\r\\n" not in data:
            part = connection.recv(65536)
            if not part:
                return connection.close()
            data += part
        head, _, data = data.partition(b"\\r\\n\\r\\n")
        lines = head.lower().split(b"\\r\\n")
        if b"upgrade: websocket" in lines:
            connection.sendall(b"HTTP/1.1 101 OK\\r\\nConnection: upgrade\\r\\n")
            connection.sendall(b"Upgrade: websocket\\r\\n\\r\\n")
            while data or (data := connection.recv(65536)):
                connection.sendall(data.upper())
                data = b""
            return connection.close()
        size = sum(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        count, is_whole = 0, True
        while count < size:
            data = data or connection.recv(1 << 20)
            at = count % 256
            is_whole = is_whole and data == PATTERN[at : at + len(data)]
            count, data = count + len(data), b""
        body = b"%d %d" % (count, is_whole)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
server = socket.create_server(("127.0.0.1", 3000))
print("ready", flush=True)
while True:
    threading.Thread(target=answer, args=[server.accept()[0]], daemon=True).start()
"""


@pytest.fixture
def real(with_loopback: AccessWorld) -> AccessWorld:
    if isinstance(with_loopback, MemoryAccessWorld):
        pytest.skip("what runs in memory speaks no HTTP")
    return with_loopback


@asynccontextmanager
async def way(world: AccessWorld, workspace_id: UUID) -> AsyncIterator[tuple[str, int]]:
    tasks = SystemTasks()
    target = Target(PortAddress(world.access, workspace_id, PORT, tasks), mount=PREFIX.encode(), strips=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(tasks.cancel_all)
        _, address = await stack.enter_async_context(serving(OpenGate(target, target)))
        yield address


async def test_a_web_server_inside_is_served_as_any_other(real: AccessWorld, running: UUID) -> None:
    server = Command(("python3", "-S", "-c", _SERVER))
    async with (
        asyncio.timeout(4 * PATIENCE_S),
        real.access.exec(running, server) as session,
        way(real, running) as address,
    ):
        assert await read_line(session.output) == "ready"
        talk = Talk(*await asyncio.open_connection(*address))
        for _ in range(3):
            await talk.send(f"GET {PREFIX}/ HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            await talk.head()
            assert await talk.exactly(3) == b"0 1"
        part = bytes(range(256)) * 4096
        await talk.send(f"PUT {PREFIX}/ HTTP/1.1\r\nHost: h\r\nContent-Length: {LARGE}\r\n\r\n".encode())
        for _ in range(LARGE // len(part)):
            await talk.send(part)
        async with asyncio.timeout(2 * PATIENCE_S):
            await talk.reader.readuntil(b"\r\n\r\n")
        assert await talk.exactly(11) == b"%d 1" % LARGE
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket"
        await talk.send(f"GET {PREFIX}/ HTTP/1.1\r\nHost: h\r\n{upgrade}\r\n\r\n".encode())
        assert b" 101 " in await talk.head()
        await talk.send(b"typed")
        assert await talk.exactly(5) == b"TYPED"
        await talk.close()


async def test_what_nothing_listens_on_is_told_so(real: AccessWorld, running: UUID) -> None:
    tasks = SystemTasks()
    address = PortAddress(real.access, running, PORT, tasks)
    with pytest.raises(ConnectionRefusedError):
        await address.dial()
    assert isinstance(address.refusal, NothingListens)
    await tasks.cancel_all()
