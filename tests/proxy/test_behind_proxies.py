"""Workspaces' own origins behind nginx and Caddy with a wildcard certificate, as operators.md has them: a
browser by hand over TLS comes in, works and talks. It trusts that certificate alone, and compares names.
"""

import asyncio
import base64
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from tests.support.hub import NAVIGATION
from tests.support.origin_stage import Person, Place, Stage, behind
from tests.support.patience import PATIENCE_S
from tests.support.reverse_proxies import NO_CADDY, NO_NGINX, caddy, nginx, trusting

DOOR = "__Host-codehub_door"
REDIRECTS_MAX = 3


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    lines: tuple[str, ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        pairs = (line.partition(": ") for line in self.lines)
        return [value for key, _, value in pairs if key.lower() == name.lower()]


@dataclass
class Browser:
    certificate: Path
    jar: dict[str, dict[str, str]] = field(default_factory=dict)
    """The cookies of each host: they are all `__Host-` ones."""

    async def connect(self, address: str, *lines: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request, and return the connection."""
        parts = urlsplit(address)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", parts.port, ssl=trusting(self.certificate), server_hostname=parts.hostname
        )
        cookies = "; ".join(f"{name}={word}" for name, word in self.jar.get(parts.netloc, {}).items())
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        more = [f"Cookie: {cookies}"] if cookies else []
        head = (f"GET {target} HTTP/1.1", f"Host: {parts.netloc}", *more, *lines, "", "")
        writer.write("\r\n".join(head).encode())
        return reader, writer

    async def get(self, address: str, *lines: str) -> Reply:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await self.connect(address, "Connection: close", *lines)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
        first, *more = head.decode().split("\r\n")
        reply = Reply(int(first.split()[1]), tuple(more), body)
        for cookie in reply.values("Set-Cookie"):
            pair, *attributes = cookie.split("; ")
            name, _, word = pair.partition("=")
            assert name.startswith("__Host-"), cookie
            assert {"Secure", "Path=/"} <= set(attributes), cookie
            kept = self.jar.setdefault(urlsplit(address).netloc, {})
            kept[name] = word
            if "Max-Age=0" in attributes:
                del kept[name]
        return reply

    async def go(self, address: str) -> tuple[str, Reply, int]:
        """Follow redirects; return where they end, what is there, and how many there were."""
        reply, redirects = await self.get(address, *NAVIGATION), 0
        while reply.status == 303:
            redirects += 1
            address = urljoin(address, reply.values("Location")[0])
            reply = await self.get(address, *NAVIGATION)
        return address, reply, redirects


@pytest.fixture(
    scope="module",
    params=[pytest.param(nginx, marks=NO_NGINX, id="nginx"), pytest.param(caddy, marks=NO_CADDY, id="caddy")],
)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with behind(request.param, tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture(scope="module")
def owner(stage: Stage) -> Iterator[Person]:
    with ExitStack() as stack:
        yield stage.person(stack, "ann")


@pytest.fixture(scope="module")
def place(stage: Stage, owner: Person) -> Place:
    return stage.workspace(owner, "demo")


@pytest.fixture
def browser(stage: Stage, owner: Person) -> Browser:
    assert stage.certificate is not None
    name, word = owner.session
    return Browser(stage.certificate, {urlsplit(stage.hub).netloc: {name: word}})


async def test_whoever_is_signed_in_is_at_the_origin_after_three_redirects(
    browser: Browser, place: Place
) -> None:
    assert place.origin.startswith("https://")
    page = place.serve("page.html", "here I am")
    address, reply, redirects = await browser.go(f"{page}?a=b")
    assert (address, reply.status, reply.body, redirects) == (f"{page}?a=b", 200, b"here I am", REDIRECTS_MAX)
    assert list(browser.jar[place.host]) == [DOOR]
    reached = place.requests()[-1]
    assert (reached["headers"]["Host"], reached["headers"]["X-Forwarded-Proto"]) == (place.host, "https")
    assert "codehub" not in str(reached)
    address, reply, redirects = await browser.go(page)
    assert (address, reply.body, redirects) == (page, b"here I am", 0)


async def test_a_websocket_passes_and_only_with_the_door_and_of_this_origin(
    browser: Browser, place: Place
) -> None:
    await browser.go(f"{place.origin}/")
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    lines = (*upgrade, f"Sec-WebSocket-Key: {key}")
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await browser.connect(f"{place.origin}/socket", *lines, f"Origin: {place.origin}")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.write(b"\x81\x85\0\0\0\0hello")
        assert await reader.readexactly(7) == b"\x81\x05hello"
        writer.close()
    reached = len(place.requests())
    for origin in (urlsplit(place.origin)._replace(netloc="code.example.org").geturl(), "null"):
        assert (await browser.get(f"{place.origin}/socket", *lines, f"Origin: {origin}")).status == 403
    del browser.jar[place.host]
    assert (await browser.get(f"{place.origin}/socket", *lines)).status == 401
    assert len(place.requests()) == reached


async def test_names_that_are_no_workspaces_lead_nowhere(
    stage: Stage, browser: Browser, place: Place
) -> None:
    port = urlsplit(stage.hub).port
    for name in ("0" * 20, f"x{place.label}", "www", f"{place.label}x"):
        reply = await browser.get(f"https://{name}.ws.example.net:{port}/", *NAVIGATION)
        assert (reply.status, reply.values("Location")) == (404, []), name


async def test_a_session_is_led_from_the_path_form_to_the_origin(
    stage: Stage, browser: Browser, place: Place
) -> None:
    address, reply, _ = await browser.go(f"{stage.hub}/w/{place.id}/page.html?x=y")
    assert (address, reply.status) == (f"{place.origin}/page.html?x=y", 200)
    assert (await browser.get(f"{stage.hub}/w/{place.id}/page.html")).status == 403
