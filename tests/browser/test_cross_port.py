"""What a page at one origin of a workspace may do at another, in Chromium against `codehub up`: nothing,
unless the workspace's option says so, and then for its owner and inside this workspace alone.

Twice: at `*.localhost`, where each host is a site of its own, and behind nginx, where all are one.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext, Page
from tests.support.ides import CHROMIUM
from tests.support.origin_stage import API, Person, Place, Stage, at_localhost, behind, profile_of_stages
from tests.support.patience import until
from tests.support.reverse_proxies import NO_NGINX, nginx

from codehub.adapters.local.network import find_gateway

pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)"),
    pytest.mark.skipif(find_gateway() is None, reason="ports need passt (scripts/isolation)"),
]
ASKED = {"GET": {}, "POST": {"headers": {"Content-Type": "application/json", "X-Own": "1"}, "body": "{}"}}
"""The second is not sent before a preflight allowed it."""
FETCH = """
([url, method, more]) => fetch(url, {method, credentials: "include", ...more}).then(
    async answer => `${answer.type} ${answer.status} ${await answer.text()}`, () => "refused")
"""
SOCKET = """
url => new Promise(done => {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.onopen = () => done("open");
    socket.onclose = () => done("closed");
})
"""
FRAME = """
url => new Promise(done => {
    const frame = document.createElement("iframe");
    frame.onload = done;
    frame.src = url;
    document.body.replaceChildren(frame);
})
"""
REFUSED = ["refused", "refused", "closed"]


@dataclass(frozen=True)
class Scene:
    stage: Stage
    ann: Person
    place: Place
    other: Place

    def port(self, place: Place, number: int) -> str:
        parts = urlsplit(place.origin)
        return parts._replace(netloc=f"{number}-{parts.netloc}").geturl()

    def switch(self, *, on: bool) -> None:
        path = f"{API}/workspaces/{self.place.id}"
        self.ann.client.patch(path, json={"cross_port_access": on}).raise_for_status()


@pytest.fixture(scope="module", params=["sites of their own", pytest.param("one site", marks=NO_NGINX)])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("scene")
    with ExitStack() as stack:
        is_local = request.param == "sites of their own"
        stage = stack.enter_context(at_localhost(directory) if is_local else behind(nginx, directory))
        ann = stage.person(stack, "ann")
        place, other = (stage.workspace(ann, name) for name in ("demo", "other"))
        for each in (place, other):
            each.serve("index.html", f"<title>{each.label}</title>")
            each.serve("data", "something")
        made = Scene(stage, ann, place, other)
        made.switch(on=True)
        yield made


@pytest.fixture(scope="module")
async def context(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserContext]:
    """Ann's browser after it was at both IDEs and at all ports, with two servers in each workspace."""
    async with ann_at(scene, tmp_path_factory.mktemp("profile")) as context:
        page = await context.new_page()
        for place in (scene.place, scene.other):
            await page.goto(f"{place.origin}/")
            await page.evaluate("Promise.all([3000, 8080].map(port => fetch(`/listen?${port}`)))")
            for port in (3000, 8080):
                await page.goto(f"{scene.port(place, port)}/")
                assert await page.title() == place.label
        await page.close()
        yield context


@asynccontextmanager
async def ann_at(scene: Scene, directory: Path) -> AsyncIterator[BrowserContext]:
    async with profile_of_stages(directory) as context:
        await scene.stage.sign_in(context, scene.ann)
        yield context


async def asks(page: Page, origin: str) -> list[str]:
    """Let a page ask in every way, and return what becomes of each."""
    answers = [await page.evaluate(FETCH, [f"{origin}/data", method, more]) for method, more in ASKED.items()]
    return [*answers, await page.evaluate(SOCKET, f"{origin}/socket")]


async def shows(page: Page, origin: str) -> str | None:
    """Let a page show an origin in a frame, and return what is in it. None: nothing of that origin."""
    await page.evaluate(FRAME, f"{origin}/")
    (frame,) = page.frames[1:]
    title = await frame.title()  # the browser's own page of a refusal has a host name for one
    is_refused = frame.url.startswith("chrome-error:") or title in ("", urlsplit(origin).hostname)
    return None if is_refused else title


async def test_a_page_at_a_port_asks_another_and_the_ide_shows_both(
    scene: Scene, context: BrowserContext
) -> None:
    page, api = await context.new_page(), scene.port(scene.place, 8080)
    await page.goto(f"{scene.port(scene.place, 3000)}/")
    assert await asks(page, api) == ["cors 200 something", "cors 200 ", "open"]
    await page.goto(f"{scene.place.origin}/")
    assert await shows(page, api) == scene.place.label


async def test_it_reaches_nothing_else(scene: Scene, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto(f"{scene.port(scene.place, 3000)}/")
    elsewhere = (scene.place.origin, scene.port(scene.other, 8080), scene.other.origin, scene.stage.hub)
    for origin in elsewhere:
        assert await asks(page, origin) == REFUSED, origin
        assert await shows(page, origin) is None, origin
    assert await shows(page, scene.port(scene.place, 8080)) is None, "its IDE alone shows it"


async def test_other_workspaces_pages_reach_none_of_its_ports(scene: Scene, context: BrowserContext) -> None:
    page, api = await context.new_page(), scene.port(scene.place, 8080)
    for origin in (scene.other.origin, scene.port(scene.other, 3000)):
        await page.goto(f"{origin}/")
        assert await asks(page, api) == REFUSED
        assert await shows(page, api) is None


async def test_where_it_is_off_ports_and_ide_are_strangers(scene: Scene, context: BrowserContext) -> None:
    page, api = await context.new_page(), scene.port(scene.place, 8080)
    await page.goto(f"{scene.port(scene.place, 3000)}/")
    scene.switch(on=False)

    async def is_refused() -> bool:
        return await asks(page, api) == REFUSED

    await until(is_refused)
    await page.goto(f"{scene.place.origin}/")
    assert await shows(page, api) is None
    scene.switch(on=True)


@pytest.mark.usefixtures("context")  # its servers
async def test_whoever_was_not_at_a_port_yet_is_led_there_from_its_frame(
    scene: Scene, tmp_path: Path
) -> None:
    async with ann_at(scene, tmp_path) as new:
        page, port = await new.new_page(), scene.port(scene.place, 8080)
        await page.goto(f"{scene.place.origin}/")
        assert "Open this port once" in str(await shows(page, port))
        async with new.expect_page() as opening:
            await page.frame_locator("iframe").get_by_role("link", name="Open in a tab").click()
        await (await opening.value).wait_for_url(f"{port}/")
        await page.frame_locator("iframe").get_by_role("link", name="Try again").click()

        async def is_shown() -> bool:
            return await page.frames[1].title() == scene.place.label

        await until(is_shown)
