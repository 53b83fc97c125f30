"""The codes by which a browser comes into a workspace's own origin: each is good once, for one browser and
one place (spec §14, security.md 26).
"""

import hashlib
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.hub import BOB, BOBS, NAVIGATION, ORIGIN, SESSION, hub
from tests.support.origins import ORIGINS, SAME_ORIGIN, Browser, host_of

from codehub.core.origins import Door

DOOR, PRE = "__Host-codehub_door", "__Host-codehub_pre"


async def test_a_stolen_code_opens_nothing_in_another_browser() -> None:
    """Whoever has only the code has no word; whoever began to enter, too, has another."""
    async with hub(origins=ORIGINS) as made:
        row, owner, thief = await made.workspace(), Browser(made), Browser(made)
        host = host_of(row)
        code = await owner.code(await owner.go(host, "/"), row)
        for begins in (False, True):
            if begins:
                await thief.go(host, "/")
            stolen = await thief.go(host, f"/_codehub/enter?code={code}")
            assert stolen.status == 403
            assert "Set-Cookie" not in stolen.head
            assert DOOR not in thief.jar.get(host, {})
        assert (await owner.go(host, f"/_codehub/enter?code={code}")).status == 303  # and is not used up
        assert not made.ide.received


async def test_a_code_is_good_once() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        code = await browser.code(await browser.go(host, "/"), row)
        word = browser.jar[host][PRE]
        assert (await browser.go(host, f"/_codehub/enter?code={code}")).status == 303
        browser.jar[host] = {PRE: word}
        again = await browser.go(host, f"/_codehub/enter?code={code}")
        assert (again.status, DOOR in browser.jar[host]) == (403, False)


async def test_an_attackers_code_does_not_sign_a_victim_in_as_the_attacker() -> None:
    """Login CSRF: the code is bound to the word in the attacker's own browser."""
    async with hub(origins=ORIGINS) as made:
        row = await made.workspace()
        host = host_of(row)
        attacker, victim = Browser(made, BOBS, BOB), Browser(made)
        code = await attacker.code(await attacker.go(host, "/"), row)
        await victim.go(host, "/")
        lured = await victim.ask(
            host,
            f"/_codehub/enter?code={code}",
            "Sec-Fetch-Mode: navigate",
            "Sec-Fetch-Dest: document",
            "Sec-Fetch-Site: cross-site",
            "Accept: text/html",
        )
        assert (lured.status, DOOR in victim.jar[host]) == (403, False)


async def test_a_code_for_one_place_opens_no_other() -> None:
    async with hub(origins=ORIGINS) as made:
        row, other, browser = await made.workspace(), await made.workspace(name="other"), Browser(made)
        code = await browser.code(await browser.go(host_of(row), "/"), row)
        word = browser.jar[host_of(row)][PRE]
        for host in (host_of(other), host_of(row, 3000), host_of(other, 3000)):
            browser.jar[host] = {PRE: word}
            assert (await browser.go(host, f"/_codehub/enter?code={code}")).status == 403
            assert browser.jar[host] == {PRE: word}


async def test_a_code_that_is_over_or_whose_session_has_ended_opens_nothing() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        sent = await browser.go(host, "/")
        challenge = bytes.fromhex(parse_qs(urlsplit(sent.location).query)["c"][0])
        session = hashlib.sha256(SESSION.secret).digest()
        await made.doors.issue_code(
            hashlib.sha256(b"o" * 40).digest(),
            Door(row.id, None),
            session_sha256=session,
            challenge=challenge,
            path="/",
            lasts=timedelta(),
        )
        code = await browser.code(sent, row)
        await made.access.close_session(session)
        for word in ("o" * 40, code):
            assert (await browser.go(host, f"/_codehub/enter?code={word}")).status == 403


@pytest.mark.parametrize(
    "query",
    ["", "?", "?code=", "?code=x", "?c=x", "?code={code}&code={code}", "?code={code}%00", "?code=%ff"],
)
async def test_what_is_no_code_opens_nothing(query: str) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        code = await browser.code(await browser.go(host, "/"), row)
        reply = await browser.go(host, f"/_codehub/enter{query.format(code=code)}")
        assert (reply.status, DOOR in browser.jar[host]) == (403, False)


@pytest.mark.parametrize(
    "lines",
    [
        SAME_ORIGIN,
        ("Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image", "Sec-Fetch-Site: same-origin"),
        ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: same-origin"),
        ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: cross-site"),
        (*NAVIGATION, "Sec-Purpose: prefetch"),
        ("Connection: Upgrade", "Upgrade: websocket"),
        (),
    ],
)
async def test_a_code_is_exchanged_by_a_navigation_alone(lines: tuple[str, ...]) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        host = host_of(row)
        code = await browser.code(await browser.go(host, "/"), row)
        reply = await browser.ask(host, f"/_codehub/enter?code={code}", *lines)
        assert (reply.status, DOOR in browser.jar[host]) == (403, False)
        post = await browser.ask(host, f"/_codehub/enter?code={code}", "Content-Length: 0", method="POST")
        assert (post.status, DOOR in browser.jar[host]) == (403, False)


@pytest.mark.parametrize(
    ("language", "texts"),
    [("en", ("no longer good", "Open the workspace again")), ("ko", ("사용할 수 없는", "다시 열기"))],
)
async def test_who_can_not_use_a_code_is_shown_how_to_begin_anew(
    language: str, texts: tuple[str, ...]
) -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(name="secret"), Browser(made)
        code = "a-code-that-nobody-ever-issued-to-anybody"
        reply = await browser.ask(
            host_of(row), f"/_codehub/enter?code={code}", *NAVIGATION, f"Accept-Language: {language}"
        )
        assert reply.status == 403
        assert all(text in reply.body for text in texts)
        assert '<a href="/">' in reply.body
        assert f'<a href="{ORIGIN}/">' in reply.body
        assert reply.values("Referrer-Policy") == ["no-referrer"]
        assert code not in reply.body
        assert "secret" not in reply.body


async def test_two_words_of_a_browser_are_refused() -> None:
    async with hub(origins=ORIGINS) as made:
        row, browser = await made.workspace(), Browser(made)
        cookies = f"Cookie: {PRE}={'a' * 43}; {PRE}={'b' * 43}"
        for path in ("/", "/_codehub/enter?code=" + "c" * 43):
            reply = await browser.ask(host_of(row), path, cookies, *NAVIGATION)
            assert (reply.status, "several sessions" in reply.body) == (400, True)
