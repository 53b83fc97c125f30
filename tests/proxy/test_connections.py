"""Connections and what becomes of them: stale ones, half-closed ones,
those of clients that leave, those to workspaces that move.
"""

import asyncio
from dataclasses import replace

import pytest
from tests.support.edge import PREFIX, Talk, answer_ok, get, server, until, world
from tests.support.patience import PATIENCE_S, within

from codehub.ports.instances import TcpUpstream
from codehub.proxy.engine.context import DEFAULT_LIMITS
from codehub.proxy.engine.targets import Target


async def test_a_stale_pooled_connection_is_replaced_without_the_client_noticing() -> None:
    served = 0

    async def handler(talk: Talk) -> None:
        nonlocal served
        while True:
            await talk.head()
            if served == 1:  # closes exactly when it is asked again
                served += 1
                return
            served += 1
            await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with world(handler) as made:
        talk = await made.connect()
        for _ in range(2):
            await talk.send(get())
            assert (await talk.head()).startswith(b"HTTP/1.1 200 OK")
        await talk.close()
        assert len(made.workspace.talks) == 2


async def test_a_request_that_changes_something_is_never_sent_twice() -> None:
    async def handler(talk: Talk) -> None:
        head = await talk.head()
        if head.startswith(b"GET"):
            await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await talk.head()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        await talk.head()
        await talk.send(get("/", "Content-Length: 0", method="POST"))
        assert (await talk.head()).startswith(b"HTTP/1.1 502 ")
        assert b"".join(made.workspace.received).count(b"POST / ") == 1
        await talk.close()


async def test_a_server_that_speaks_unasked_loses_its_connection_and_nobody_hears_it() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        )
        await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        for _ in range(2):
            await talk.send(get())
            assert b"Content-Length: 0\r\n" in await talk.head()
        await talk.close()
        assert len(made.workspace.talks) == 2


async def test_a_half_closed_client_still_gets_its_answer() -> None:
    release = asyncio.Event()

    async def handler(talk: Talk) -> None:
        await talk.head()
        await release.wait()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        talk.end()
        await until(lambda: bool(made.workspace.received))
        release.set()
        assert (await talk.rest()).endswith(b"\r\n\r\nok")
        await talk.close()


async def test_a_request_that_its_client_cancels_is_cancelled_at_the_workspace() -> None:
    ended = asyncio.Event()

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.rest()
        ended.set()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        await until(lambda: bool(made.workspace.received))
        talk.reset()
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()


async def test_a_client_that_hangs_up_politely_is_not_waited_for_long() -> None:
    ended = asyncio.Event()

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.rest()
        ended.set()

    async with world(handler, limits=replace(DEFAULT_LIMITS, half_closed_s_max=0.5)) as made:
        talk = await made.connect()
        await talk.send(get())
        await until(lambda: bool(made.workspace.received))
        await talk.close()
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()


async def test_a_workspace_that_moved_is_looked_for_once_and_found() -> None:
    async with world(answer_ok) as made, server(answer_ok) as elsewhere:
        gone = made.gate.workspace
        async with server(answer_ok) as dead:
            made.gate.workspace = Target(dead.upstream, mount=gone.mount, strips=True)
        made.gate.moved_to = Target(elsewhere.upstream, mount=gone.mount, strips=True)
        talk = await made.connect()
        await talk.send(get("/x"))
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK")
        await talk.close()
        assert made.gate.searches == 1
        assert elsewhere.received[0].startswith(b"GET /x ")


async def test_a_workspace_that_is_gone_is_a_bad_gateway() -> None:
    async with world(answer_ok) as made:
        async with server(answer_ok) as dead:
            made.gate.workspace = Target(dead.upstream, mount=PREFIX.encode())
        talk = await made.connect()
        await talk.send(get())
        assert (await talk.head()).startswith(b"HTTP/1.1 502 ")
        assert b"UPSTREAM_UNAVAILABLE" in await talk.until_text(b"null}}")
        made.gate.workspace = Target(made.workspace.upstream, mount=PREFIX.encode())
        await talk.send(get())
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK")
        await talk.close()


async def test_a_revoked_target_ends_its_open_connections() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/ws", "Connection: Upgrade", "Upgrade: websocket"))
        await talk.head()
        made.gate.workspace.alive = False
        async with within(2):
            assert await talk.is_closed()
        await talk.close()


async def test_a_target_that_was_revoked_while_it_was_connected_to_is_sent_nothing() -> None:
    async with world(answer_ok) as made:
        target = Target(made.workspace.upstream, mount=PREFIX.encode(), strips=True)
        target.alive = False
        made.gate.moved_to = target
        made.gate.workspace = Target(TcpUpstream("127.0.0.1", 9), mount=PREFIX.encode(), strips=True)
        talk = await made.connect()
        await talk.send(get())
        assert (await talk.head()).startswith(b"HTTP/1.1 503 ")
        assert made.workspace.received == []
        await talk.close()


@pytest.mark.parametrize("who_ends_first", ["client", "workspace"])
async def test_a_tunnel_is_over_once_both_sides_have_ended_it_and_nothing_is_lost(
    who_ends_first: str,
) -> None:
    sent = b"x" * 300_000
    received = b""

    async def handler(talk: Talk) -> None:
        nonlocal received
        await talk.head()
        await talk.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        if who_ends_first == "workspace":
            talk.end()
        received = await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/ws", "Connection: Upgrade", "Upgrade: websocket"))
        await talk.head()
        if who_ends_first == "workspace":
            assert await talk.is_closed()
        await talk.send(sent)
        talk.end()
        await until(lambda: not made.edge.connections)
        await until(lambda: received == sent)
        await talk.close()
