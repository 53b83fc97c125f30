"""What differs at a workspace's own origin, through a real edge: which Host is whose, which credentials
count, what another origin may ask for, and what passes in both directions (spec §14, security.md 1, 14, 27).
"""

import ipaddress
from collections.abc import Callable

import pytest
from tests.support.edge import Talk
from tests.support.hub import COOKIE, NAVIGATION, ORIGIN, WRITES, hub
from tests.support.origins import ORIGINS, SAME_ORIGIN, UPGRADE, Browser, host_of

from codehub.core.route import Kind, Route
from codehub.proxy.engine.block_cache import BlockCache
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.policy.header_rules import header_rules

DOOR = "__Host-codehub_door"
TOKEN = f"X-Codehub-Token: {WRITES.secret.decode()}"
LABEL = "0123456789abcdef0123"


# Hosts.


@pytest.mark.parametrize(
    "host",
    [
        "{label}.localhost:8001",
        "{label}.localhost",
        "{label}.localhost.:8000",
        "x{label}.localhost:8000",
        "{label}x.localhost:8000",
        "a.{label}.localhost:8000",
        "{label}-3000.localhost:8000",
        "03000-{label}.localhost:8000",
        "0-{label}.localhost:8000",
        "65536-{label}.localhost:8000",
        "3000-3001-{label}.localhost:8000",
        "www.localhost:8000",
    ],
)
async def test_a_host_below_the_domain_that_is_no_place_is_nobodys_and_never_the_hubs(host: str) -> None:
    async with hub(origins=ORIGINS) as made:
        row = await made.workspace()
        browser = Browser(made)
        for path in ("/", "/api/v1/session", "/readyz", f"/w/{row.id}/"):
            for lines in ((COOKIE,), (TOKEN,), (COOKIE, *NAVIGATION)):
                reply = await browser.ask(host.format(label=row.label), path, *lines)
                assert (reply.status, f'<a href="{ORIGIN}/">' in reply.body) == (404, lines[1:] != ())
        assert not made.api.received
        assert not made.ide.received


@pytest.mark.parametrize(
    "host", ["{label}.localhost.evil.test", "{label}.evil-localhost:8000", "{label}localhost:8000", "{label}"]
)
async def test_a_host_that_only_looks_like_a_workspaces_leads_into_none(host: str) -> None:
    async with hub(origins=ORIGINS) as made:
        row = await made.workspace()
        reply = await Browser(made).ask(host.format(label=row.label), "/", TOKEN)
        assert (reply.status, bool(made.ide.received), bool(made.api.received)) == (200, False, True)


async def test_a_host_is_the_same_in_capital_letters() -> None:
    async with hub(origins=ORIGINS) as made:
        row = await made.workspace()
        assert (await Browser(made).ask(host_of(row).upper(), "/a", TOKEN)).body == "GET /a HTTP/1.1"


@pytest.mark.parametrize("is_trusted", [False, True])
async def test_another_host_is_believed_of_nobody(*, is_trusted: bool) -> None:
    trusted = [ipaddress.ip_network("127.0.0.1")] if is_trusted else []
    async with hub(origins=ORIGINS, trusted_proxies=trusted) as made:
        row, browser = await made.workspace(), Browser(made)
        lies = (f"X-Forwarded-Host: {host_of(row)}", f"Forwarded: host={host_of(row)}", TOKEN)
        assert (await browser.ask("hub.test", "/a", *lies)).body == "GET /a HTTP/1.1"
        assert not made.ide.received
        lies = ("X-Forwarded-Host: hub.test", "X-Original-Host: hub.test", TOKEN)
        assert (await browser.ask(host_of(row), "/api/v1/session", *lies)).status == 200
        assert len(made.api.received) == 1
        assert b"/api/v1/session" in b"".join(made.ide.received)


async def test_the_whole_target_of_an_absolute_form_is_of_the_same_host() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        assert (await browser.ask("hub.test", f"http://{host_of(row)}/", TOKEN)).status == 400
        assert (await browser.ask(host_of(row), "http://hub.test/", TOKEN)).status == 400
        reply = await browser.ask(host_of(row), f"http://{host_of(row)}/a", TOKEN)
        assert reply.body == "GET /a HTTP/1.1"


