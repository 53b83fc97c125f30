"""What passes between a client and a workspace beside bodies: security.md 1, 5 and 11, line by line."""

import ipaddress

import pytest
from tests.support.edge import PREFIX, Talk, World, answer_ok, get, world

TOKEN = "cht_0123456789abcdefghijklmnop"


async def forwarded(made: World, raw: bytes) -> bytes:
    """Return the head that reached the server behind."""
    made.workspace.received.clear()
    talk = await made.connect()
    await talk.send(raw)
    await talk.head()
    await talk.close()
    return b"".join(made.workspace.received)


async def returned(*lines: str) -> bytes:
    """Return the head that a client gets when a workspace answers with these lines."""

    async def handler(talk: Talk) -> None:
        await talk.head()
        answer = "\r\n".join(("HTTP/1.1 200 OK", *lines, "Content-Length: 0", "", ""))
        await talk.send(answer.encode("latin-1"))

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        head = await talk.head()
        await talk.close()
        return head


# 1: what is codehub's never reaches a workspace, and a workspace can't set it.


@pytest.mark.parametrize(
    ("cookie", "left"),
    [
        ("codehub_session=secret", None),
        ("a=1; codehub_session=secret; b=2", "a=1; b=2"),
        ("codehub_session=secret; codehub_session=secret", None),
        ("CODEHUB_session=secret; a=1", "a=1"),
        ("__Host-codehub_session=secret; a=1", "a=1"),
        ("a=1; __host-CodeHub_Session =secret", "a=1"),
        ("codehub_x=1; codehub_session_x=2; codehub_session=secret", "codehub_x=1; codehub_session_x=2"),
        ("codehub_session =secret; a=1", "a=1"),
        ("\xa0codehub_session=secret; a=1", "a=1"),  # Starlette strips what str.strip does
        ("\x85codehub_session\xa0=secret; a=\xc3\xa0", "a=\xc3\xa0"),
        ("_xsrf=1; theme=codehub_dark", "_xsrf=1; theme=codehub_dark"),
        ("a=1; key=cht_secret0123456789", "a=1"),
    ],
)
async def test_our_cookies_end_at_the_proxy_and_others_pass(cookie: str, left: str | None) -> None:
    raw = get("/", "Cookie: HERE").replace(b"HERE", cookie.encode("latin-1"))
    async with world(answer_ok) as made:
        head = await forwarded(made, raw)
    assert b"secret" not in head
    assert (f"Cookie: {left}\r\n".encode("latin-1") in head) if left else b"ookie" not in head


async def test_two_cookie_headers_are_one_and_neither_leaks() -> None:
    async with world(answer_ok) as made:
        head = await forwarded(made, get("/", "Cookie: a=1", "Cookie: codehub_session=secret; b=2"))
    assert b"Cookie: a=1; b=2\r\n" in head
    assert b"secret" not in head


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {TOKEN}",
        "Authorization: Basic secret",
        "Proxy-Authorization: Basic secret",
        f"X-Api-Key: {TOKEN}",
        f"X-Token: Token {TOKEN}",
    ],
)
async def test_no_credential_reaches_a_workspace(line: str) -> None:
    async with world(answer_ok) as made:
        head = await forwarded(made, get("/", line))
    assert b"secret" not in head
    assert TOKEN.encode() not in head


@pytest.mark.parametrize(
    ("target", "left"),
    [
        (f"/api?token={TOKEN}", "/api?token="),
        (f"/api?a=1&token={TOKEN}&b=2", "/api?a=1&token=&b=2"),
        (f"/api?q=Bearer%20{TOKEN}", "/api?q=Bearer%20"),
        (f"/?{TOKEN}", "/?"),
        ("/cht_notes_of_mine.txt?download=cht_1", "/cht_notes_of_mine.txt?download=cht_1"),
    ],
)
async def test_no_token_reaches_a_workspace_in_a_query(target: str, left: str) -> None:
    async with world(answer_ok) as made:
        head = await forwarded(made, get(target))
    assert head.split(b" ")[1].endswith(left.encode())
    assert TOKEN.encode() not in head


async def test_the_api_gets_the_credentials_it_decides_by() -> None:
    async with world(answer_ok) as made:
        raw = f"GET /api/v1/session HTTP/1.1\r\nHost: hub.test\r\nAuthorization: Bearer {TOKEN}\r\nCookie: codehub_session=s\r\n\r\n"
        head = await forwarded(made, raw.encode())
    assert f"Authorization: Bearer {TOKEN}\r\n".encode() in head
    assert b"Cookie: codehub_session=s\r\n" in head


