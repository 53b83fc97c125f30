"""Answers that come late, in another order, or not at all: in the end a page in Chromium is right."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page, Route, expect
from tests.browser.conftest import Pages, row
from tests.support.chromium import held_answer, sign_in
from tests.support.patience import until
from tests.support.site import API, Site, create

NOTES_WHAT_IS_HEARD = """
  window.heard = [];
  window.EventSource = class extends EventSource {
    constructor(...given) {
      super(...given);
      for (const kind of ["workspace_updated", "workspace_deleted"])
        this.addEventListener(kind, (event) => heard.push(event.data));
    }
  };
"""


async def hears(page: Page, text: str) -> None:
    """Wait until the page's stream told of this, and the page had its answer if it asked at once."""
    await until(lambda: page.evaluate("text => heard.some((entry) => entry.includes(text))", text))
    await answered(page)


async def answered(page: Page) -> None:
    """Wait for an answer, so that those asked for earlier are there, too, in whatever order they come."""
    await page.evaluate("fetch('/rows').then((answer) => answer.text())")


async def search(page: Page) -> None:
    await page.get_by_role("searchbox").fill("old")


async def scroll(page: Page) -> None:
    await page.locator("#more").scroll_into_view_if_needed()


@pytest.mark.parametrize(
    ("others", "ask", "address", "count"),
    [(1, search, "**/?q=old*", 1), (50, scroll, "**/?cursor=*", 51)],
    ids=["searched", "more"],
)
async def test_a_row_that_changes_while_its_list_is_on_its_way_is_shown_as_it_is(
    site: Site, pages: Pages, others: int, ask: Callable[[Page], Awaitable[None]], address: str, count: int
) -> None:
    api = await site.browser("ann")
    oldest = await create(api, "oldest", desired_state="PENDING")
    for number in range(others):
        await create(api, f"ws-{number}", desired_state="PENDING")
    page = await pages()
    await page.add_init_script(NOTES_WHAT_IS_HEARD)
    await sign_in(page, site, "ann")
    async with held_answer(page, address) as is_given:
        await ask(page)
        await is_given()
        await api.patch(f"{API}/workspaces/{oldest['id']}", json={"description": "changed meanwhile"})
        await hears(page, "changed meanwhile")
    await expect(page.locator(".row")).to_have_count(count)
    await expect(page.locator(f"{row(oldest)} .about")).to_have_text("changed meanwhile")


