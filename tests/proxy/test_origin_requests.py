"""At a workspace's own origin, through a real edge: which credentials count, and what another origin may ask
for (spec §14, security.md 1, 14 and 27).
"""

import pytest
from tests.support.hub import COOKIE, ORIGIN, READS, WRITES, hub
from tests.support.origins import ORIGINS, SAME_ORIGIN, SECURE, UPGRADE, Browser, host_of

DOOR = "__Host-codehub_door"
TOKEN = f"X-Codehub-Token: {WRITES.secret.decode()}"
LABEL = "0123456789abcdef0123"


# Which credentials count.


@pytest.mark.parametrize(
    ("cookies", "status"),
    [
        (f"{DOOR}={{door}}", 200),
        (f"a=b; {DOOR}={{door}}; __Host-codehub_pre=x; c=d", 200),
        (f"codehub_session=x; codehub_session=y; {DOOR}={{door}}", 200),
        (f"{DOOR}={{door}}; {DOOR}={{door}}", 400),
        (f"{DOOR}=x; {DOOR}={{door}}", 400),
        (f"{DOOR}={{door}}; {DOOR}=x", 400),
        (f"{DOOR}=; {DOOR}={{door}}", 400),
        (f"{DOOR}={{door}}; {DOOR} =x", 400),
        ("codehub_door={door}", 401),
        (f"{DOOR.lower()}={{door}}", 401),
        ("codehub_session={door}", 401),
        ("codehub_session=anns-session", 401),
        ("__Host-codehub_session=anns-session", 401),
    ],
)
@pytest.mark.parametrize("upgrade", [(), UPGRADE])
async def test_at_an_origin_one_door_opens_and_two_open_nothing(
    cookies: str, status: int, upgrade: tuple[str, ...]
) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        door = browser.jar.pop(host_of(row))[DOOR]
        for _ in range(2):
            reply = await browser.ask(host_of(row), "/", "Cookie: " + cookies.format(door=door), *upgrade)
            assert reply.status == status
        assert bool(made.ide.received) == (status == 200)
        assert b"codehub" not in b"".join(made.ide.received).lower()


async def test_at_the_hub_a_door_is_nothing() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        await browser.go(host_of(row), "/")
        made.ide.received.clear()
        browser.jar["hub.test"] = browser.jar[host_of(row)]
        assert (await browser.ask("hub.test", f"/w/{row.id}/")).status == 401
        assert (await browser.ask("hub.test", f"/w/{row.id}/", COOKIE.replace("anns", "no"))).status == 401
        assert not made.ide.received


async def test_the_same_secrets_under_http_and_https() -> None:
    async with hub(origins=SECURE, proto=b"https") as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row, None, SECURE)
        sent = await browser.go(host, "/")
        code = await browser.code(sent, row)
        assert (await browser.go(host, f"/_codehub/enter?code={code}")).status == 303
        assert (await browser.go(host, "/")).status == 200


async def test_a_token_in_our_own_header_opens_the_origin_and_never_reaches_the_workspace() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        lines = (TOKEN, "Authorization: Basic app-s-own", f"X-Other: {WRITES.secret.decode()}")
        for _ in range(2):
            assert (await browser.ask(host, "/a", *lines)).status == 200
        seen = b"".join(made.ide.received)
        assert seen.count(b"Authorization: Basic app-s-own\r\n") == 2
        assert b"X-Codehub-Token" not in seen
        assert b"cht_" not in seen
        made.ide.received.clear()
        assert (await browser.ask(host, "/a", TOKEN, TOKEN)).status == 400
        assert (await browser.ask(host, "/a", f"X-Codehub-Token: {READS.secret.decode()}")).status == 403
        assert (await browser.ask(host, "/a", f"X_Codehub_Token: {WRITES.secret.decode()}")).status == 401
        assert not made.ide.received


@pytest.mark.parametrize(
    ("authorization", "passes"),
    [
        ("Basic dTpw", True),
        ("Bearer the-apps-own", True),
        ("Bearer {token}", False),
        ("token {token}", False),
        ("Bearer notcht_0123456789", True),
    ],
)
async def test_authorization_is_the_apps_own_at_an_origin_and_ours_below_the_mount(
    authorization: str, passes: bool
) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        line = "Authorization: " + authorization.format(token=WRITES.secret.decode())
        for more in ((), ("Content-Length: 0",), UPGRADE):
            made.ide.received.clear()
            assert (await browser.ask(host_of(row), "/a", line, *more)).status == 200
            assert (line.encode() in b"".join(made.ide.received)) is passes
        made.ide.received.clear()
        await browser.ask("hub.test", f"/w/{row.id}/a", line)
        await browser.ask("hub.test", f"/w/{row.id}/a", f"Authorization: Bearer {WRITES.secret.decode()}")
        assert b"Authorization" not in b"".join(made.ide.received)
        assert made.ide.received


