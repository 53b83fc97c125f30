"""Requests from one origin of a workspace to another, on raw sockets: what is answered, and what reaches a
server.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from tests.proxy.test_ports import share
from tests.support.edge import Talk, server
from tests.support.hub import BOB, BOBS, Hub, hub
from tests.support.origins import ORIGINS, UPGRADE, Browser, Reply, host_of
from tests.support.patience import until

from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.visibility import Visibility
from codehub.core.workspace import Workspace

PAGE, PORT = 3000, 8080
FETCH = (
    "Sec-Fetch-Mode: cors",
    "Sec-Fetch-Dest: empty",
    "Sec-Fetch-Site: cross-site",
    "User-Agent: Mozilla/5.0",
)
FRAME = (
    *("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: cross-site"),
    *("User-Agent: Mozilla/5.0", "Accept: text/html"),
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVary: Cookie\r\nAccess-Control-Allow-Origin: *\r\n"
    b"Content-Security-Policy: default-src 'self'\r\n\r\nhi"
)


@dataclass
class World:
    made: Hub
    row: Workspace
    heads: list[bytes] = field(default_factory=list)
    """What reached the server."""

    @property
    def host(self) -> str:
        return host_of(self.row, PORT)

    async def ask(self, browser: Browser, *lines: str, origin: str = "", method: str = "GET") -> Reply:
        more = (f"Origin: {origin}",) if origin else ()
        return await browser.ask(self.host, "/data", *more, *lines, method=method)

    async def ann(self) -> Browser:
        browser = Browser(self.made)
        await browser.enter(self.row, "/", PORT)
        return browser


@asynccontextmanager
async def world(*, on: bool = True, phase: Phase = Phase.RUNNING) -> AsyncIterator[World]:
    async with hub(origins=ORIGINS) as made:
        scene = World(made, await made.workspace(phase, cross_port_access=on))

        async def answer(talk: Talk) -> None:
            scene.heads.append(await talk.head())
            await talk.send(ANSWER)

        async with server(answer) as served:
            made.instance_access.served_by[PORT] = served.upstream.port  # type: ignore[union-attr]
            yield scene


def origin_of(row: Workspace, port: int | None) -> str:
    return ORIGINS.origin_of(row.label, port)


async def test_a_page_at_a_port_reads_another_ports_answer() -> None:
    async with world() as scene:
        ann, origin = await scene.ann(), origin_of(scene.row, PAGE)
        assert ann.jar[scene.host].keys() == {"__Host-codehub_door"}
        for method in ("GET", "PUT"):
            reply = await scene.ask(ann, *FETCH, origin=origin, method=method)
            assert (reply.status, reply.body) == (200, "hi")
            assert reply.values("Access-Control-Allow-Origin") == [origin], "in place of the server's"
            assert reply.values("Access-Control-Allow-Credentials") == ["true"]
            assert reply.values("Vary") == ["Cookie", "Origin"]
        plain = await scene.ask(ann)
        assert plain.values("Access-Control-Allow-Origin") == ["*"], "no other answer is changed"


async def test_a_door_of_such_a_workspaces_port_comes_along_from_another_site() -> None:
    for on, same_site in ((True, "None"), (False, "Lax")):
        async with world(on=on) as scene:
            for port, wanted in ((PORT, same_site), (None, "Lax")):
                browser = Browser(scene.made)
                (door, _) = (await browser.enter(scene.row, "/", port)).values("Set-Cookie")
                assert f"; SameSite={wanted};" in door


async def test_a_preflight_is_answered_without_its_server_and_wakes_nothing() -> None:
    async with world(phase=Phase.STANDBY) as scene:
        asks = ("Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: content-type, x-own")
        reply = await scene.ask(
            Browser(scene.made), *FETCH, *asks, origin=origin_of(scene.row, PAGE), method="OPTIONS"
        )
        assert reply.status == 204
        assert reply.values("Access-Control-Allow-Methods") == ["PUT"]
        assert reply.values("Access-Control-Allow-Headers") == ["content-type, x-own"]
        assert reply.values("Access-Control-Allow-Origin") == [origin_of(scene.row, PAGE)]
        assert scene.heads == []
        assert (await scene.made.store.get(scene.row.id)).spec.desired_state is DesiredState.STANDBY


async def test_a_public_ports_server_answers_preflights_itself() -> None:
    """Whoever comes without a door is let in there, and is bounded by what the server allows alone."""
    async with world() as scene:
        await share(scene.made, scene.row, Visibility.PUBLIC, timedelta(hours=1), PORT)
        asks = (*FETCH, "Access-Control-Request-Method: PUT")
        origin = origin_of(scene.row, PAGE)

        async def is_its_servers() -> bool:
            reply = await scene.ask(Browser(scene.made), *asks, origin=origin, method="OPTIONS")
            return reply.status == 200

        await until(is_its_servers)
        assert scene.heads[-1].startswith(b"OPTIONS /data ")
        reply = await scene.ask(Browser(scene.made), *asks, origin=origin, method="OPTIONS")
        assert reply.values("Access-Control-Allow-Origin") == ["*"]
        assert reply.values("Access-Control-Allow-Credentials") == []


async def test_a_preflight_that_asks_for_no_names_is_allowed_none() -> None:
    async with world() as scene:
        asks = ("Access-Control-Request-Method: P/T", "Access-Control-Request-Headers: a b")
        origin = origin_of(scene.row, PAGE)
        reply = await scene.ask(Browser(scene.made), *FETCH, *asks, origin=origin, method="OPTIONS")
        assert (reply.status, reply.values("Access-Control-Allow-Methods")) == (204, [])
        assert reply.values("Access-Control-Allow-Headers") == []


async def test_a_frame_may_be_shown_by_its_ide_alone() -> None:
    async with world() as scene:
        policy = f"frame-ancestors {origin_of(scene.row, None)}"
        reply = await scene.ask(await scene.ann(), *FRAME)
        assert (reply.status, reply.body) == (200, "hi")
        assert reply.values("Content-Security-Policy") == ["default-src 'self'", policy]
        nobody = await scene.ask(Browser(scene.made), *FRAME)
        assert nobody.status == 401
        assert "/_codehub/sign-in" in nobody.body
        assert policy in nobody.values("Content-Security-Policy")[0]
        assert len(scene.heads) == 1


async def test_a_page_of_ours_is_shown_in_such_a_frame_where_nothing_listens() -> None:
    async with world() as scene:
        ann, host = Browser(scene.made), host_of(scene.row, PORT + 1)
        await ann.enter(scene.row, "/", PORT + 1)
        silent = await ann.ask(host, "/", *FRAME)
        assert (silent.status, silent.values("X-Codehub-Page")) == (502, ["silent"])
        assert f"frame-ancestors {origin_of(scene.row, None)}" in silent.values("Content-Security-Policy")[0]


async def test_a_websocket_between_ports_reaches_its_server() -> None:
    async with world() as scene:
        ann, origin = await scene.ann(), origin_of(scene.row, PAGE)
        talk = await ann.upgrade(scene.host, "/socket", f"Origin: {origin}")
        await talk.head()
        await talk.close()
        assert b"\r\nUpgrade: websocket\r\n" in scene.heads[0]


async def test_a_websocket_between_ports_ends_when_its_owner_takes_that_back() -> None:
    async def tunnel(talk: Talk) -> None:
        await talk.head()
        await talk.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        await talk.rest()

    async with world() as scene, server(tunnel) as served:
        scene.made.instance_access.served_by[PORT] = served.upstream.port  # type: ignore[union-attr]
        ann = await scene.ann()
        talk = await ann.upgrade(scene.host, "/socket", f"Origin: {origin_of(scene.row, PAGE)}")
        assert b" 101 " in await talk.head()
        by = By("ann", verbatim("test"))
        await scene.made.service.change(scene.row.id, lambda _spec: {"cross_port_access": False}, None, by)
        assert await talk.is_closed()
        await talk.close()


@pytest.mark.parametrize("on", [True, False])
async def test_whoever_else_asks_reaches_nothing(on: bool) -> None:
    async with world(on=on) as scene:
        ann, other = await scene.ann(), await scene.made.workspace(name="other", cross_port_access=True)
        origins = [origin_of(other, PAGE), origin_of(other, None), origin_of(scene.row, None), "null"]
        origins += ["https://code.example.org"] + ([] if on else [origin_of(scene.row, PAGE)])
        for origin in origins:
            for lines in (FETCH, UPGRADE):
                assert (await scene.ask(ann, *lines, origin=origin)).status == 403, origin
            asks = (*FETCH, "Access-Control-Request-Method: PUT")
            preflight = await scene.ask(Browser(scene.made), *asks, origin=origin, method="OPTIONS")
            assert (preflight.status, preflight.values("Access-Control-Allow-Origin")) == (401, [])
        if not on:
            assert (await scene.ask(ann, *FRAME)).status == 403
        assert scene.heads == []


async def test_a_request_between_ports_takes_a_door_of_the_one_that_is_asked() -> None:
    async with world() as scene:
        reply = await scene.ask(Browser(scene.made), *FETCH, origin=origin_of(scene.row, PAGE))
        assert (reply.status, scene.heads) == (401, [])


async def test_the_ide_is_asked_by_none_of_its_ports() -> None:
    async with world() as scene:
        ann = Browser(scene.made)
        await ann.enter(scene.row)
        origin = f"Origin: {origin_of(scene.row, PAGE)}"
        for lines in ((*FETCH, origin), (*UPGRADE, origin), FRAME):
            assert (await ann.ask(host_of(scene.row), "/", *lines)).status == 403


async def test_it_is_for_the_owner_alone_though_others_may_enter_the_port() -> None:
    async with world() as scene:
        await share(scene.made, scene.row, Visibility.SIGNED_IN, timedelta(hours=1), PORT)
        bob = Browser(scene.made, BOBS, BOB)
        await bob.enter(scene.row, "/", PORT)

        async def is_in() -> bool:
            return (await scene.ask(bob)).status == 200

        await until(is_in)
        reached = len(scene.heads)
        assert (await scene.ask(bob, *FETCH, origin=origin_of(scene.row, PAGE))).status == 403
        assert (await scene.ask(bob, *FRAME)).status == 403
        assert len(scene.heads) == reached
