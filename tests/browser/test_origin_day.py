"""A workspace at its own origin, in Chromium against `codehub up`: from its opening to the sign-out."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from tests.support.ides import CHROMIUM
from tests.support.origin_stage import PASSWORD, Person, Place, at_localhost, browser_of_stages, rests
from tests.support.patience import until, within

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)")
ENDS_S_MAX = 2.0
TALKS = """
<title>at work</title><p id="said">-</p>
<script>
  const socket = new WebSocket(location.href.replace("http", "ws").replace("work.html", "socket"));
  const say = text => document.querySelector("#said").textContent = text;
  socket.onopen = () => socket.send("hello from the page");
  socket.onmessage = message => say(message.data);
  socket.onclose = () => { say("closed"); window.closedAt = Date.now(); };
</script>
"""


async def signed_in(page: Page, hub: str) -> None:
    await page.goto(hub)
    await page.get_by_label("Name").fill("admin")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_selector("body[data-live]")


async def opened(page: Page, place: Place) -> Page:
    """Open it from the list, and stay until it is there."""
    async with page.context.expect_page() as opening:
        await page.get_by_role("link", name="Open", exact=False).first.click()
    tab = await opening.value
    await tab.wait_for_url(f"{place.origin}/")
    await expect(tab).to_have_title("hello")
    return tab


async def at_work(tab: Page, place: Place) -> None:
    await tab.goto(place.serve("work.html", TALKS))
    await expect(tab.locator("#said")).to_have_text("hello from the page")


async def put_to_sleep_and_woken_by_a_visit(tab: Page, place: Place, owner: Person) -> None:
    owner.client.post(f"/api/v1/workspaces/{place.id}:stop").raise_for_status()
    await until(lambda: rests(owner.show(place), "STANDBY"))
    await expect(tab.locator("#said")).to_have_text("closed")
    before = len(place.requests())
    status = await tab.evaluate("fetch('/background').then(answer => answer.status)")
    assert (status, len(place.requests())) == (503, before), "what is open in a tab wakes nothing"
    assert rests(owner.show(place), "STANDBY")
    answer = await tab.goto(f"{place.origin}/work.html", wait_until="commit")
    assert answer is not None
    assert answer.headers["x-codehub-page"] == "waking"
    await expect(tab.locator("#said")).to_have_text("hello from the page")


async def signed_out(page: Page, tab: Page, place: Place) -> None:
    """An open WebSocket ends within two seconds, and nothing more gets in."""
    other = await page.context.new_page()
    await at_work(other, place)
    await page.locator("header details, .account, nav details").last.click()
    await page.get_by_role("button", name="Sign out").click()
    async with within(ENDS_S_MAX):
        for open_tab in (tab, other):
            await open_tab.wait_for_function("document.querySelector('#said').textContent === 'closed'")
    reached = len(place.requests())
    assert await tab.evaluate("fetch('/more').then(answer => answer.status)") == 401
    await other.goto(f"{place.origin}/again")
    assert "/login" in other.url
    assert len(place.requests()) == reached


async def test_a_day_at_an_origin_of_its_own(tmp_path: Path) -> None:
    with at_localhost(tmp_path) as stage, ExitStack() as stack:
        owner = stage.person(stack, "admin")
        place = stage.workspace(owner, "thesis")
        assert place.host == f"{place.label}.localhost:{stage.hub.rpartition(':')[2]}"
        async with browser_of_stages() as chromium:
            page = await (await stage.context(chromium, None)).new_page()
            await signed_in(page, stage.hub)
            tab = await opened(page, place)
            await at_work(tab, place)
            await tab.screenshot(path=tmp_path / "at-work.png")
            await put_to_sleep_and_woken_by_a_visit(tab, place, owner)
            await page.screenshot(path=tmp_path / "dashboard.png")
            await signed_out(page, tab, place)
        noted = str(place.requests())
        assert "codehub" not in noted, "no cookie of ours reached it"
        assert "code=" not in noted
