"""Back-pressure: what one side sends and the other does not take is bounded, and waits for as long as it
may.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest
from tests.proxy.meeting import Meeting, meeting_by
from tests.support.edge import OpenGate, answer_ok, get, until, world

from codehub.proxy.engine.context import DEFAULT_LIMITS
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.server import targets_in_use
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.policy.answers import error

READ_BYTES_MAX = 262_144
"""More than uvloop reads at once."""
LONG, SHORT = b"z" * 149_000, b"z" * 60_000
"""More than the proxy writes without complaint to who takes nothing, and less."""
UPLOAD_BYTES = 300_000
LATE_S = 10_000.0


@pytest.fixture
async def meeting(tmp_path: Path) -> AsyncIterator[Meeting]:
    async with meeting_by("unix", tmp_path) as made:
        yield made


class Refusing(OpenGate):
    """Lets nobody in."""

    def admit(self, _head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        return error(404, "There is no such workspace.")


@pytest.mark.parametrize("is_refused", [True, False])
async def test_of_requests_that_come_before_their_turn_little_is_kept(is_refused: bool) -> None:
    async with world(answer_ok) as made:
        if is_refused:
            made.edge.gate = Refusing(made.gate.workspace, made.gate.api)
        talk = await made.connect()
        talk.writer.write(get("/") * 100_000)
        kept = []
        for _ in range(200):
            head = await talk.head()
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await talk.exactly(int(length))
            kept += [len(connection._buffer) for connection in made.edge.connections]
        assert max(kept) <= DEFAULT_LIMITS.ahead_bytes_max + READ_BYTES_MAX
        talk.reset()


async def test_a_client_that_takes_nothing_is_cut_though_it_has_asked_for_more(meeting: Meeting) -> None:
    await meeting.ask(get("/") * 2)
    connection = meeting.narrow()
    meeting.read()
    meeting.fill(connection.transport)
    meeting.server.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(LONG), LONG))
    await until(lambda: bool(meeting.waiting()))
    assert connection.is_stuck
    meeting.pass_time(DEFAULT_LIMITS.stall_s_max + 30)
    await until(lambda: not meeting.edge.connections)


async def test_a_client_that_never_takes_the_last_of_its_response_is_cut(meeting: Meeting) -> None:
    await meeting.ask(get("/", "Connection: close"))
    connection = meeting.narrow()
    assert connection.transport is not None
    meeting.fill(connection.transport)
    meeting.server.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(SHORT), SHORT))
    await until(lambda: not targets_in_use(meeting.edge.connections))
    assert connection.transport.get_write_buffer_size()
    assert not connection.is_stuck
    meeting.pass_time(DEFAULT_LIMITS.stall_s_max + 30)
    await until(lambda: not meeting.edge.connections)


async def test_a_client_of_a_tunnel_is_not_read_while_nobody_takes_what_it_sent_before_the_answer(
    meeting: Meeting,
) -> None:
    await meeting.ask(get("/", "Connection: Upgrade", "Upgrade: websocket"))
    connection = meeting.narrow()
    assert connection.transport is not None
    assert connection.upstream is not None
    meeting.read()
    filled = meeting.fill(connection.upstream.transport)
    await asyncio.get_running_loop().sock_sendall(meeting.client, LONG)
    await until(lambda: len(connection._buffer) > DEFAULT_LIMITS.ahead_bytes_max)
    meeting.server.send(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert (await meeting.heard(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    assert not connection.transport.is_reading()
    assert (await meeting.taken(filled + len(LONG))).endswith(LONG)
    await until(connection.transport.is_reading)


async def held_upload(meeting: Meeting) -> None:
    """Send more than the server takes."""
    await meeting.ask(get("/", f"Content-Length: {UPLOAD_BYTES}", method="POST"))
    connection = meeting.narrow()
    meeting.read()
    await asyncio.get_running_loop().sock_sendall(meeting.client, b"x" * UPLOAD_BYTES)
    await until(lambda: connection._held)


async def test_a_client_is_not_late_while_the_server_takes_nothing(meeting: Meeting) -> None:
    await held_upload(meeting)
    meeting.pass_time(LATE_S)
    assert len(await meeting.taken(UPLOAD_BYTES)) == UPLOAD_BYTES
    meeting.server.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert (await meeting.heard(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_server_that_takes_nothing_more_and_will_not_answer_is_a_bad_gateway(
    meeting: Meeting,
) -> None:
    await held_upload(meeting)
    meeting.server.shutdown(socket.SHUT_WR)
    assert (await meeting.heard(b"}")).startswith(b"HTTP/1.1 502 ")