async def test_each_request_of_a_connection_goes_where_its_own_host_says() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        door = f"Cookie: {DOOR}={browser.jar[host_of(row)][DOOR]}"
        talk = await made.connect()
        steps = [(host_of(row), door), ("hub.test", COOKIE), (host_of(row), door), ("hub.test", door)]
        steps += [("x.localhost:8000", door), (host_of(row), COOKIE), (host_of(row), door)]
        expected = [
            (200, "ide"),
            (200, "api"),
            (200, "ide"),
            (200, "api"),
            (404, ""),
            (401, ""),
            (200, "ide"),
        ]
        for (host, cookie), (status, server) in zip(steps * 2, expected * 2, strict=True):
            made.ide.received.clear()
            made.api.received.clear()
            await talk.send(f"GET /same HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n\r\n".encode())
            head = await talk.head()
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            await talk.exactly(length)
            assert int(head.split(b" ")[1]) == status, (host, cookie)
            assert (bool(made.ide.received), bool(made.api.received)) == (server == "ide", server == "api")
        await talk.close()


def test_a_change_of_host_alone_is_read_anew() -> None:
    head = RequestHead(BlockCache(header_rules(secure=False, origins=ORIGINS)))
    for host, route in [
        (f"{LABEL}.localhost:8000", Route(Kind.WORKSPACE, None, None, "", "/a", LABEL, LABEL)),
        ("hub.test", Route(Kind.HUB, None, None, "", "/a")),
        (f"3000-{LABEL}.localhost:8000", Route(Kind.WORKSPACE, None, 3000, "", "/a", LABEL, f"3000-{LABEL}")),
        ("x.localhost:8000", Route(Kind.WORKSPACE, None, None, "", "/a")),
    ]:
        for length in ("", "Content-Length: 5\r\n"):
            head.read(f"POST /a HTTP/1.1\r\nHost: {host}\r\n{length}\r\n".encode())
            assert head.route == route
            assert length == "" or (head._bytes_max is None) is (route.kind is Kind.WORKSPACE)


# What passes.


def _answers(*lines: str) -> Callable[[Talk], object]:
    async def answer(talk: Talk) -> None:
        while True:
            await talk.head()
            await talk.send("\r\n".join(("HTTP/1.1 200 OK", "Content-Length: 0", *lines, "", "")).encode())

    return answer


async def test_a_workspaces_cookies_keep_their_path_and_lose_their_domain_and_none_is_ours() -> None:
    handler = _answers(
        "Set-Cookie: a=1; Path=/x; Domain=localhost; HttpOnly",
        "Set-Cookie: b=2; domain=.localhost",
        f"Set-Cookie: {DOOR}=evil; Path=/; Secure",
        "Set-Cookie: __Host-codehub_pre=evil; Path=/; Secure",
        f"Set-Cookie: {DOOR.upper()} =evil; Path=/; Secure",
        "Set-Cookie: codehub_session=evil; Path=/",
        f"Set-Cookie: ={DOOR}=evil",
        "Location: //evil.test/x",
        "X-Codehub-Page: waking",
        "Clear-Site-Data: *",
    )
    async with hub(handler, origins=ORIGINS) as made:  # type: ignore[arg-type]
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        reply = await browser.go(host_of(row), "/")
        assert reply.values("Set-Cookie") == ["a=1; Path=/x; HttpOnly", "b=2"]
        assert reply.location == "//evil.test/x"
        assert "evil;" not in reply.head
        assert "X-Codehub-Page" not in reply.head
        assert "Clear-Site-Data" not in reply.head


@pytest.mark.parametrize("location", ["/there", "//evil.test", "http://evil.test/", "there"])
async def test_a_location_is_left_as_it_is(location: str) -> None:
    async with hub(_answers(f"Location: {location}"), origins=ORIGINS) as made:  # type: ignore[arg-type]
        row = await made.workspace()
        assert (await Browser(made).ask(host_of(row), "/", TOKEN)).location == location