@pytest.mark.parametrize(
    "line",
    [
        "Set-Cookie: codehub_session=evil; Path=/",
        "set-cookie:  CodeHub_session=evil",
        "Set-Cookie: __Host-codehub_session=evil; Path=/; Secure",
        "Set-Cookie: __HOST-codehub_session\t=evil",
        "Set-Cookie: =__Host-codehub_session=evil; Path=/; Secure",
        "Set-Cookie: codehub_session; Path=/evil",
        "Set-Cookie: =codehub_session=evil; Path=/",  # no name: a browser sends the value alone
        "Set-Cookie:\t= codehub_session=evil",
        "Set-Cookie: \xa0codehub_session=evil; Path=/",  # our own server would strip it
        "Set-Cookie: \x85=\xa0codehub_session=evil",
        'Clear-Site-Data: "evil"',
        "Set-Cookie2: evil=1",
        "Set-Login: evil",
        'Secure-Session-Registration: (ES256);path="/evil"',
        'Sec-Session-Registration: (ES256);path="/evil"',
        'Use-As-Dictionary: match="/evil/*"',
        "Service-Worker-Allowed: /evil",
        "X-Codehub-Page: evil",
        "Strict-Transport-Security: max-age=evil",
        "Alt-Svc: evil",
        'Report-To: {"endpoints": [{"url": "https://evil.test"}]}',
        'NEL: {"report_to": "evil"}',
        'Expect-CT: report-uri="https://evil.test"',
        "Accept-CH: evil",
        "X-Request-Id: evil",
    ],
)
async def test_a_workspace_cant_set_what_is_codehubs(line: str) -> None:
    head = await returned("Set-Cookie: theme=dark; Path=/", line, "X-Own: kept")
    assert b"evil" not in head
    assert b"Set-Cookie: theme=dark" in head
    assert b"X-Own: kept\r\n" in head


@pytest.mark.parametrize(
    ("cookie", "kept"),
    [
        ("a=1; Path=/; HttpOnly", f"a=1; Path={PREFIX}/; HttpOnly"),
        ("a=1; path = /app", f"a=1; Path={PREFIX}/app"),
        ("a=1;PATH=/;Path=/x", f"a=1; Path={PREFIX}/; Path={PREFIX}/x"),
        (f"a=1; Path={PREFIX}/app", f"a=1; Path={PREFIX}/app"),
        (f"a=1; Path={PREFIX}", f"a=1; Path={PREFIX}"),
        (f"a=1; Path={PREFIX}else", f"a=1; Path={PREFIX}{PREFIX}else"),
        ("a=1; Domain=test; Secure", "a=1; Secure"),
        ("a=1; Max-Age=5", "a=1; Max-Age=5"),
        ("a=/; Path=", "a=/; Path="),
    ],
)
async def test_a_workspaces_cookie_stays_in_its_workspace(cookie: str, kept: str) -> None:
    assert f"Set-Cookie: {kept}\r\n".encode() in await returned(f"Set-Cookie: {cookie}")


async def test_a_workspace_may_have_a_cookie_that_is_only_named_like_ours() -> None:
    assert b"Set-Cookie: codehub_x=1\r\n" in await returned("Set-Cookie: codehub_x=1")


@pytest.mark.parametrize(
    ("location", "mounted"),
    [
        ("/login", f"{PREFIX}/login"),
        ("./?folder=/home/coder", "./?folder=/home/coder"),
        (f"{PREFIX}/login", f"{PREFIX}/login"),
        ("https://example.org/", "https://example.org/"),
        # What a server makes of /w/{id}//evil.test when it adds a slash.
        ("//evil.test/", f"{PREFIX}//evil.test/"),
        ("/\\evil.test/", f"{PREFIX}/\\evil.test/"),
        ("\\\\evil.test/", f"{PREFIX}/\\\\evil.test/"),
        ("/\t/evil.test/", f"{PREFIX}/\t/evil.test/"),
    ],
)
async def test_a_redirect_of_a_workspace_stays_where_it_is_mounted(location: str, mounted: str) -> None:
    assert f"Location: {mounted}\r\n".encode() in await returned(f"Location: {location}")


# 5: who sent it is said by us.


async def test_forwarding_headers_are_ours() -> None:
    spoofed = ("X-Forwarded-For: 6.6.6.6", "X-Forwarded-Host: evil.test", "X-Forwarded-Proto: https")
    more = (
        "X-Forwarded-Prefix: /evil",
        "Forwarded: for=6.6.6.6",
        "X-Real-IP: 6.6.6.6",
        "x-forwarded-port: 666",
    )
    async with world(answer_ok) as made:
        head = await forwarded(made, get("/", *spoofed, *more))
    assert b"6.6.6.6" not in head
    assert b"evil" not in head
    assert b"666" not in head
    for line in ("For: 127.0.0.1", "Host: hub.test", "Proto: http", f"Prefix: {PREFIX}"):
        assert head.count(f"X-Forwarded-{line}\r\n".encode()) == 1


