"""A day with a real code-server at an origin of its own, in Chromium: on Docker, behind nginx with a wildcard
certificate, as operators.md has it. A web server in it has another; its tab is woken by its button.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from playwright.async_api import Page, expect
from tests.integration.docker.test_up import SHOWN_MS_MAX, open_terminal, sign_in, up_on
from tests.support.docker import DOCKER, NO_CODE_SERVER, Docker, TestEngine
from tests.support.ides import CHROMIUM
from tests.support.origin_stage import browser_of_stages
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.redis import REDIS
from tests.support.reverse_proxies import DOMAIN, HUB, NO_NGINX, nginx
from tests.support.s3 import S3

from codehub.adapters.docker.volumes import home_name

pytestmark = [
    DOCKER,
    S3,
    REDIS,
    NO_CODE_SERVER,
    NO_NGINX,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)"),
]
SERVES = """/opt/code-server/lib/node -e 'http.createServer((_, a) => a.end("hello")).listen(3000)' &"""
ENTRY = ".explorer-viewlet >> text=answer"


@pytest.fixture
async def engine(docker: Docker) -> TestEngine:
    engine = await docker()
    engine.build_code_server()
    return engine


@pytest.fixture
async def page(engine: TestEngine, tmp_path: Path) -> AsyncIterator[Page]:
    """Somebody's browser, before they have signed in at the hub."""
    public, port = free_port(), free_port()
    hub = f"https://{HUB}:{public}"
    settings = {"port": str(port), "public_base_url": hub, "workspace_host": f"*.{DOMAIN}"}
    async with (
        up_on(engine, tmp_path / "data", trusted_proxies="127.0.0.1", **settings),
        browser_of_stages() as chromium,
    ):
        with nginx(tmp_path, HUB, public, port):
            context = await chromium.new_context(ignore_https_errors=True, base_url=hub, locale="en-US")
            context.set_default_timeout(SHOWN_MS_MAX)
            yield await context.new_page()
            await context.close()


async def made(page: Page) -> None:
    await page.get_by_role("link", name="New workspace").first.click()
    await page.get_by_label("Name").fill("thesis")
    await page.get_by_role("button", name="Create and start").click()
    await is_shown(page, "Running")


async def is_shown(page: Page, state: str) -> None:
    await expect(page.locator(".ws-head .badge")).to_have_text(state, timeout=SHOWN_MS_MAX)


async def opened(page: Page, name: str) -> Page:
    async with page.context.expect_page() as opening:
        await page.get_by_role("link", name=name, exact=True).click()
    return await opening.value


async def test_code_server_behind_nginx_sleeps_and_is_woken_at_its_own_origin(
    page: Page, engine: TestEngine, tmp_path: Path
) -> None:
    await sign_in(page, "/")
    await made(page)
    home = engine.path_of(home_name(UUID(page.url.rpartition("/")[2])))
    tab = await opened(page, "Open")
    await open_terminal(tab)
    label, _, domain = urlsplit(tab.url).netloc.partition(".")
    assert (len(label), domain.partition(":")[0]) == (20, DOMAIN)
    await tab.keyboard.type(f"{SERVES}\n")
    await tab.keyboard.type("echo $((6 * 7)) > answer\n")
    await expect(tab.locator(ENTRY)).to_be_visible(timeout=SHOWN_MS_MAX)
    await tab.screenshot(path=tmp_path / "at-work.png")

    await expect(page.locator("#ports")).to_contain_text("3000", timeout=SHOWN_MS_MAX)
    port = await opened(page, "3000")
    await port.wait_for_url(f"https://3000-{label}.{domain}/")
    await expect(port.locator("body")).to_have_text("hello", timeout=SHOWN_MS_MAX)
    await port.screenshot(path=tmp_path / "port.png")

    await page.get_by_role("button", name="Put to sleep").click()
    await expect(tab.locator("codehub-tab h2")).to_have_text("Asleep", timeout=SHOWN_MS_MAX)
    await tab.screenshot(path=tmp_path / "asleep.png")
    await is_shown(page, "Asleep")

    await tab.get_by_role("button", name="Wake").click()
    await is_shown(page, "Running")
    await expect(tab.locator(ENTRY)).to_be_visible(timeout=SHOWN_MS_MAX)
    await expect(tab.locator("codehub-tab")).to_have_count(0)
    await tab.keyboard.press("Control+Shift+Backquote")
    await tab.click(".terminal-wrapper.active .xterm-screen")
    await tab.keyboard.type("cat answer > again\n")
    await until(lambda: (home / "again").exists() and (home / "again").read_text() == "42\n")
    await tab.screenshot(path=tmp_path / "awake.png")
    await port.reload()
    await expect(port.locator("body")).to_contain_text("Nothing listens on port 3000")
