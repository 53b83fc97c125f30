"""Into a workspace's own origin in Chromium: by signing in at the hub, and by no other page's doing."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.async_api import Browser, Page
from tests.browser.conftest import Pages
from tests.support.chromium import watched_page
from tests.support.site import PASSWORD, Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.origins import Door, WorkspaceOrigins, read_place

KEPT = "what-this-browser-keeps"
FRAMED = (
    "<iframe src='{0}'></iframe><img src='{0}'><script src='{0}'></script><link rel='prefetch' href='{0}'>"
)


@dataclass
class Origins:
    """What stands at the origins, as §14 has it: no workspace is behind it."""

    port: int = 0
    site: Site | None = None
    heads: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)

    def address(self, label: str, path: str = "/") -> str:
        return f"http://{label}.localhost:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        target = head.split(" ", 2)[1]
        host = re.search(r"^Host: ([0-9a-f]+)\.localhost", head, re.MULTILINE)
        assert host is not None
        status, lines, body = await self._answer(host[1], target, head)
        lines = [*lines, "Content-Type: text/html", f"Content-Length: {len(body)}", "Connection: close"]
        writer.write("\r\n".join([f"HTTP/1.1 {status} -", *lines, "", body]).encode())
        writer.close()

    async def _answer(self, label: str, target: str, head: str) -> tuple[int, list[str], str]:
        assert self.site is not None
        flags = "Secure; Path=/; HttpOnly; SameSite=Lax"
        if target in self.pages:
            return 200, [], self.pages[target]
        if target.startswith("/_codehub/enter"):
            path = await self._open(label, target) if f"__Host-codehub_pre={KEPT}" in head else None
            if path is None:
                return 403, [], "not entered"
            return 303, [f"Location: {path}", f"Set-Cookie: __Host-codehub_door=door; {flags}"], ""
        if "__Host-codehub_door=door" in head:
            return 200, [], "<title>entered</title>"
        challenge = hashlib.sha256(KEPT.encode()).hexdigest()
        hub = f"{self.site.address}/enter/{label}?c={challenge}&next={quote(target, safe='')}"
        return 303, [f"Location: {hub}", f"Set-Cookie: __Host-codehub_pre={KEPT}; {flags}"], ""

    async def _open(self, label: str, target: str) -> str | None:
        assert self.site is not None
        place, (code,) = read_place(label), parse_qs(urlsplit(target).query)["code"]
        assert place is not None
        workspace_id = await self.site.world.doors.workspace_of(place.label)
        assert workspace_id is not None
        return await self.site.world.doors.open_door(
            hashlib.sha256(code.encode()).digest(),
            hashlib.sha256(b"door").digest(),
            Door(workspace_id, place.port),
            challenge=hashlib.sha256(KEPT.encode()).digest(),
        )

    @property
    def codes(self) -> list[str]:
        """What was asked for with a code."""
        return [head for head in self.heads if head.startswith("GET /_codehub/enter?code=")]


@asynccontextmanager
async def serving() -> AsyncIterator[Origins]:
    origins = Origins()
    server = await asyncio.start_server(origins.serve, "127.0.0.1", 0)
    origins.port = server.sockets[0].getsockname()[1]
    try:
        yield origins
    finally:
        server.close()


@pytest.fixture
async def origins() -> AsyncIterator[Origins]:
    async with serving() as served:
        where = WorkspaceOrigins("http", "localhost", served.port)
        async with open_site(memory_world(), workspace_origins=where) as site:
            served.site = site
            yield served
            await site.clients.aclose()


async def a_label(origins: Origins) -> str:
    """Return the label of a workspace of ann's."""
    assert origins.site is not None
    workspace = await create(await origins.site.browser("ann"), desired_state="PENDING")
    return urlsplit(str(workspace["url"])).netloc.partition(".")[0]


async def sign_in(page: Page) -> None:
    await page.fill("[name=username]", "ann")
    await page.fill("[name=password]", PASSWORD)
    await page.click("form button")


async def test_a_visit_to_an_origin_ends_there_after_signing_in(origins: Origins, pages: Pages) -> None:
    """A redirect of the sign-in's form to the origin would be stopped by the policy of the page."""
    assert origins.site is not None
    label, page = await a_label(origins), await pages()
    await page.goto(origins.address(label, "/lab?x=1&y=/z"))
    assert "/login" in page.url
    await sign_in(page)
    await page.wait_for_url(origins.address(label, "/lab?x=1&y=/z"))
    assert await page.title() == "entered"
    assert len(origins.codes) == 1
    referers = [line for head in origins.heads for line in head.splitlines() if line.startswith("Referer:")]
    assert not [line for line in referers if "code=" in line or origins.site.address in line]
    assert not [head for head in origins.heads if "codehub_session" in head]
    assert "_codehub" not in await page.evaluate("document.referrer + location.href")


async def test_whoever_is_signed_in_is_there_at_once(origins: Origins, pages: Pages) -> None:
    assert origins.site is not None
    label, page = await a_label(origins), await pages()
    await page.goto(f"{origins.site.address}/login")
    await sign_in(page)
    await page.wait_for_selector("body[data-live]")
    answer = await page.goto(origins.address(label))
    assert answer is not None
    redirects, request = 0, answer.request
    while request.redirected_from is not None:
        redirects, request = redirects + 1, request.redirected_from
    assert (await page.title(), redirects) == ("entered", 3)


async def test_no_page_of_a_workspace_gets_a_code_or_holds_a_window_of_the_hubs(
    origins: Origins, chromium: Browser
) -> None:
    complaints: list[str] = []  # of what it may not frame or fetch
    async with watched_page(chromium, complaints) as page:
        await _try_from_a_workspace(origins, page)
    assert any("frame" in complaint for complaint in complaints), complaints


async def _try_from_a_workspace(origins: Origins, page: Page) -> None:
    assert origins.site is not None
    label = await a_label(origins)
    await page.goto(f"{origins.site.address}/login")
    await sign_in(page)
    await page.wait_for_selector("body[data-live]")
    challenge = hashlib.sha256(KEPT.encode()).hexdigest()
    hub = f"{origins.site.address}/enter/{label}?c={challenge}&next=/"
    origins.pages["/evil"] = "<title>evil</title>" + FRAMED.format(hub)
    evil = await page.context.new_page()
    await evil.goto(origins.address("0" * 20, "/evil"), wait_until="load")
    seen = await evil.evaluate(
        """hub => Promise.all(["no-cors", "cors"].map(mode =>
            fetch(hub, {mode, credentials: "include"}).then(answer => answer.type, () => "refused")))""",
        hub,
    )
    assert seen[1] == "refused"
    assert origins.codes == []
    opened = await evil.evaluate_handle("address => window.open(address)", f"{origins.site.address}/account")
    await evil.wait_for_function("opened => opened.closed", arg=opened)
    assert len(evil.context.pages) == 3, "it is open, and out of the page's hands"