@pytest.mark.parametrize(
    "name", ["X_Forwarded_For", "X-Forwarded_For", "Content_Length", "x_real_ip", "HOST_"]
)
async def test_a_name_with_an_underscore_is_not_taken_for_ours_by_a_server_that_reads_both_alike(
    name: str,
) -> None:
    """CGI and what came of it: to them X_Forwarded_For and X-Forwarded-For are one."""
    async with world(answer_ok) as made:
        head = await forwarded(made, get("/", f"{name}: 666", "X_Own: kept"))
    assert (b"666" in head) is (name == "HOST_")
    assert b"X_Own: kept\r\n" in head


@pytest.mark.parametrize("piece", [1, 100_000])
@pytest.mark.parametrize(
    ("target", "trailer"),
    [
        (f"{PREFIX}/", "X-Forwarded-For: 6.6.6.6"),
        (f"{PREFIX}/", "x_forwarded_proto: https"),
        (f"{PREFIX}/", "Proxy-Connection: close"),
        (f"{PREFIX}/", "X-Request-Id: evil"),
        ("/api/v1/login", "X-Forwarded-For: 6.6.6.6"),
        ("/nope", "Proxy-Connection: close"),
        ("/nope", "X-Sum: abc"),
    ],
)
async def test_what_ends_at_the_proxy_can_t_come_after_a_body_either(
    target: str, trailer: str, piece: int
) -> None:
    """Servers that take trailers for headers would believe it, or end
    the connection that the next request goes through.
    """
    raw = (
        f"POST {target} HTTP/1.1\r\nHost: hub.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{trailer}\r\n\r\n"
    ).encode()
    async with world(answer_ok) as made:
        talk = await made.connect()
        for at in range(0, len(raw), piece):
            await talk.send(raw[at : at + piece])
        assert (await talk.rest()).startswith(b"HTTP/1.1 400 ")
        await talk.close()
        assert not b"".join(made.workspace.received).endswith(
            b"\r\n\r\n0\r\n" + trailer.encode() + b"\r\n\r\n"
        )
        assert not made.edge.pool.idle(made.workspace.upstream), "and what it went through is not used again"


async def test_forwarding_headers_of_a_trusted_proxy_count() -> None:
    async with world(answer_ok, trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),)) as made:
        lines = ("X-Forwarded-For: 7.7.7.7", "X-Forwarded-Host: hub.example", "X-Forwarded-Proto: https")
        head = await forwarded(made, get("/", *lines))
    for line in ("For: 7.7.7.7, 127.0.0.1", "Host: hub.example", "Proto: https"):
        assert f"X-Forwarded-{line}\r\n".encode() in head


# 11: hop by hop.


async def test_hop_by_hop_headers_of_a_request_end_here() -> None:
    lines = (
        "Connection: keep-alive, X-Mine",
        "Keep-Alive: 5",
        "TE: trailers",
        "X-Mine: gone",
        "X-Other: kept",
    )
    async with world(answer_ok) as made:
        head = await forwarded(made, get("/", *lines, "Proxy-Connection: keep-alive"))
    for gone in (b"Keep-Alive", b"TE:", b"X-Mine", b"Proxy-Connection", b"Connection"):
        assert gone not in head
    assert b"X-Other: kept\r\n" in head


async def test_hop_by_hop_headers_of_an_answer_end_here() -> None:
    head = await returned("Connection: X-Mine", "X-Mine: gone", "Keep-Alive: timeout=5", "X-Other: kept")
    assert b"gone" not in head
    assert b"Keep-Alive" not in head
    assert b"X-Other: kept\r\n" in head


async def test_a_framing_that_connection_names_still_frames() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        assert await talk.exactly(5) == b"hello"
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with world(handler) as made:
        raw = get("/", "Connection: Content-Length, Host", "Content-Length: 5", method="POST") + b"hello"
        assert b"Content-Length: 5\r\n" in await forwarded(made, raw)


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 3", "Transfer-Encoding: chunked"),
        ("Content-Length: 3", "Content-Length: 4"),
        ("Content-Length: x",),
        ("Transfer-Encoding: gzip",),
        ("X: a\nb",),
        (" X: folded",),
    ],
)
async def test_an_answer_that_can_be_read_in_two_ways_is_not_passed_on(lines: tuple[str, ...]) -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send("\r\n".join(("HTTP/1.1 200 OK", *lines, "", "abc")).encode())
        await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        assert (await talk.head()).startswith(b"HTTP/1.1 502 ")
        await talk.close()


# What is remembered of heads.


@pytest.mark.parametrize(("size", "is_remembered"), [(10, True), (60_000, False)])
async def test_a_workspace_cant_fill_the_proxys_memory_with_its_heads(size: int, is_remembered: bool) -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nX-Fill: %b\r\nContent-Length: 0\r\n\r\n" % (b"x" * size))

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        assert (await talk.head()).startswith(b"HTTP/1.1 200 ")
        assert bool(made.gate.workspace.heads) is is_remembered
        await talk.close()
