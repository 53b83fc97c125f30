"""What attackers and accidents send: broken bodies, broken framing, silence (security 10, 17, 18)."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.site import API, Site, open_site
from tests.support.stores import memory_world

from codehub.api import incoming
from codehub.app import connections
from codehub.web.bounds import BODY_BYTES_MAX

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
async def small_site() -> AsyncIterator[Site]:
    async with open_site(memory_world()) as site:
        yield site


async def talk(site: Site, *parts: bytes) -> bytes:
    """Send bytes as they are and return all that comes until the connection is closed, however it is."""
    host, port = site.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    answered = asyncio.create_task(rest(reader))
    try:
        with suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            return await answered
    finally:
        writer.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    content = b""
    with suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            content += part
    return content


# Bodies

BROKEN: list[tuple[bytes, int]] = [
    (b"", 422),
    (b"{", 400),
    (b"nonsense", 400),
    (b'{"name": "x"', 400),
    (b"\xff\xfe{}", 400),
    (b'{"name": "\xff"}', 400),
    (b"[]", 422),
    (b'"text"', 422),
    (b"null", 422),
    (b"1e999", 422),
    (b"9" * 5000, 400),
    (b"[" * 100_000, 400),
    (b'{"a":' * 50_000, 400),
    (b'{"name": "x", "name": ""}', 422),
    (b'{"name": "x", "standby_ttl_seconds": NaN}', 422),
    (b'{"name": "x", "standby_ttl_seconds": 1e400}', 422),
    (b'{"name": "x", "__proto__": {}}', 422),
]


@pytest.fixture
def nothing_collected() -> Iterator[None]:
    """The server runs in this process: finalizers that met its
    recursion at the limit would fail for that alone.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("nothing_collected")
@pytest.mark.parametrize(("body", "status"), BROKEN, ids=lambda value: str(value)[:30])
async def test_a_broken_body_is_a_clear_error(small_site: Site, body: bytes, status: int) -> None:
    ann = await small_site.program("ann")
    answer = await ann.post(f"{API}/workspaces", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["code"] == "INVALID_REQUEST"
    assert len(answer.content) < 5_000


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x", None]
)
async def test_a_body_that_a_form_could_send_is_refused(small_site: Site, kind: str | None) -> None:
    ann = await small_site.program("ann")
    headers = {} if kind is None else {"Content-Type": kind}
    answer = await ann.post(f"{API}/workspaces", content=b'{"name": "form"}', headers=headers)
    assert answer.status_code == 422
    problem = "it is not said to be JSON: send Content-Type: application/json"
    assert answer.json()["error"]["details"] == [{"field": "body", "problem": problem}]


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_huge_body_is_413_and_is_not_read_to_its_end(small_site: Site, is_chunked: bool) -> None:
    if is_chunked:
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        answer = await talk(small_site, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17)
    else:
        answer = await talk(small_site, HEAD + b"Content-Length: %d\r\n\r\n{" % (BODY_BYTES_MAX + 1))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"PAYLOAD_TOO_LARGE" in answer


async def test_a_name_of_the_greatest_length_is_accepted_in_any_script(small_site: Site) -> None:
    ann = await small_site.program("ann")
    for name in ("가" * 255, "😀" * 255, "A\u0301", "'; DROP TABLE workspaces; --", "<script>"):
        body = json.dumps({"name": name, "desired_state": "PENDING"})
        answer = await ann.post(f"{API}/workspaces", content=body, headers=JSON)
        assert (answer.status_code, answer.json().get("name")) == (201, name)


# Paths and headers


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/workspaces/%00",
        "/api/v1/workspaces/..%2f..",
        "/api/v1//",
        "/api/v1/" + "x" * 5000,
        "/%ff%fe",
        "/\\evil",
    ],
)
async def test_an_odd_path_is_404(small_site: Site, path: str) -> None:
    ann = await small_site.program("ann")
    answer = await ann.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] in ("NOT_FOUND", "WORKSPACE_NOT_FOUND")


async def test_an_odd_header_is_not_repeated(small_site: Site) -> None:
    answer = await talk(
        small_site,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\x80b\r\nConnection: close\r\n\r\n",
    )
    assert b"200 OK" in answer
    assert b"a\x80b" not in answer


# Framing (security 10): refused with 400, the connection closed, and nothing smuggled to the next request

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
FRAMINGS = [
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
    HEAD + b"Content-Length: +5\r\n\r\n12345",
    HEAD + b"Content-Length: 5, 5\r\n\r\n12345",
    HEAD + b"Content-Length: 0x5\r\n\r\n12345",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
    HEAD + b"X-A: b\rX-C: d\r\nContent-Length: 0\r\n\r\n",
    HEAD + b"X-A: b\r\n folded\r\nContent-Length: 0\r\n\r\n",
    HEAD + b"X-A: b\x00c\r\nContent-Length: 0\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.parametrize("request_bytes", FRAMINGS, ids=lambda value: str(value[-60:]))
async def test_a_request_with_two_framings_or_a_broken_one_is_400_and_ends_the_connection(
    small_site: Site, request_bytes: bytes
) -> None:
    answer = await talk(small_site, request_bytes + SMUGGLED)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


# Silence (security 18)


async def test_a_head_that_never_ends_is_refused(small_site: Site) -> None:
    endless = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(
        b"X-%d: %s\r\n" % (n, b"y" * 900) for n in range(200)
    )
    parts = [endless[start : start + 4096] for start in range(0, len(endless), 4096)]
    answer = await talk(small_site, *parts)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("content", [b"", b"GET / HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET / HT"])
async def test_a_client_that_falls_silent_in_its_head_is_disconnected(
    small_site: Site, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_S_MAX", 2.0)
    answer = await talk(small_site, content)
    assert answer.count(b"HTTP/1.1 ") == content.count(b"healthz")


async def test_a_client_that_falls_silent_in_its_body_gets_408_and_is_disconnected(
    small_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "BODY_S_MAX", 0.2)
    answer = await talk(small_site, HEAD + b'Content-Length: 50\r\n\r\n{"name"')
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_idle_connections_are_closed(small_site: Site) -> None:
    answer = await talk(small_site, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


# Log lines (security 17)


async def test_what_comes_from_outside_can_not_forge_a_log_line(
    small_site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    ann = await small_site.program("ann")
    capsys.readouterr()
    await ann.get("/api/v1/x%0aforged=line%1b[31m")
    output: Any = capsys.readouterr()
    assert "\nforged" not in output.out + output.err
    assert "\x1b[31m" not in output.out + output.err