# What another origin may ask for.

ELSEWHERE = [f"http://{LABEL}.localhost:8000", "http://hub.test", ORIGIN, "http://evil.test", "null"]


@pytest.mark.parametrize("origin", ELSEWHERE)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "PUT"])
async def test_a_request_with_a_foreign_origin_is_refused_whatever_its_method(
    origin: str, method: str
) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        assert (await browser.ask(host_of(row), "/a", *SAME_ORIGIN)).status == 200
        made.ide.received.clear()
        lines = (f"Origin: {origin}", "Sec-Fetch-Mode: cors", "Content-Length: 0")
        reply = await browser.ask(host_of(row), "/a", *lines, method=method)
        assert (reply.status, made.ide.received) == (403, [])


@pytest.mark.parametrize(
    "origin",
    [
        *ELSEWHERE,
        "http://{label}.localhost",
        "https://{label}.localhost:8000",
        "http://3000-{label}.localhost:8000",
        "http://{label}.localhost:8000.evil.test",
        "http://{label}.localhost:8000/",
        "http://x@{label}.localhost:8000",
    ],
)
async def test_a_websocket_of_another_origin_is_refused(origin: str) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        line = f"Origin: {origin.format(label=row.label)}"
        assert (await browser.ask(host_of(row), "/ws", *UPGRADE, line)).status == 403
        assert (await browser.ask(host_of(row), "/ws", *UPGRADE, line, TOKEN)).status == 403
        assert not made.ide.received
        own = f"Origin: {ORIGINS.origin_of(row.label)}"
        assert (await browser.ask(host_of(row), "/ws", *UPGRADE, own)).status == 200
        assert (await browser.ask(host_of(row), "/ws", *UPGRADE)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("method", "mode", "dest"),
    [
        ("GET", "cors", "empty"),
        ("GET", "no-cors", "image"),
        ("GET", "no-cors", "script"),
        ("GET", "navigate", "iframe"),
        ("GET", "navigate", "object"),
        ("POST", "navigate", "document"),
        ("POST", "no-cors", "empty"),
        ("HEAD", "no-cors", "empty"),
        ("GET", "websocket", "websocket"),
    ],
)
async def test_what_a_page_of_another_site_or_sibling_asks_for_is_refused(
    site: str, method: str, mode: str, dest: str
) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        assert (await browser.go(host_of(row), "/a")).status == 200
        made.ide.received.clear()
        lines = [f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}", f"Sec-Fetch-Dest: {dest}"]
        lines += ["Content-Length: 0"] if method == "POST" else []
        for path in ("/a", "/_codehub/start", "/_codehub/progress"):
            assert (await browser.ask(host_of(row), path, *lines, method=method)).status == 403
        assert not made.ide.received


@pytest.mark.parametrize(
    "lines",
    [
        ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site"),
        ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: same-site"),
        ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: same-origin"),
        SAME_ORIGIN,
        (*SAME_ORIGIN, "Origin: {own}"),
        ("Sec-Fetch-Mode: cors", "Sec-Fetch-Site: none"),
        (),
    ],
)
async def test_a_link_from_anywhere_and_the_origins_own_pages_are_let_in(lines: tuple[str, ...]) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        own = ORIGINS.origin_of(row.label)
        for _ in range(2):
            assert (
                await browser.ask(host_of(row), "/", *(line.format(own=own) for line in lines))
            ).status == 200


async def test_a_token_may_come_from_any_page_but_through_no_websocket() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        lines = (TOKEN, "Origin: http://evil.test", "Sec-Fetch-Site: cross-site")
        for _ in range(2):
            assert (await browser.ask(host_of(row), "/", *lines)).status == 200
        assert (
            await browser.ask(host_of(row), "/", *lines, "Content-Length: 0", method="POST")
        ).status == 200
        assert (await browser.ask(host_of(row), "/", *lines, *UPGRADE)).status == 403
