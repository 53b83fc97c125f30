"""Who may enter, through a real edge: spec §8, wire.md "Proxy", security.md 2, 3, 4, 7 and 9."""

import asyncio

import pytest
from tests.support.hub import COOKIE, NAVIGATION, ORIGIN, READS, WRITES, hub
from tests.support.patience import within

from codehub.core.amendments import By
from codehub.core.messages import verbatim

BY = By("ann", verbatim("test"))
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")
UNKNOWN = "019a8b00-0000-7000-8000-0000000000ff"


async def test_the_owner_enters_and_everything_else_goes_to_the_api() -> None:
    async with hub() as made:
        row = await made.workspace()
        status, head, body = await made.ask(f"/w/{row.id}/path?q=1", COOKIE)
        assert (status, body) == (200, "GET /path?q=1 HTTP/1.1")
        assert "X-Request-Id: " in head
        assert (await made.ask("/api/v1/session", COOKIE))[2] == "GET /api/v1/session HTTP/1.1"
        assert b"codehub_session=anns-session" in b"".join(made.api.received)
        assert b"anns-session" not in b"".join(made.ide.received)


async def test_the_missing_slash_is_added() -> None:
    async with hub() as made:
        row = await made.workspace()
        status, head, _ = await made.ask(f"/w/{row.id}?folder=/home", COOKIE)
        assert status == 308
        assert f"Location: /w/{row.id}/?folder=/home\r\n" in head


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((), 401),
        (("Cookie: codehub_session=wrong",), 401),
        (("Cookie: codehub_session=",), 401),
        (("Authorization: Bearer wrong",), 401),
        (("Cookie: codehub_session=bobs-session",), 403),
        ((f"Authorization: Bearer {READS.secret.decode()}",), 403),
        ((f"Authorization: Bearer {WRITES.secret.decode()}",), 200),
        ((COOKIE,), 200),
        ((COOKIE, "X-Owner: bob", "X-Forwarded-User: bob"), 200),
        (("Cookie: codehub_session=bobs-session", "X-Owner: ann", "X-Forwarded-User: ann"), 403),
    ],
)
@pytest.mark.parametrize("upgrade", [(), UPGRADE])
async def test_requests_and_upgrades_are_let_in_by_the_same_rule(
    lines: tuple[str, ...], status: int, upgrade: tuple[str, ...]
) -> None:
    async with hub() as made:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", *lines, *upgrade))[0] == status
        assert bool(made.ide.received) == (status == 200)


# Which cookie says who asks (security.md 21).

PLAIN, HOST_ONLY = "codehub_session", "__Host-codehub_session"


@pytest.mark.parametrize(
    ("proto", "lines", "status"),
    [
        ("http", (f"Cookie: {PLAIN}=anns-session; {PLAIN}=bobs-session",), 400),
        ("http", (f"Cookie: {PLAIN}=bobs-session; {PLAIN}=anns-session",), 400),
        ("http", (f"Cookie: {PLAIN}=anns-session", f"Cookie: {PLAIN}=bobs-session"), 400),
        ("http", (f"Cookie: {PLAIN}=anns-session; {PLAIN} =x",), 400),
        ("http", (f"Cookie: {PLAIN}=anns-session; {PLAIN}=anns-session",), 400),
        ("http", (f"Cookie: {PLAIN}=; {PLAIN}=anns-session",), 400),
        (
            "http",
            (f"Cookie: {PLAIN}=anns-session; {PLAIN}=x", f"Authorization: Bearer {WRITES.secret.decode()}"),
            400,
        ),
        ("http", (f"Cookie: {HOST_ONLY}=bobs-session; {PLAIN}=anns-session",), 200),
        ("http", (f"Cookie: {HOST_ONLY}=anns-session",), 401),
        ("https", (f"Cookie: {HOST_ONLY}=anns-session",), 200),
        ("https", (f"Cookie: {PLAIN}=bobs-session; {HOST_ONLY}=anns-session; {PLAIN}=bobs-session",), 200),
        ("https", (f"Cookie: {PLAIN}=anns-session",), 401),
        ("https", (f"Cookie: {HOST_ONLY}=anns-session; {HOST_ONLY}=bobs-session",), 400),
        ("https", (f"Cookie: {HOST_ONLY}=anns-session", f"Cookie: {HOST_ONLY}=x"), 400),
    ],
)
@pytest.mark.parametrize("upgrade", [(), UPGRADE])
async def test_one_session_of_the_name_that_counts_opens_and_two_open_nothing(
    proto: str, lines: tuple[str, ...], status: int, upgrade: tuple[str, ...]
) -> None:
    async with hub(proto=proto.encode()) as made:
        row = await made.workspace()
        for _ in range(2):  # what was asked before is known the second time
            got, _, body = await made.ask(f"/w/{row.id}/", *lines, *upgrade)
            assert got == status
            assert (status != 400) or "Delete the cookies" in body
        assert bool(made.ide.received) == (status == 200)
        assert b"-session" not in b"".join(made.ide.received)


