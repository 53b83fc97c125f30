"""Entering a workspace's own origin through a real edge (spec §14, security.md 21, 25 and 26)."""

import hashlib
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from tests.support.hub import ORIGIN, SESSION, hub
from tests.support.origins import ORIGINS, Browser, host_of

from codehub.core.origins import Door

DOOR, PRE = "__Host-codehub_door", "__Host-codehub_pre"


async def test_a_browser_without_a_door_comes_in_by_the_hub_and_three_redirects() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        sent = await browser.go(host, "/a/b?c=d&e=//f")
        assert sent.status == 303
        address = urlsplit(sent.location)
        assert f"{address.scheme}://{address.netloc}" == ORIGIN
        assert address.path == f"/enter/{row.label}"
        asked = parse_qs(address.query)
        word = browser.jar[host][PRE]
        assert asked["c"] == [hashlib.sha256(word.encode()).hexdigest()]
        assert unquote(asked["next"][0]) == "/a/b?c=d&e=//f"
        assert sent.values("Cache-Control") == ["no-store"]
        assert sent.values("Referrer-Policy") == ["no-referrer"]
        assert sent.values("Set-Cookie") == [
            f"{PRE}={word}; Max-Age=120; Path=/; HttpOnly; SameSite=Lax; Secure"
        ]
        code = await browser.code(sent, row)
        entered = await browser.go(host, f"/_codehub/enter?code={code}")
        assert (entered.status, entered.location) == (303, "/a/b?c=d&e=//f")
        assert entered.values("Cache-Control") == ["no-store"]
        assert entered.values("Referrer-Policy") == ["no-referrer"]
        door, gone = entered.values("Set-Cookie")
        assert door == f"{DOOR}={browser.jar[host][DOOR]}; Path=/; HttpOnly; SameSite=Lax; Secure"
        assert gone.startswith(f"{PRE}=; Max-Age=0; ")
        assert code not in entered.head
        assert not made.ide.received
        for _ in range(2):
            arrived = await browser.go(host, entered.location)
            assert (arrived.status, arrived.body) == (200, "GET /a/b?c=d&e=//f HTTP/1.1")
        seen = b"".join(made.ide.received)
        assert b"codehub" not in seen.lower()
        assert b"X-Forwarded-Prefix" not in seen
        assert f"Host: {host}\r\n".encode() in seen


async def test_a_word_that_a_browser_has_is_kept_and_one_that_is_none_of_ours_is_not() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        first, second = await browser.go(host, "/a"), await browser.go(host, "/b")
        assert first.values("Set-Cookie") == second.values("Set-Cookie")
        browser.jar[host][PRE] = "x"
        await browser.go(host, "/c")
        assert len(browser.jar[host][PRE]) > 30


async def test_two_tabs_come_in_by_codes_of_their_own() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        sent = [await browser.go(host, path) for path in ("/a", "/b")]
        codes = [await browser.code(each, row) for each in sent]
        entered = [await browser.go(host, f"/_codehub/enter?code={code}") for code in codes]
        assert [(each.status, each.location) for each in entered] == [(303, "/a"), (303, "/")]
        assert (await browser.go(host, "/")).status == 200


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/" + "a" * 4095, "/" + "a" * 4095),
        ("/" + "a" * 4096, "/"),
        ("/_codehub/progress?seen=1", "/"),
        ("//evil.test/", "/"),
        ("/a%0d%0aSet-Cookie:x", "/a%0d%0aSet-Cookie:x"),
    ],
)
async def test_the_hub_is_told_the_path_that_was_asked_for_if_it_is_one_to_come_back_to(
    target: str, path: str
) -> None:
    async with hub(origins=ORIGINS) as made:
        browser = Browser(made)
        sent = await browser.go(host_of(await made.workspace()), target)
        assert parse_qs(urlsplit(sent.location).query)["next"] == [path]


@pytest.mark.parametrize("path", ["/..//evil", "/a b", "/a\\b", "/a\r\nSet-Cookie: x=y"])
async def test_a_stored_path_that_could_lead_elsewhere_leads_to_the_first_page(path: str) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        sent = await browser.go(host, "/")
        challenge = parse_qs(urlsplit(sent.location).query)["c"][0]
        await made.doors.issue_code(
            hashlib.sha256(b"c" * 40).digest(),
            Door(row.id, None),
            session_sha256=hashlib.sha256(SESSION.secret).digest(),
            challenge=bytes.fromhex(challenge),
            path=path,
        )
        entered = await browser.go(host, f"/_codehub/enter?code={'c' * 40}")
        expected = path if path == "/..//evil" else "/"  # which stays on this host, whatever it is
        assert (entered.location, len(entered.values("Set-Cookie"))) == (expected, 2)