async def test_an_ide_that_keeps_its_prefix_lives_below_it_at_its_origin() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(ide="jupyterlab"), Browser(made)
        host = host_of(row)
        await browser.enter(row)
        for _ in range(2):
            for path in ("/", "/?a=b"):
                moved = await browser.go(host, path)
                assert (moved.status, moved.location) == (303, f"/w/{row.id}{path}")
            assert (await browser.go(host, f"/w/{row.id}/lab")).body == f"GET /w/{row.id}/lab HTTP/1.1"
        assert (await browser.go(host, "/favicon.ico")).body == "GET /favicon.ico HTTP/1.1"
        assert b"X-Forwarded-Prefix" not in b"".join(made.ide.received)


async def test_below_the_mount_of_another_workspace_an_origin_is_still_its_own() -> None:
    async with hub(origins=ORIGINS) as made:
        row, other, browser = await made.workspace(), await made.workspace(name="other"), Browser(made)
        await browser.enter(row)
        reply = await browser.go(host_of(row), f"/w/{other.id}/x")
        assert (reply.status, reply.body) == (200, f"GET /w/{other.id}/x HTTP/1.1")


# The path form.


@pytest.mark.parametrize(
    ("ide", "path", "leads"),
    [
        ("code-server", "/", "/"),
        ("code-server", "/a/b?c=d", "/a/b?c=d"),
        ("code-server", "//evil.test", "//evil.test"),
        ("code-server", "/_codehub/progress", "/_codehub/progress"),
        ("jupyterlab", "/", "{mount}/"),
        ("jupyterlab", "/lab?a", "{mount}/lab?a"),
        ("jupyterlab", "/_codehub/progress", "/_codehub/progress"),
    ],
)
async def test_a_session_is_led_from_the_path_form_to_the_origin(ide: str, path: str, leads: str) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(ide=ide), Browser(made)
        for _ in range(2):
            led = await browser.ask("hub.test", f"/w/{row.id}{path}", COOKIE, *NAVIGATION)
            assert led.status == 303
            assert led.location == ORIGINS.origin_of(row.label) + leads.format(mount=f"/w/{row.id}")
        for lines in (SAME_ORIGIN, (), UPGRADE):
            refused = await browser.ask("hub.test", f"/w/{row.id}{path}", COOKIE, *lines)
            assert (refused.status, ORIGINS.origin_of(row.label) in refused.body) == (403, True)
            assert "token" in refused.body
        assert not made.ide.received


async def test_in_the_path_form_a_token_is_served_as_ever_and_a_stranger_signs_in() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        token = f"Authorization: Bearer {WRITES.secret.decode()}"
        for lines in ((token,), (token, COOKIE)):
            assert (await browser.ask("hub.test", f"/w/{row.id}/a", *lines)).body == "GET /a HTTP/1.1"
        assert b"X-Forwarded-Prefix" in b"".join(made.ide.received)
        made.ide.received.clear()
        sent = await browser.ask("hub.test", f"/w/{row.id}/a", *NAVIGATION)
        assert (sent.status, sent.location) == (303, f"/login?next=/w/{row.id}/a")
        assert (await browser.ask("hub.test", f"/w/{row.id}/a", TOKEN)).status == 401
        bobs = "Cookie: codehub_session=bobs-session"
        assert (await browser.ask("hub.test", f"/w/{row.id}/a", bobs, *NAVIGATION)).status == 403
        assert not made.ide.received


async def test_without_origins_nothing_differs_at_a_host_that_looks_like_one() -> None:
    async with hub() as made:
        row, browser = await made.workspace(), Browser(made)
        line = "Authorization: Basic x"
        assert (await browser.ask(host_of(row), "/a", line, "X-Codehub-Token: x")).body == "GET /a HTTP/1.1"
        assert b"X-Codehub-Token: x" in b"".join(made.api.received)
        assert (await browser.ask(host_of(row), f"/w/{row.id}/a", COOKIE)).body == "GET /a HTTP/1.1"
