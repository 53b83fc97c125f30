"""Draining: a process that is about to end answers what it was asked,
ends streams and WebSockets in order, and takes nobody new.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support.edge import PREFIX, Talk, World, get, server, serving, world
from tests.support.patience import until

from codehub.ports.instances import TcpUpstream
from codehub.proxy.engine.targets import Target

UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
GOING_AWAY = b"\x88\x02\x03\xe9"


@asynccontextmanager
async def draining(made: World, seconds: float) -> AsyncIterator[None]:
    """Drain within the block, which ends when the drain does."""
    leaving = asyncio.ensure_future(made.edge.drain(seconds))
    try:
        await until(lambda: made.edge.is_leaving)
        yield
        await leaving
    finally:
        leaving.cancel()


async def test_what_is_under_way_is_answered_and_its_connection_closed() -> None:
    may_answer = asyncio.Event()

    async def handler(talk: Talk) -> None:
        await talk.head()
        await may_answer.wait()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        await until(lambda: made.workspace.received)
        async with draining(made, 60):
            may_answer.set()
            assert b"\r\nConnection: close\r\n" in await talk.head()
            assert await talk.rest() == b"ok"
        await talk.close()


async def test_nobody_new_is_taken_and_who_asks_nothing_is_let_go() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        await talk.head()
        async with draining(made, 60):
            assert await talk.is_closed()
            with pytest.raises(ConnectionError):
                await made.connect()
        await talk.close()


@pytest.mark.parametrize("framing", ["Transfer-Encoding: chunked", "X-Ends: with its connection"])
async def test_a_stream_of_events_ends_in_order_and_after_a_whole_one(framing: str) -> None:
    event = b"id: 7\nevent: x\ndata: {}\n\n"
    is_chunked = framing.startswith("Transfer")
    sent = b"%x\r\n%b\r\n" % (len(event), event) if is_chunked else event

    async def handler(talk: Talk) -> None:
        await talk.head()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n\r\n"
        await talk.send(head.encode() + sent)
        await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        await talk.head()
        assert await talk.exactly(len(sent)) == sent
        async with draining(made, 60):
            assert await talk.rest() == (b"0\r\n\r\n" if is_chunked else b"")
        await talk.close()


async def test_what_takes_longer_than_there_is_time_is_cut_and_what_was_not_answered_is_told() -> None:
    async def handler(talk: Talk) -> None:
        if b"/begun" in await talk.head():
            await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await talk.rest()

    async with world(handler) as made:
        begun, silent = await made.connect(), await made.connect()
        await begun.send(get("/begun"))
        await begun.until_text(b"half")
        await silent.send(get("/silent"))
        await until(lambda: len(made.workspace.received) == 2)
        async with draining(made, 0):
            assert await begun.rest() == b""
            assert (await silent.rest()).startswith(b"HTTP/1.1 502 ")
        await begun.close()
        await silent.close()


async def test_a_websocket_gets_its_time_and_is_then_told_that_its_server_goes_away() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(SWITCH)
        while key := await talk.exactly(1):
            await talk.send(b"\x82\x01" + key)

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", *UPGRADE))
        await talk.head()
        async with draining(made, 1):
            await talk.send(b"a")  # it goes on meanwhile
            assert await talk.exactly(3) == b"\x82\x01a"
            assert await talk.exactly(4) == GOING_AWAY
            await talk.send(b"\x88\x82\0\0\0\0\x03\xe9")
            talk.end()
            assert await talk.is_closed()
        await talk.close()


async def test_a_websocket_is_not_ended_within_a_frame() -> None:
    may_go_on = asyncio.Event()

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(SWITCH)
        for _ in range(20):  # while it is drained, now half a frame, now the rest
            await asyncio.sleep(0.01)
            await talk.send(b"\x82\x04ab")
            await asyncio.sleep(0.01)
            await talk.send(b"cd")
        await may_go_on.wait()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", *UPGRADE))
        await talk.head()
        await talk.exactly(6)
        async with draining(made, 0):
            rest = await talk.rest()
        await talk.close()
        frames, last = rest[:-4], rest[-4:]
        assert last == GOING_AWAY
        assert frames.replace(b"\x82\x04abcd", b"") == b""
        may_go_on.set()


# Several servers that answer the same


class Twins:
    """A gate to two servers: whoever does not find the first is sent to the second."""

    def __init__(self, first: Target, second: Target) -> None:
        self._first = first
        self._second = second

    def admit(self, _head: object) -> Target:
        return self._first

    async def find_again(self, _head: object, _target: Target) -> Target:
        return self._second


async def nothing(talk: Talk) -> None:
    """Die with the request in hand."""
    await talk.head()
    talk.reset()


async def hello(talk: Talk) -> None:
    await talk.head()
    await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


@pytest.mark.parametrize(("method", "status"), [("GET", b"200"), ("HEAD", b"502"), ("POST", b"502")])
async def test_a_server_that_dies_with_a_request_in_hand_is_asked_once_more_if_that_is_safe(
    method: str, status: bytes
) -> None:
    """HEAD: its twin dies too."""
    asked = 0

    async def dies_first(talk: Talk) -> None:
        nonlocal asked
        asked += 1
        await (hello if asked == 2 and method == "GET" else nothing)(talk)

    async with server(dies_first) as made:
        first = Target(made.upstream, has_twin=True)
        async with serving(Twins(first, first)) as (_, address):
            talk = Talk(*await asyncio.open_connection(*address))
            await talk.send(f"{method} /api HTTP/1.1\r\nHost: hub.test\r\n\r\n".encode())
            assert (await talk.head()).split(b" ")[1] == status
            await talk.close()
        assert asked == (1 if method == "POST" else 2)


async def test_where_no_api_listens_at_one_name_that_all_have_the_api_is_said_to_be_silent() -> None:
    gone = Target(TcpUpstream("127.0.0.1", 1), has_twin=True)
    async with serving(Twins(gone, gone)) as (_, address):
        talk = Talk(*await asyncio.open_connection(*address))
        await talk.send(f"GET {PREFIX}/api HTTP/1.1\r\nHost: hub.test\r\n\r\n".encode())
        head = await talk.head()
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after" in head.lower()
        await talk.close()


async def test_a_request_that_nobody_took_goes_to_the_other_whatever_it_is() -> None:
    async with server(hello) as made:
        gone = Target(TcpUpstream("127.0.0.1", 1), has_twin=True)
        async with serving(Twins(gone, Target(made.upstream, has_twin=True))) as (_, address):
            talk = Talk(*await asyncio.open_connection(*address))
            await talk.send(
                f"POST {PREFIX}/api HTTP/1.1\r\nHost: hub.test\r\nContent-Length: 0\r\n\r\n".encode()
            )
            assert (await talk.head()).startswith(b"HTTP/1.1 200 ")
            await talk.close()
