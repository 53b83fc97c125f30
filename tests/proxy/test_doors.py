"""Doors into workspaces' own origins: what one opens, what it wakes, and how it ends (spec §14, security.md
21 and 25).
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest
from tests.support.edge import Talk
from tests.support.hub import ANN, BOB, BOBS, NAVIGATION, ORIGIN, SESSION, WRITES, Hub, hub
from tests.support.origins import ORIGINS, SAME_ORIGIN, UPGRADE, Browser, host_of
from tests.support.patience import within

from codehub.adapters.system.machine import SystemIdentity
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import Workspace
from codehub.ports.access import Amendment
from codehub.ports.store import StoreUnavailable

BY = By("ann", verbatim("test"))
DOOR = "__Host-codehub_door"


async def switch(talk: Talk) -> None:
    """An IDE whose every upgrade becomes a tunnel."""
    while b"Upgrade" not in (head := await talk.head()):
        body = head.split(b"\r\n", 1)[0]
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    await talk.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    await talk.rest()


# Nothing wakes, and nothing is told, before somebody is let in.


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (NAVIGATION, 303),
        ((), 401),
        (("Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image", "Sec-Fetch-Site: none"), 401),
        ((*NAVIGATION, "Sec-Purpose: prefetch"), 401),
        (("Connection: Upgrade", "Upgrade: websocket"), 401),
        (("X-Codehub-Token: cht_nobody_has_this_one_012345",), 401),
        (("Authorization: Bearer " + WRITES.secret.decode(),), 401),
        (("Cookie: codehub_session=anns-session",), 401),
        (("Cookie: __Host-codehub_session=anns-session",), 401),
        ((f"Cookie: {DOOR}=anns-session",), 401),
    ],
)
async def test_a_visit_without_a_credential_of_the_place_wakes_nothing(
    lines: tuple[str, ...], status: int
) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(Phase.STANDBY), Browser(made)
        before = (await made.store.get(row.id)).spec
        for port in (None, 3000):
            for path in ("/", "/_codehub/progress"):
                assert (await browser.ask(host_of(row, port), path, *lines)).status == status
        assert (await browser.ask(host_of(row), "/_codehub/start", *lines[:0], method="POST")).status == 401
        assert (await made.store.get(row.id)).spec == before
        assert before.desired_state is DesiredState.STANDBY


async def test_a_door_wakes_by_a_navigation_and_the_page_follows_at_the_origin() -> None:
    async with hub(origins=ORIGINS, boot_s=0.2) as made:
        row, browser = await made.workspace(Phase.STANDBY), Browser(made)
        host = host_of(row)
        entered = await browser.enter(row, "/a?b")
        assert (await made.store.get(row.id)).spec.desired_state is DesiredState.STANDBY
        later = await browser.ask(host, "/a", *SAME_ORIGIN)
        assert (later.status, later.values("Retry-After")) == (503, ["5"])
        page = await browser.go(host, entered.location)
        assert (page.status, page.values("X-Codehub-Page")) == (202, ["waking"])
        assert 'data-follow="/_codehub/progress"' in page.body
        assert f'href="{ORIGIN}/workspaces/{row.id}"' in page.body
        progress = await browser.ask(host, "/_codehub/progress", *SAME_ORIGIN)
        assert (progress.status, '"phase"' in progress.body) == (200, True)
        await made.arrives(row.id, Phase.RUNNING)
        async with within(5):
            while (reply := await browser.go(host, "/a?b")).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert reply.body == "GET /a?b HTTP/1.1"


async def test_a_button_of_our_own_pages_works_at_the_origin_and_leads_back_to_it() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(Phase.PENDING), Browser(made)
        host = host_of(row)
        await browser.enter(row)
        page = await browser.go(host, "/a?b")
        assert page.values("X-Codehub-Page") == ["pending"]
        assert 'action="/_codehub/start?to=%2Fa%3Fb"' in page.body
        own = (f"Origin: {ORIGINS.origin_of(row.label)}", "Sec-Fetch-Site: same-origin", "Content-Length: 0")
        for to, leads in (("%2Fa%3Fb", "/a?b"), ("%2F%2Fevil.test", "/"), ("%2F_codehub%2Fstop", "/")):
            pressed = await browser.ask(host, f"/_codehub/start?to={to}", *own, method="POST")
            assert (pressed.status, pressed.location) == (303, leads)
        await made.arrives(row.id, Phase.RUNNING)


# How a door ends (security.md 25).


async def _signs_out(made: Hub, _row: Workspace) -> None:
    await made.access.close_session(hashlib.sha256(SESSION.secret).digest())


async def _is_disabled(made: Hub, _row: Workspace) -> None:
    await made.access.amend_user(ANN.user_id, Amendment(disabled=True))


async def _is_deleted(made: Hub, row: Workspace) -> None:
    await made.service.delete(row.id, BY)


@pytest.mark.parametrize("end", [_signs_out, _is_disabled, _is_deleted])
async def test_a_door_is_dead_within_two_seconds_of_its_end_and_so_is_its_websocket(
    end: Callable[[Hub, Workspace], Coroutine[Any, Any, None]],
) -> None:
    async with hub(switch, origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        await browser.enter(row)
        assert (await browser.go(host, "/")).status == 200
        talk = await browser.upgrade(host, "/ws", f"Origin: {ORIGINS.origin_of(row.label)}")
        assert (await talk.head()).startswith(b"HTTP/1.1 101 ")
        await end(made, row)
        async with within(2):
            assert await talk.is_closed()
        await talk.close()
        made.ide.received.clear()
        expected = 404 if end is _is_deleted else 303
        for path in ("/", "/_codehub/progress"):
            assert (await browser.go(host, path)).status == expected
        assert (await browser.ask(host, "/", *SAME_ORIGIN)).status == (404 if end is _is_deleted else 401)
        assert not made.ide.received


async def test_a_way_into_an_origin_is_kept_by_its_door() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        (door,) = [word for name, word in browser.jar[host_of(row)].items() if name == DOOR]
        assert (await browser.go(host_of(row), "/")).status == 200
        entrance = made.route_cache.entrances[row.label]
        assert [key and key.secret.decode() for key in entrance.grants] == [door]


async def test_the_label_of_a_deleted_workspace_never_answers_again() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        assert (await browser.go(host_of(row), "/")).status == 200
        await made.service.delete(row.id, BY, purge=True)
        await made.arrives(row.id, Phase.DELETED)
        stranger = Browser(made)
        async with within(2):
            while (await stranger.go(host_of(row), "/")).status != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for visitor in (browser, stranger):
            for lines in (NAVIGATION, SAME_ORIGIN, ()):
                assert (await visitor.ask(host_of(row), "/", *lines)).status == 404


# A door opens its own place.


async def test_a_door_of_one_workspace_opens_no_other() -> None:
    async with hub(origins=ORIGINS) as made:
        row, other, browser = await made.workspace(), await made.workspace(name="other"), Browser(made)
        await browser.enter(row)
        browser.jar[host_of(other)] = dict(browser.jar[host_of(row)])
        for _ in range(2):
            assert (await browser.go(host_of(other), "/")).location.startswith(
                f"{ORIGIN}/enter/{other.label}?"
            )
            assert (await browser.ask(host_of(other), "/", *SAME_ORIGIN)).status == 401
        assert not made.ide.received


async def test_a_door_of_the_ide_opens_no_port_and_a_ports_opens_neither_the_ide_nor_another_port() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        ports = (None, 3000, 3001)
        for own in ports:
            browser.jar.clear()
            await browser.enter(row, port=own)
            door = browser.jar[host_of(row, own)]
            for port in ports:
                browser.jar[host_of(row, port)] = dict(door)
                reply = await browser.ask(host_of(row, port), "/", *SAME_ORIGIN)
                expected = 401 if port != own else 200 if own is None else 502
                assert reply.status == expected, (own, port)
            if own is not None:
                page = await browser.go(host_of(row, own), "/")
                assert (page.status, f"Nothing listens on port {own} yet" in page.body) == (502, True)


async def test_who_is_not_the_owner_is_not_let_in_by_a_door_either() -> None:
    """The hub gives no code to them; here one is forged."""
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made, BOBS, BOB)
        assert (await browser.enter(row)).status == 303
        assert (await browser.go(host_of(row), "/")).status == 403
        assert not made.ide.received


# The database is away.


async def test_no_door_opens_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        code = await browser.code(await browser.go(host, "/"), row)

        async def away(*_args: object, **_kwargs: object) -> None:
            raise StoreUnavailable("away")

        monkeypatch.setattr(made.doors, "open_door", away)
        reply = await browser.go(host, f"/_codehub/enter?code={code}")
        assert (reply.status, DOOR in browser.jar[host]) == (503, False)
        monkeypatch.undo()
        assert (await browser.go(host, f"/_codehub/enter?code={code}")).status == 303


async def test_who_is_in_stays_in_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(switch, origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host, own = host_of(row), f"Origin: {ORIGINS.origin_of(row.label)}"
        await browser.enter(row)
        assert (await browser.go(host, "/")).status == 200

        async def away(*_args: object) -> None:
            raise StoreUnavailable("away")

        monkeypatch.setattr(made.route_cache, "_workspace_of", away)
        monkeypatch.setattr(made.credentials, "people", away)
        monkeypatch.setattr(made.workspace_locator, "look", away)
        assert (await browser.go(host, "/")).status == 200
        assert (await browser.ask(host, "/", own, "Content-Length: 0", method="POST")).status == 200
        talk = await browser.upgrade(host, "/ws", own)
        assert (await talk.head()).startswith(b"HTTP/1.1 101 ")
        await talk.close()
        monkeypatch.setattr("codehub.proxy.policy.route_cache._STALE_S_MAX", 0.0)
        for lines in (NAVIGATION, SAME_ORIGIN, (own, *UPGRADE)):
            assert (await browser.ask(host, "/", *lines)).status == 503


async def test_at_the_limit_the_origin_leads_to_the_hub_and_stops_nothing_else() -> None:
    async with hub(origins=ORIGINS, limits=Limits(per_user=1)) as made:
        row, browser = await made.workspace(Phase.STANDBY), Browser(made)
        other = await made.workspace(name="other")
        host = host_of(row)
        await browser.enter(row)
        page = await browser.go(host, "/a")
        assert (page.status, page.values("X-Codehub-Page")) == (429, ["limit"])
        assert f'href="{ORIGIN}/workspaces/{other.id}">Go to other</a>' in page.body
        assert "<form" not in page.body
        assert '<a href="/a">' in page.body
        own = (f"Origin: {ORIGINS.origin_of(row.label)}", "Content-Length: 0")
        for query in (f"?then={other.id}", f"?id={other.id}"):
            pressed = await browser.ask(host, f"/_codehub/stop{query}", *own, method="POST")
            assert (pressed.status, pressed.location) == (303, "/")
        assert (await made.store.get(other.id)).spec.desired_state is DesiredState.RUNNING


async def test_strangers_cost_one_question_a_label_and_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        asked: list[str] = []
        workspace_of = made.route_cache._workspace_of
        assert workspace_of is not None

        async def counted(label: str) -> UUID | None:
            asked.append(label)
            return await workspace_of(label)

        monkeypatch.setattr(made.route_cache, "_workspace_of", counted)
        monkeypatch.setattr("codehub.proxy.policy.route_cache._ROUND_S", 3600.0)
        monkeypatch.setattr(made.route_cache, "_is_used", asyncio.Event())  # no round comes between
        nobodys = SystemIdentity().new_id().hex[:20]
        for _ in range(5):
            assert (await browser.go(host_of(row), "/")).status == 303
            assert (await browser.go(f"{nobodys}.localhost:8000", "/")).status == 404
        assert len(asked) <= 4
