"""Slow and silent clients (security.md 18): each holds its own connection, for a while, and nobody else's."""

import asyncio
from dataclasses import replace

import pytest
from tests.support.edge import Talk, answer_ok, get, until, world
from tests.support.patience import PATIENCE_S

from codehub.proxy.engine.context import DEFAULT_LIMITS

SHORT_S = 2.0
"""Soon over, and yet several of the edge's ticks: what is done at once is done in time."""


async def test_a_head_that_does_not_come_to_its_end_is_given_up() -> None:
    async with world(answer_ok, limits=replace(DEFAULT_LIMITS, head_s_max=SHORT_S)) as made:
        talk = await made.connect()
        await talk.send(b"GET / HTTP/1.1\r\nHost: ")
        assert (await talk.rest()).startswith(b"HTTP/1.1 408 ")
        await talk.close()


async def test_a_head_in_drops_does_not_win_time() -> None:
    async with world(answer_ok, limits=replace(DEFAULT_LIMITS, head_s_max=SHORT_S)) as made:
        talk = await made.connect()
        answered = asyncio.create_task(talk.rest())
        for byte in b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000:
            if answered.done():
                break
            talk.writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
        assert (await answered).startswith(b"HTTP/1.1 408 ")
        await talk.close()


async def test_a_silent_connection_is_closed() -> None:
    async with world(
        answer_ok, limits=replace(DEFAULT_LIMITS, head_s_max=SHORT_S, idle_s_max=SHORT_S)
    ) as made:
        silent, used = await made.connect(), await made.connect()
        await used.send(get())
        await used.head()
        await used.rest()
        assert await silent.is_closed()
        await silent.close()
        await used.close()


async def test_a_body_that_stops_coming_is_given_up_and_its_workspace_let_go() -> None:
    ended = asyncio.Event()

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.rest()
        ended.set()

    async with world(handler, limits=replace(DEFAULT_LIMITS, body_silence_s_max=SHORT_S)) as made:
        talk = await made.connect()
        await talk.send(get("/", "Content-Length: 10", method="POST") + b"abc")
        assert (await talk.rest()).startswith(b"HTTP/1.1 408 ")
        await talk.close()
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()


async def test_a_client_that_takes_nothing_is_given_up_and_holds_nobody_else() -> None:
    async def handler(talk: Talk) -> None:
        if b"/large" not in await talk.head():
            await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while True:
            await talk.send(b"x" * 1_000_000)

    async with world(handler, limits=replace(DEFAULT_LIMITS, stall_s_max=SHORT_S)) as made:
        slow = await made.connect()
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await slow.send(get("/large"))
        await until(lambda: bool(made.workspace.received))
        quick = await made.connect()
        await quick.send(get("/small"))
        assert (await quick.head()).startswith(b"HTTP/1.1 200 OK")
        await until(lambda: len(made.edge.connections) == 1)
        await quick.close()
        slow.reset()


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_client_that_does_not_leave_after_its_answer_is_not_lingered_for_long(
    is_silent: bool,
) -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n")

    silent = replace(DEFAULT_LIMITS, linger_silence_s_max=SHORT_S)
    dripping = replace(DEFAULT_LIMITS, linger_s_max=SHORT_S)
    async with world(handler, limits=silent if is_silent else dripping) as made:
        talk = await made.connect()
        await talk.send(get("/", "Content-Length: 100000", method="POST"))
        assert (await talk.head()).startswith(b"HTTP/1.1 413 ")
        async with asyncio.timeout(PATIENCE_S):
            while made.edge.connections:
                if not is_silent:
                    talk.writer.write(b"x")
                await asyncio.sleep(0.02)
        await talk.close()
