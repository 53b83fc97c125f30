"""HTTP on the event loop, against a server that does as it is told:
kept connections, lost ones, answers of every framing.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.patience import until

from codehub.adapters.docker.engine import Engine
from codehub.adapters.health import answer_status
from codehub.adapters.http import Answer, HttpPool
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import TcpUpstream, UnixUpstream

WELL = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}'
IN_CHUNKS = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n5\r\n": 1}\r\n0\r\n\r\n'
LAST = b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{"a": 1}'
NOTHING = b""
TO_THE_END = b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}'


class ScriptedServer:
    """A server that gives these answers in turn, each to one question; without any it hangs up."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.asked: list[str] = []
        self.connections = 0
        self.open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.asked.append(head.split(b"\r\n")[0].decode())
                if not (answer := self.answers.pop(0)):
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        writer.close()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "docker.sock"


@pytest.fixture
async def server(socket: Path) -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    async with await asyncio.start_unix_server(scripted.serve, socket):
        yield scripted


@pytest.fixture
async def wire(socket: Path) -> AsyncIterator[HttpPool]:
    made = HttpPool(UnixUpstream(socket), host="docker")
    yield made
    made.close()


@pytest.mark.parametrize("answer", [WELL, IN_CHUNKS, LAST])
async def test_an_answer_comes_whole_however_it_is_framed(
    server: ScriptedServer, wire: HttpPool, answer: bytes
) -> None:
    server.answers = [answer, answer]
    for _ in range(2):
        assert await wire.ask("GET", "/info") == Answer(200, b'{"a": 1}')
    assert server.asked == ["GET /info HTTP/1.1"] * 2


async def test_a_connection_is_used_again(server: ScriptedServer, wire: HttpPool) -> None:
    server.answers = [WELL] * 3
    for _ in range(3):
        await wire.ask("GET", "/info")
    assert server.connections == 1


async def test_a_kept_connection_that_ended_meanwhile_is_replaced(
    server: ScriptedServer, wire: HttpPool
) -> None:
    server.answers = [WELL, NOTHING, WELL]
    await wire.ask("GET", "/info")
    assert (await wire.ask("GET", "/info")).status == 200
    assert server.connections == 2


async def test_what_changes_something_is_never_asked_twice(server: ScriptedServer, wire: HttpPool) -> None:
    server.answers = [WELL, NOTHING, WELL]
    await wire.ask("GET", "/info")
    with pytest.raises(ConnectionError):
        await wire.ask("POST", "/containers/x/start")
    assert server.asked[1:] == ["POST /containers/x/start HTTP/1.1"]


async def test_whoever_was_cancelled_leaves_no_answer_to_the_next(
    server: ScriptedServer, wire: HttpPool
) -> None:
    server.answers = [b"HTTP/1.1 200 OK\r\n", WELL]
    asking = asyncio.ensure_future(wire.ask("GET", "/slow"))
    await until(lambda: bool(server.asked))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await wire.ask("GET", "/info")).body == b'{"a": 1}'
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer", [NOTHING, b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{", b"SSH-2.0\r\n\r\n"]
)
async def test_half_an_answer_is_an_outage(server: ScriptedServer, socket: Path, answer: bytes) -> None:
    server.answers = [answer]
    engine = Engine(f"unix://{socket}", installation="i")
    asking = asyncio.ensure_future(engine.ask("GET", "info"))
    await until(lambda: bool(server.asked))
    server.open[0].close()
    with pytest.raises(BackendUnreachable, match="DockerUnreachable"):
        await asking
    await engine.close()


@pytest.mark.parametrize("url", ["unix:///nowhere/docker.sock", "ssh://somewhere", "docker.sock"])
async def test_an_engine_that_is_not_there_is_an_outage(url: str) -> None:
    with pytest.raises(BackendUnreachable, match="DockerUnreachable"):
        await Engine(url, installation="i").ask("GET", "info")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.0 500 Oh\r\nContent-Length: 999999999\r\n\r\nthe rest never comes", 500),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 200),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20), None),
        (b"SSH-2.0\r\n\r\n", None),
        (NOTHING, None),
    ],
)
async def test_of_a_health_check_the_status_alone_is_read_and_no_more_than_a_bound(
    server: ScriptedServer, socket: Path, answer: bytes, status: int | None
) -> None:
    server.answers = [answer]
    assert await answer_status(UnixUpstream(socket), "/healthz?full", within_s=60) == status
    assert server.asked == ["GET /healthz?full HTTP/1.1"]


async def test_a_server_that_says_nothing_is_not_waited_for(socket: Path) -> None:
    is_closed = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        is_closed.set()

    async with await asyncio.start_unix_server(say_nothing, socket):
        assert await answer_status(UnixUpstream(socket), "/", within_s=0.1) is None
        await is_closed.wait()
    assert await answer_status(TcpUpstream("127.0.0.1", 1), "/", within_s=60) is None


async def test_what_an_answer_brings_is_read_as_it_comes(server: ScriptedServer, wire: HttpPool) -> None:
    server.answers = [IN_CHUNKS, TO_THE_END, b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"]
    async with wire.stream("GET", "/events", {"X-Ours": "yes"}) as (status, body):
        assert (status, await body.read()) == (200, b'{"a": 1}')
    async with wire.stream("GET", "/events", {}) as (_, body):
        server.open[-1].close()
        assert await body.read() == b'{"a": 1}'
    async with wire.stream("GET", "/events", {}) as (_, body):
        server.open[-1].close()
        with pytest.raises(ConnectionError):
            await body.read()
