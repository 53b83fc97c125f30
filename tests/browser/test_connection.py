"""The dashboard in Chromium without a connection: failures are shown, and what was missed is loaded."""

import asyncio
import re

import pytest
from playwright.async_api import Browser, Route, expect
from tests.browser.conftest import Pages, row
from tests.support.chromium import sign_in, watched_page
from tests.support.site import API, Site, create


async def test_a_lost_connection_is_shown_and_recovered_from(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.context.set_offline(True)
    await expect(page.locator("#lost")).to_be_visible()
    await api.post(f"{API}/workspaces/{workspace['id']}:start")
    await create(api, "meanwhile", desired_state="PENDING")
    await site.arrives(api, workspace["id"], "RUNNING")
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Not started")
    await page.context.set_offline(False)
    await expect(page.locator("#lost")).to_be_hidden()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Running")
    await expect(page.locator(".row")).to_have_count(2)


async def test_what_was_searched_for_while_nobody_answered_counts_once_connected(
    site: Site, pages: Pages
) -> None:
    api = await site.browser("ann")
    for name in ("alpha", "beta"):
        await create(api, name, desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.context.set_offline(True)
    await expect(page.locator("#lost")).to_be_visible()
    await page.get_by_role("searchbox").fill("beta")
    await expect(page.locator(".toast.bad")).to_be_visible()
    await expect(page.locator(".row")).to_have_count(2)
    await page.context.set_offline(False)
    await expect(page.locator(".row .name")).to_have_text(["beta"])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (None, "codehub can't be reached, so this was probably not done. Try again once you are connected."),
        (503, "codehub's database does not answer right now. Nothing is lost; try again in a moment."),
        (404, "This did not work"),
    ],
    ids=["unreached", "database-away", "refused"],
)
async def test_a_button_that_fails_names_its_true_cause(
    site: Site, chromium: Browser, status: int | None, message: str
) -> None:
    async def fail(route: Route) -> None:
        await (route.abort() if status is None else route.fulfill(status=status))

    workspace = await create(await site.browser("ann"), "demo", desired_state="PENDING")
    async with watched_page(chromium, []) as page:  # that its console complains is what is asked for
        await sign_in(page, site, "ann")
        await page.route("**/start", fail)
        await page.click(f"#p-{workspace['id']}")
        await expect(page.locator(".toast.bad")).to_have_text(message)


async def test_a_button_that_could_not_be_sent_says_so_and_changes_nothing(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo")
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.route("**/stop", lambda route: route.abort())
    await page.click(f"#s-{workspace['id']}")
    await page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Put to sleep").click()
    await expect(page.locator(".toast.bad")).to_be_visible()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Running")


async def test_signing_out_elsewhere_ends_the_page_too(site: Site, pages: Pages) -> None:
    page = await pages()
    await sign_in(page, site, "ann")
    cookie = next(cookie for cookie in await page.context.cookies() if cookie["name"] == "codehub_session")
    async with site.anybody(cookies={"codehub_session": cookie["value"]}) as same:
        assert (await same.post(f"{API}/logout")).status_code == 204

    await expect(page.get_by_text("Your session has ended. Sign in again.")).to_be_visible()
    await expect(page).to_have_url(re.compile(r"/login\?next=%2F&ended=page$"))


async def test_what_happens_between_a_page_and_its_stream_is_not_missed(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    may_follow = asyncio.Event()

    async def late(route: Route) -> None:
        await may_follow.wait()
        await route.continue_()

    await page.route("**/api/v1/events", late)
    await page.goto(f"{site.address}/")
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Not started")
    await api.post(f"{API}/workspaces/{workspace['id']}:start")
    await site.arrives(api, workspace["id"], "RUNNING")
    may_follow.set()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Running")
