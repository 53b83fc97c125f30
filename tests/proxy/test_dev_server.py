"""A real development server at its port's origin: Vite in a workspace behind nginx with a wildcard
certificate, in Chromium. It checks the Host that it is asked by, and replaces modules over a WebSocket.
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect
from tests.support.dev_server import put_project, write_text
from tests.support.ides import CHROMIUM
from tests.support.origin_stage import behind, browser_of_stages
from tests.support.patience import PATIENCE_S
from tests.support.reverse_proxies import NO_NGINX, nginx

from codehub.adapters.local.network import find_gateway

pytestmark = [
    NO_NGINX,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)"),
    pytest.mark.skipif(find_gateway() is None, reason="ports need passt (scripts/isolation)"),
]
PORT = 5173
BYTES = 50_000_000
PARTS = """
async () => {
    const reader = (await fetch("/parts")).body.getReader(), decoder = new TextDecoder();
    const first = decoder.decode((await reader.read()).value);
    await fetch("/go-on");
    return [first, decoder.decode((await reader.read()).value)];
}
"""
UPLOAD = 'size => fetch("/size", {method: "POST", body: new Uint8Array(size)}).then(answer => answer.text())'


@dataclass(frozen=True)
class Development:
    page: Page
    project: Path
    sockets: list[str]


@pytest.fixture(scope="module")
async def development(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Development]:
    """Its page, open in a browser."""
    with ExitStack() as stack:
        stage = stack.enter_context(behind(nginx, tmp_path_factory.mktemp("stage")))
        ann = stage.person(stack, "ann")
        place = stage.workspace(ann, "demo")
        project = put_project(place.home, PORT)
        async with browser_of_stages() as chromium:
            page = await (await stage.context(chromium, ann)).new_page()
            sockets: list[str] = []
            page.on("websocket", lambda socket: sockets.append(socket.url))
            await page.goto(f"{place.origin}/start")
            parts = urlsplit(place.origin)
            await page.goto(parts._replace(netloc=f"{PORT}-{parts.netloc}").geturl())
            try:  # until it listens a page of codehub's stands there
                await expect(page.locator("output")).to_have_text("before", timeout=PATIENCE_S * 1000)
            except AssertionError as error:
                raise AssertionError((project / "log").read_text()) from error
            yield Development(page, project, sockets)


async def test_a_changed_module_is_replaced_without_loading_the_page_anew(development: Development) -> None:
    page = development.page
    await page.evaluate("window.isStillThere = true")
    write_text(development.project, "after")
    await expect(page.locator("output")).to_have_text("after", timeout=PATIENCE_S * 1000)
    assert await page.evaluate("window.isStillThere")
    assert {urlsplit(url).netloc for url in development.sockets} == {urlsplit(page.url).netloc}


async def test_it_is_asked_by_the_host_of_its_origin(development: Development) -> None:
    page = development.page
    answer = await page.evaluate("fetch('/host').then(answer => answer.text())")
    assert answer == urlsplit(page.url).netloc


async def test_an_answer_comes_part_by_part(development: Development) -> None:
    assert await development.page.evaluate(PARTS) == ["first", "second"]


async def test_a_large_upload_arrives_whole(development: Development) -> None:
    assert await development.page.evaluate(UPLOAD, BYTES) == str(BYTES)