async def test_a_button_pressed_on_a_row_that_goes_meanwhile_is_answered(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await page.add_init_script(NOTES_WHAT_IS_HEARD)
    await sign_in(page, site, "ann")
    may_ask = asyncio.Event()

    async def late(route: Route) -> None:
        await may_ask.wait()
        await route.continue_()

    await page.route("**/start", late)
    async with page.expect_request("**/start"):
        await page.click(f"#p-{workspace['id']}")
    await api.delete(f"{API}/workspaces/{workspace['id']}")
    await site.arrives(api, workspace["id"], "DELETED")
    await hears(page, f'{{"id":"{workspace["id"]}"}}')
    may_ask.set()
    await expect(page.locator(".toast.bad")).to_have_text("This workspace is gone.")
    await expect(page.locator(".row")).to_have_count(0)


async def test_an_undo_that_could_not_be_sent_says_so_and_can_be_pressed_again(
    site: Site, pages: Pages
) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.click(f"#s-{workspace['id']}")
    await page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Delete").click()
    undo = page.locator(".toast").get_by_role("button", name="Undo")
    await page.route("**/undelete", lambda route: route.abort(), times=1)
    await undo.click()
    await expect(page.locator(".toast.bad")).to_contain_text("codehub can't be reached")
    await page.wait_for_selector(row(workspace), state="detached")
    await undo.click()
    await expect(undo).to_have_count(0)
    await page.wait_for_selector(row(workspace))


async def test_missed_changes_that_could_not_be_fetched_are_asked_for_again(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.route("**/api/v1/events", lambda route: route.abort())
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(page.locator("#lost")).to_be_visible()
    workspace = await create(api, "meanwhile", desired_state="PENDING")
    await page.route(f"{site.address}/", lambda route: route.abort(), times=1)
    await page.unroute("**/api/v1/events")
    await page.wait_for_selector(row(workspace))
    await expect(page.locator("#lost")).to_be_hidden()


async def test_a_machine_without_a_network_still_reaches_a_codehub_of_its_own(
    site: Site, pages: Pages
) -> None:
    page = await pages()
    await sign_in(page, site, "ann")
    async with page.expect_response("**/api/v1/events"):
        await page.evaluate("dispatchEvent(new Event('offline'))")
    await create(await site.browser("ann"), "demo", desired_state="PENDING")
    await expect(page.locator(".row .name")).to_have_text(["demo"])
    await expect(page.locator("#lost")).to_be_hidden()


async def test_the_focus_stays_in_a_menu_while_its_row_changes(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.focus(f"#s-{workspace['id']}")
    await page.keyboard.press("Enter")
    delete = page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Delete")
    for change in ("once", "twice"):
        await delete.focus()
        await api.patch(f"{API}/workspaces/{workspace['id']}", json={"description": change})
        await expect(page.locator(f"{row(workspace)} .about")).to_have_text(change)
        await expect(delete).to_be_focused()


async def test_the_focus_stays_on_a_workspaces_page_while_it_changes(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    place = f"/workspaces/{workspace['id']}"
    for number in range(31):
        await api.patch(f"{API}{place}", json={"description": str(number)})
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}{place}")
    await page.wait_for_selector("body[data-live]")
    await page.click("#d-summary")
    for name in ("Settings", "Earlier"):
        link = page.get_by_role("link", name=name)
        await link.focus()
        await api.patch(f"{API}{place}", json={"description": name})
        await expect(page.locator(".lead")).to_have_text(name)
        await expect(link).to_be_focused()


async def test_whoever_presses_buttons_by_keyboard_stays_where_they_are(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    badge, toast = page.locator(f"{row(workspace)} .badge"), page.locator(".toast").last
    await page.focus(f"#p-{workspace['id']}")
    await page.keyboard.press("Enter")
    await expect(badge).to_have_text("Running")
    await expect(page.locator(f"#p-{workspace['id']}")).to_be_focused()
    await page.focus(f"#k-{workspace['id']}")
    await page.keyboard.press("Enter")
    await expect(toast).to_contain_text("stays awake")
    await expect(page.locator(f"#k-{workspace['id']}")).to_be_focused()
    await page.focus(f"#s-{workspace['id']}")
    await page.keyboard.press("Enter")
    await page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Put to sleep").focus()
    await page.keyboard.press("Enter")
    await expect(badge).to_have_text("Asleep")
    await expect(page.locator(f"#s-{workspace['id']}")).to_be_focused()


async def test_a_button_that_is_pressed_twice_asks_once(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.method + " " + request.url))
    async with held_answer(page, "**/start") as is_given:
        await page.locator(f"#p-{workspace['id']}").dblclick()
        await is_given()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Running")
    assert sum(request.startswith("POST") for request in requests) == 1


async def test_output_that_was_asked_for_earlier_does_not_come_over_the_latest(
    site: Site, pages: Pages
) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo")
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/workspaces/{workspace['id']}")
    await page.wait_for_selector("body[data-live]")
    await expect(page.locator("pre.log")).to_be_visible()
    async with held_answer(page, "**/logs") as is_given:
        await page.get_by_role("button", name="Refresh").click()
        await is_given()
        await page.get_by_role("button", name="Put to sleep").click()
        await expect(page.locator(".ws-head .badge")).to_have_text("Asleep")
        await answered(page)
    await answered(page)
    await expect(page.locator("#logs")).to_have_text("There is output only while it runs.")


async def test_output_follows_a_state_that_the_answer_to_a_button_tells_of(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="STANDBY")
    await site.arrives(api, workspace["id"], "STANDBY")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.route(
        "**/api/v1/events*", lambda route: route.abort()
    )  # so that it learns of nothing by itself
    await page.goto(f"{site.address}/workspaces/{workspace['id']}")
    await expect(page.locator("#logs")).to_have_text("There is output only while it runs.")
    await api.post(f"{API}/workspaces/{workspace['id']}:start")
    await site.arrives(api, workspace["id"], "RUNNING")
    await page.click("#d-summary")
    await page.locator("#d-menu").get_by_role("button", name="Start").click()
    await expect(page.locator(".ws-head .badge")).to_have_text("Running")
    await expect(page.locator("pre.log")).to_be_visible()
