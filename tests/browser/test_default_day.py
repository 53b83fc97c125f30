"""A day with codehub as it comes, in Chromium: no setting, no DNS, no certificate. A workspace with a real
IDE opens at a name of its own, a web server in it at another, the tab sleeps and is woken, and all is there.
"""

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect
from tests.browser.conftest import Pages
from tests.support.docker import NO_CODE_SERVER, code_server
from tests.support.patience import until
from tests.support.program import running

from codehub.adapters.local.network import find_gateway

PASSWORD = "correct horse battery"
IDE_MS_MAX = 120_000
WARNED_S = 30
SERVES = "mkdir -p site; echo hello from a port > site/index.html; python3 -m http.server 3000 -d site &"
OWN = re.compile(r"http://[0-9a-f]{20}\.localhost:[0-9]+/.*")

pytestmark = pytest.mark.skipif(find_gateway() is None, reason="ports need passt (scripts/isolation)")


async def terminal_of_jupyterlab(tab: Page) -> None:
    """Open one, or go to the one that is there again in a woken workspace."""
    card = tab.locator('.jp-LauncherCard[data-category="Other"][title*="terminal"]')
    screen = tab.locator(".jp-Terminal .xterm-screen")
    await card.or_(screen).first.click(timeout=IDE_MS_MAX)
    await screen.click(timeout=IDE_MS_MAX)


async def trusted_if_asked(tab: Page, ide: str) -> None:
    if ide == "code-server":
        await tab.click("text=Yes, I trust the authors", timeout=IDE_MS_MAX)


async def terminal_of_code_server(tab: Page) -> None:
    await tab.wait_for_selector(".explorer-viewlet", timeout=IDE_MS_MAX)
    await tab.keyboard.press("Control+Shift+Backquote")
    await tab.wait_for_selector(".terminal-wrapper.active .xterm-screen", timeout=IDE_MS_MAX)
    await tab.click(".terminal-wrapper.active .xterm-screen")


TERMINALS: Mapping[str, Callable[[Page], Awaitable[None]]] = {
    "jupyterlab": terminal_of_jupyterlab,
    "code-server": terminal_of_code_server,
}
FILES = {
    "jupyterlab": '.jp-DirListing-item[title*="answer"]',
    "code-server": ".explorer-viewlet >> text=answer",
}


async def signed_in_and_created(page: Page, address: str) -> None:
    await page.goto(address)
    await page.get_by_label("Name").fill("admin")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="New workspace").first.click()
    await page.get_by_label("Name").fill("thesis")
    await page.get_by_role("button", name="Create and start").click()
    await is_shown(page, "Running")


async def is_shown(page: Page, state: str) -> None:
    await expect(page.locator(".ws-head .badge")).to_have_text(state, timeout=IDE_MS_MAX)


async def opened(page: Page, name: str) -> Page:
    async with page.context.expect_page() as opening:
        await page.get_by_role("link", name=name, exact=True).click()
    return await opening.value


async def asked(page: Page, method: str, verb: str, **fields: int) -> None:
    """Ask the API as whoever looks at the workspace's page."""
    address = page.url.replace("/workspaces/", "/api/v1/workspaces/") + verb
    answer = await page.request.fetch(address, method=method, data=fields)
    assert answer.ok, await answer.text()


async def left_alone_it_sleeps_and_says_so(page: Page, tab: Page, pictures: Path) -> None:
    await asked(page, "POST", ":keep_awake", seconds=WARNED_S)
    await asked(page, "PATCH", "", standby_ttl_seconds=10)
    headline = tab.locator("codehub-tab h2")
    await expect(headline).to_have_text("About to sleep", timeout=IDE_MS_MAX)
    await tab.screenshot(path=pictures / "warning.png")
    await expect(headline).to_have_text("Asleep", timeout=IDE_MS_MAX)
    await tab.screenshot(path=pictures / "asleep.png")
    await is_shown(page, "Asleep")


async def woken_by_its_button_everything_is_there(page: Page, tab: Page, ide: str, home: Path) -> None:
    await asked(page, "PATCH", "", standby_ttl_seconds=3600)
    await tab.get_by_role("button", name="Wake").click()
    await is_shown(page, "Running")
    await expect(tab.locator(FILES[ide])).to_be_visible(timeout=IDE_MS_MAX)
    await expect(tab.locator("codehub-tab")).to_have_count(0)
    assert (home / "answer").read_text() == "42\n"
    await terminal_works(tab, ide, home)


async def terminal_works(tab: Page, ide: str, home: Path) -> None:
    await TERMINALS[ide](tab)
    await tab.keyboard.type("cat answer > again\n")
    await until(lambda: (home / "again").exists() and (home / "again").read_text() == "42\n", seconds=120)


@pytest.mark.parametrize(
    "ide", ["jupyterlab", pytest.param("code-server", marks=[NO_CODE_SERVER, pytest.mark.circle])]
)
async def test_a_day_with_what_two_commands_give(
    tmp_path: Path, pages: Pages, monkeypatch: pytest.MonkeyPatch, ide: str
) -> None:
    if ide == "code-server":
        monkeypatch.setenv("PATH", f"{code_server().parent}:{os.environ['PATH']}")
    with running(tmp_path / "data", initial_admin_password=PASSWORD) as server:
        page = await pages()
        seen: list[str] = []
        await signed_in_and_created(page, server.address)
        page.context.on("request", lambda request: seen.append(urlsplit(request.url).path))
        tab = await opened(page, "Open")
        await tab.wait_for_url(OWN)
        assert "/login" not in seen, "nobody signs in twice"
        await trusted_if_asked(tab, ide)
        await TERMINALS[ide](tab)
        await tab.keyboard.type(f"{SERVES}\n")
        await tab.keyboard.type("echo $((6 * 7)) > answer\n")
        await expect(tab.locator(FILES[ide])).to_be_visible(timeout=IDE_MS_MAX)
        await tab.screenshot(path=tmp_path / "at-work.png")

        await expect(page.locator("#ports")).to_contain_text("3000", timeout=IDE_MS_MAX)
        await page.screenshot(path=tmp_path / "dashboard.png", full_page=True)
        port = await opened(page, "3000")
        await port.wait_for_url(f"http://3000-{urlsplit(tab.url).netloc}/")
        await expect(port.locator("body")).to_have_text("hello from a port")

        await left_alone_it_sleeps_and_says_so(page, tab, tmp_path)
        (home,) = (tmp_path / "data").glob("users/*/workspaces/*/home")
        await woken_by_its_button_everything_is_there(page, tab, ide, home)
        await tab.screenshot(path=tmp_path / "awake.png")
        await port.reload()
        await expect(port.locator("body")).to_contain_text("Nothing listens")
        await port.screenshot(path=tmp_path / "port-silent.png")
