"""Ports of workspaces at their own origins, from browser to server: who comes in, and what ends."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.edge import Talk, answer_ok, server
from tests.support.hub import ANN, BOB, BOBS, ORIGIN, WRITES, Hub, ServedPorts, hub
from tests.support.origins import ORIGINS, SAME_ORIGIN, UPGRADE, Browser, host_of
from tests.support.patience import PATIENCE_S, until

from codehub.core.access import Person, Role, Scope, User
from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.shared_ports import rule_share
from codehub.core.visibility import SharedPort, Visibility
from codehub.core.workspace import Workspace
from codehub.ports.instance_access import RelayRefused

PORT = 3000
TOKEN = f"X-Codehub-Token: {WRITES.secret.decode()}"


@asynccontextmanager
async def world(**options: object) -> AsyncIterator[tuple[Hub, Workspace]]:
    """A workspace that runs, and a server on a port inside it."""
    async with hub(origins=ORIGINS, **options) as made, server(answer_ok) as served:  # type: ignore[arg-type]
        made.instance_access.served_by[PORT] = served.upstream.port  # type: ignore[union-attr]
        yield made, await made.workspace()


async def share(
    made: Hub, row: Workspace, visibility: Visibility, lasts: timedelta | None = None, port: int = PORT
) -> None:
    user = User(ANN.user_id, "ann", Role.MEMBER, disabled=False, created_at=datetime.now(UTC))
    person = Person(user, Scope.WRITE, is_token=False, key_sha256=b"", expires_at=None)
    wanted = SharedPort(port, visibility, None if lasts is None else datetime.now(UTC) + lasts)
    await made.shared_ports.amend(
        row.id,
        lambda *given: rule_share(
            *given, wanted=wanted, person=person, request_id="r", ceiling=Visibility.PUBLIC
        ),
    )


async def test_its_owner_enters_a_port_by_a_door_of_its_own() -> None:
    async with world() as (made, row):
        ann, host = Browser(made), host_of(row, PORT)
        entered = await ann.enter(row, "/app?x=1", PORT)
        assert (entered.status, entered.location) == (303, "/app?x=1")
        page = await ann.go(host, "/app?x=1")
        assert page.status == 200
        # The IDE's own origin knows nothing of that door, nor another port's.
        ann.jar[host_of(row)] = dict(ann.jar[host])
        ann.jar[host_of(row, PORT + 1)] = dict(ann.jar[host])
        for other in (host_of(row), host_of(row, PORT + 1)):
            assert (await ann.ask(other, "/", *SAME_ORIGIN)).status == 401


async def test_a_program_enters_by_its_token() -> None:
    async with world() as (made, row):
        program = Browser(made)
        assert (await program.ask(host_of(row, PORT), "/", TOKEN)).status == 200
        assert (await program.ask(host_of(row, PORT), "/")).status == 401


async def test_a_websocket_that_another_site_opens_is_refused() -> None:
    async with world() as (made, row):
        ann, host = Browser(made), host_of(row, PORT)
        await ann.enter(row, "/", PORT)
        answer = await ann.ask(host, "/", "Origin: https://elsewhere.example", *UPGRADE)
        assert answer.status == 403


async def test_whoever_is_signed_in_enters_a_port_that_is_open_to_them_and_is_out_when_it_is_not() -> None:
    async with world() as (made, row):
        bob, host = Browser(made, BOBS, BOB), host_of(row, PORT)
        await bob.enter(row, "/", PORT)
        assert (await bob.ask(host, "/", *SAME_ORIGIN)).status == 403
        await share(made, row, Visibility.SIGNED_IN)
        await until(lambda: is_let_in(bob, host))
        assert (await Browser(made).ask(host, "/", *SAME_ORIGIN)).status == 401
        assert (await bob.ask(host_of(row), "/", *SAME_ORIGIN)).status == 401
        await share(made, row, Visibility.PRIVATE)
        await until(lambda: is_refused(bob, host))


async def is_let_in(browser: Browser, host: str) -> bool:
    return (await browser.ask(host, "/", *SAME_ORIGIN)).status == 200


async def is_refused(browser: Browser, host: str) -> bool:
    return (await browser.ask(host, "/", *SAME_ORIGIN)).status in (401, 403)


async def test_anybody_enters_a_public_port_and_nobody_does_when_its_time_is_over() -> None:
    async with world() as (made, row):
        stranger, host = Browser(made), host_of(row, PORT)
        assert (await stranger.go(host, "/")).location.startswith(f"{ORIGIN}/enter/")
        stranger.jar.clear()
        await share(made, row, Visibility.PUBLIC, timedelta(seconds=3))
        await until(lambda: is_let_in(stranger, host))
        # From a page of anybody's, too: it is nobody that comes.
        assert (
            await stranger.ask(host, "/", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")
        ).status == 200
        await until(lambda: is_refused(stranger, host))


@pytest.mark.parametrize("visibility", [Visibility.SIGNED_IN, Visibility.PUBLIC])
async def test_visitors_wake_nothing_and_its_owner_does(visibility: Visibility) -> None:
    async with world() as (made, row):
        bob, ann, host = Browser(made, BOBS, BOB), Browser(made), host_of(row, PORT)
        lasts = timedelta(hours=1)
        await share(made, row, visibility, lasts)
        await bob.enter(row, "/", PORT) if visibility is Visibility.SIGNED_IN else None
        await ann.enter(row, "/", PORT) if visibility is Visibility.SIGNED_IN else None
        await until(lambda: is_let_in(bob, host))
        await made.service.set_wish(row.id, DesiredState.STANDBY, By(ANN, verbatim("rest")))
        await made.arrives(row.id, Phase.STANDBY)
        for _ in range(2):
            page = await bob.go(host, "/")
            assert page.status == 503, page
            assert "asleep" in page.body
        assert (await bob.ask(host, "/")).status == 503
        assert (await made.store.get(row.id)).spec.desired_state is DesiredState.STANDBY
        # Its owner is known by their door, which the page leads to.
        led = await ann.go(host, "/_codehub/sign-in")
        assert led.location.startswith(f"{ORIGIN}/enter/{PORT}-{row.label}?")
        code = await ann.code(led, row, PORT)
        assert (await ann.go(host, f"/_codehub/enter?code={code}")).status == 303
        assert (await ann.go(host, "/")).status in (200, 202)
        await made.arrives(row.id, Phase.RUNNING)


async def test_what_nothing_listens_on_is_said_and_entered_as_soon_as_something_does() -> None:
    async with world() as (made, row):
        ann, host = Browser(made), host_of(row, PORT + 1)
        await ann.enter(row, "/", PORT + 1)
        page = await ann.go(host, "/")
        assert (page.status, page.values("X-Codehub-Page")) == (502, ["silent"])
        assert f"port {PORT + 1}" in page.body
        korean = await ann.ask(host, "/", *NAVIGATING, "Accept-Language: ko")
        assert "수신 대기" in korean.body
        looked = await ann.ask(host, "/", *SAME_ORIGIN, method="HEAD")
        assert (looked.status, looked.values("X-Codehub-Page")) == (502, ["silent"])
        made.instance_access.served_by[PORT + 1] = made.instance_access.served_by[PORT]

        async def is_there() -> bool:
            looked = await ann.ask(host, "/", *SAME_ORIGIN, method="HEAD")
            return looked.status == 200 and not looked.values("X-Codehub-Page")

        await until(is_there)


NAVIGATING = (
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-Dest: document",
    "Sec-Fetch-Site: none",
    "Accept: text/html",
)


async def test_where_a_workspace_has_no_network_of_its_own_ports_are_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_given: object) -> None:
        raise RelayRefused

    monkeypatch.setattr(ServedPorts, "relay", refuse)
    async with world() as (made, row):
        ann, host = Browser(made), host_of(row, PORT)
        await ann.enter(row, "/", PORT)
        assert (await ann.go(host, "/")).status == 404
        assert (await ann.ask(host, "/", *SAME_ORIGIN)).status == 404


async def test_the_server_is_told_its_own_host_and_none_of_our_secrets() -> None:
    heard: list[bytes] = []

    async def listen(talk: Talk) -> None:
        heard.append(await talk.head())
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: own=1\r\n\r\n")

    async with world() as (made, row), server(listen) as served:
        made.instance_access.served_by[PORT] = served.upstream.port  # type: ignore[union-attr]
        ann, host = Browser(made), host_of(row, PORT)
        await ann.enter(row, "/", PORT)
        door = ann.jar[host]["__Host-codehub_door"]
        assert (await ann.ask(host, "/", *SAME_ORIGIN, "Authorization: Basic YTpi")).status == 200
    assert re.search(rb"(?im)^host: %b\r$" % re.escape(host.encode()), heard[0])
    assert b"Basic YTpi" in heard[0]
    assert door.encode() not in heard[0]


async def test_an_open_tunnel_into_a_port_ends_when_it_is_made_private() -> None:
    async def tunnel(talk: Talk) -> None:
        await talk.head()
        await talk.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        await talk.rest()

    async with world() as (made, row), server(tunnel) as served:
        made.instance_access.served_by[PORT] = served.upstream.port  # type: ignore[union-attr]
        await share(made, row, Visibility.SIGNED_IN)
        bob, host = Browser(made, BOBS, BOB), host_of(row, PORT)
        await bob.enter(row, "/", PORT)
        talk = await bob.upgrade(host, "/", f"Origin: http://{host}")
        assert b" 101 " in await talk.head()
        await share(made, row, Visibility.PRIVATE)
        async with asyncio.timeout(PATIENCE_S):
            assert await talk.is_closed()
        await talk.close()