async def test_who_sends_two_sessions_is_shown_what_to_do() -> None:
    async with hub() as made:
        row = await made.workspace()
        cookie = f"Cookie: {PLAIN}=anns-session; {PLAIN}=x"
        status, head, body = await made.ask(f"/w/{row.id}/", cookie, *NAVIGATION, "Accept-Language: ko")
        assert (status, "text/html" in head) == (400, True)
        assert "쿠키를 지운 뒤" in body


async def test_unknown_and_deleted_workspaces_are_not_there() -> None:
    async with hub() as made:
        row = await made.workspace()
        for path in (f"/w/{UNKNOWN}/", "/w/", "/w/x/", f"/w/{str(row.id).upper()}/", f"/w/{row.id}x/"):
            status, _, body = await made.ask(path, COOKIE)
            assert (status, "WORKSPACE_NOT_FOUND" in body) == (404, True), path
        await made.service.delete(row.id, BY)
        async with within(2):
            while (await made.ask(f"/w/{row.id}/", COOKIE))[0] != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("language", "missing", "foreign"),
    [
        ("en", "There is no such workspace", "This workspace is somebody else&#x27;s"),
        ("ko", "워크스페이스를 찾을 수 없습니다", "다른 사람의 워크스페이스입니다"),
    ],
)
async def test_a_browser_that_may_not_enter_gets_a_page_and_a_program_json(
    language: str, missing: str, foreign: str
) -> None:
    bobs = "Cookie: codehub_session=bobs-session"
    async with hub() as made:
        row = await made.workspace(name="secret")
        for path, who, status, text in (
            (f"/w/{UNKNOWN}/", COOKIE, 404, missing),
            ("/w/x/", COOKIE, 404, missing),
            (f"/w/{row.id}/", bobs, 403, foreign),
        ):
            got, head, page = await made.ask(path, who, *NAVIGATION, f"Accept-Language: {language}")
            assert (got, text in page, f'lang="{language}"' in page) == (status, True, True), path
            assert "Content-Type: text/html" in head
            assert "X-Codehub-Page" not in head
            assert '<a href="/">' in page
            assert "secret" not in page
            got, _, body = await made.ask(path, who)
            assert (got, body.startswith('{"error": ')) == (status, True), path


async def test_a_token_is_told_what_is_wrong_with_it_whatever_it_accepts() -> None:
    async with hub() as made:
        row = await made.workspace()
        reads = f"Authorization: Bearer {READS.secret.decode()}"
        status, _, body = await made.ask(f"/w/{row.id}/", reads, "Accept: text/html")
        assert (status, "may only read" in body) == (403, True)


async def test_nobody_is_sent_to_the_login_and_back() -> None:
    async with hub() as made:
        row = await made.workspace()
        status, head, _ = await made.ask(f"/w/{row.id}/a?b=c&d=//e", *NAVIGATION)
        assert status == 303
        assert f"Location: /login?next=/w/{row.id}/a%3Fb%3Dc%26d%3D//e\r\n" in head


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((*UPGRADE, f"Origin: {ORIGIN}"), 200),
        (UPGRADE, 200),
        ((*UPGRADE, "Origin: http://evil.test"), 403),
        ((*UPGRADE, "Origin: null"), 403),
        ((*UPGRADE, f"Origin: {ORIGIN}.evil.test"), 403),
        ((*UPGRADE, f"Origin: {ORIGIN}:8001"), 403),
        ((*UPGRADE, "Sec-Fetch-Site: cross-site"), 403),
    ],
)
async def test_a_websocket_of_another_site_is_refused(lines: tuple[str, ...], status: int) -> None:
    async with hub() as made:
        row = await made.workspace()
        await made.ask(f"/w/{row.id}/", COOKIE)
        made.ide.received.clear()
        assert (await made.ask(f"/w/{row.id}/ws", COOKIE, *lines))[0] == status
        assert bool(made.ide.received) == (status == 200)


@pytest.mark.parametrize(("origin", "status"), [(ORIGIN, 200), ("http://evil.test", 403), ("null", 403)])
async def test_a_change_that_another_site_asks_for_is_refused(origin: str, status: int) -> None:
    async with hub() as made:
        row = await made.workspace()
        lines = (COOKIE, f"Origin: {origin}", "Content-Length: 0")
        assert (await made.ask(f"/w/{row.id}/", *lines, method="POST"))[0] == status


async def test_a_token_is_no_browser_s_and_may_come_from_any_page_but_through_no_websocket() -> None:
    lines = (f"Authorization: Bearer {WRITES.secret.decode()}", "Origin: http://evil.test")
    async with hub() as made:
        row = await made.workspace()
        for more in ((), (COOKIE,)):
            status, _, _ = await made.ask(f"/w/{row.id}/", *lines, *more, "Content-Length: 0", method="POST")
            assert status == 200
        assert (await made.ask(f"/w/{row.id}/ws", *lines, *UPGRADE))[0] == 403
