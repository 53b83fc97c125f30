"""What a person reads on a page stays in its place while the page changes: in Chromium."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect
from tests.browser.conftest import Pages
from tests.support.chromium import held_answer, sign_in
from tests.support.site import API, Site, create

from codehub.core.access import Role


async def test_lines_loaded_by_earlier_stay_while_the_history_grows(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    place = f"{API}/workspaces/{workspace['id']}"
    for number in range(70):
        assert (await api.patch(place, json={"description": str(number)})).is_success
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/workspaces/{workspace['id']}")
    lines = page.locator(".timeline > [data-seq]")
    await expect(lines).to_have_count(30)
    await page.get_by_role("link", name="Earlier").click()
    await expect(lines).to_have_count(60)
    await page.wait_for_selector("body[data-live]")
    await api.patch(place, json={"description": "one more"})
    await expect(page.locator(".lead")).to_have_text("one more")
    await expect(lines).to_have_count(61)
    await page.get_by_role("button", name="Start").click()
    await expect(page.locator(".ws-head .badge")).to_have_text("Running")
    numbers = await lines.evaluate_all("all => all.map((line) => Number(line.dataset.seq))")
    assert len(numbers) > 61
    assert numbers == sorted(set(numbers), reverse=True), "each line once, the newest first"
    await page.get_by_role("link", name="Earlier").click()
    await expect(page.locator(".timeline")).to_contain_text("ann created it")
    await expect(page.get_by_role("link", name="Earlier")).to_have_count(0)


async def test_output_is_shown_from_its_end_unless_somebody_reads_above(
    site: Site, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talkative(*_: object, **__: object) -> AsyncIterator[bytes]:
        yield b"".join(b"line %d\n" % number for number in range(200))

    monkeypatch.setattr(site.instances, "logs", talkative)
    workspace = await create(await site.browser("ann"), "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/workspaces/{workspace['id']}")
    log = page.locator("pre.log")
    await expect(log).to_be_visible()
    below = "log => Math.round(log.scrollHeight - log.clientHeight - log.scrollTop)"
    assert await log.evaluate(below) == 0
    await log.evaluate("log => { log.scrollTop = 100; log.dataset.old = 'yes'; }")
    await page.get_by_role("button", name="Refresh").click()
    await expect(page.locator("pre.log[data-old]")).to_have_count(0)
    assert await log.evaluate("log => log.scrollTop") == 100


async def test_a_menu_at_the_windows_edge_is_seen_whole(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspaces = [await create(api, f"ws-{number}", desired_state="PENDING") for number in range(12)]
    page = await pages(viewport={"width": 1280, "height": 500})
    await sign_in(page, site, "ann")
    for workspace in (workspaces[0], workspaces[6]):
        summary = page.locator(f"#s-{workspace['id']}")
        await summary.evaluate("element => element.scrollIntoView({ block: 'end' })")
        await summary.click()
        await expect(page.locator(f"#m-{workspace['id']} .drop")).to_be_in_viewport(ratio=1)
        await page.keyboard.press("Escape")


async def test_a_reload_makes_no_second_token_and_copy_can_be_pressed_again(site: Site, pages: Pages) -> None:
    page = await pages(permissions=["clipboard-write"])
    await page.clock.install()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/account")
    await page.get_by_label("Purpose").fill("ci")
    await page.get_by_role("button", name="Make a token").click()
    copy = page.locator("[data-copy]")
    await expect(copy).to_have_text("Copy")
    await page.clock.pause_at(datetime.now(UTC) + timedelta(days=1))
    await copy.click()
    await expect(copy).to_have_text("Copied")
    await page.clock.resume()
    await expect(copy).to_have_text("Copy")
    await expect(copy.locator("svg")).to_have_count(1)
    await expect(page).to_have_url(f"{site.address}/account")
    await page.reload()
    await expect(page.locator("#token")).to_have_count(0)
    await expect(page.locator(".plain-list li")).to_have_count(1)


async def test_undoing_what_was_purged_elsewhere_says_so_and_its_row_goes(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    await api.delete(f"{API}/workspaces/{workspace['id']}")
    await site.arrives(api, workspace["id"], "DELETED")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.route("**/api/v1/events*", lambda route: route.abort())  # so that it learns of nothing
    await page.goto(f"{site.address}/trash")
    await api.delete(f"{API}/workspaces/{workspace['id']}?purge=true")
    await page.get_by_role("button", name="Undo deletion").click()
    toast = page.locator(".toast.bad")
    await expect(toast).to_have_text("This workspace is gone.")
    await expect(page.get_by_role("heading", name="The trash is empty")).to_be_visible()
    await toast.get_by_role("button", name="Close").click()
    await expect(toast).to_have_count(0)


async def test_the_trash_follows_what_is_deleted_and_undone_elsewhere(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/trash")
    await page.wait_for_selector("body[data-live]")
    await api.delete(f"{API}/workspaces/{workspace['id']}")
    await expect(page.locator(".row .name")).to_have_text(["demo"])
    await api.post(f"{API}/workspaces/{workspace['id']}:undelete")
    await expect(page.get_by_role("heading", name="The trash is empty")).to_be_visible()


async def test_whoever_deletes_on_a_workspaces_page_does_not_come_back_to_it(
    site: Site, pages: Pages
) -> None:
    workspace = await create(await site.browser("ann"), "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.click(f"#n-{workspace['id']}")
    await page.wait_for_selector("body[data-live]")
    await page.click("#d-summary")
    await page.get_by_role("button", name="Delete").click()
    await expect(page).to_have_url(f"{site.address}/trash")
    await page.go_back()
    await expect(page).to_have_url(f"{site.address}/")


async def test_an_admin_whose_page_of_anothers_workspace_is_gone_is_not_led_to_a_trash_without_it(
    site: Site, pages: Pages
) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    await site.user("root", Role.ADMIN)
    page = await pages()
    await sign_in(page, site, "root")
    await page.goto(f"{site.address}/workspaces/{workspace['id']}")
    await page.wait_for_selector("body[data-live]")
    await api.delete(f"{API}/workspaces/{workspace['id']}")
    await expect(page).to_have_url(f"{site.address}/admin/workspaces")


async def test_long_names_take_two_lines_and_a_wrong_field_stays_in_its_line(
    site: Site, pages: Pages
) -> None:
    name = "a very long name " * 15
    workspace = await create(await site.browser("ann", Role.ADMIN), name.strip(), desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    title = page.locator(f"#n-{workspace['id']}")
    assert await title.get_attribute("title") == name.strip()
    assert await title.evaluate(
        "element => element.scrollHeight > element.clientHeight && element.clientHeight < 60"
    )
    await page.goto(f"{site.address}/admin/users")
    await page.get_by_label("Username").fill("b b")
    await page.get_by_label("Password", exact=True).fill("correct horse")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.locator("#wrong-username")).to_be_visible()
    fields = await page.locator(".inline input, .inline select, .inline > .button").all()
    tops = {round((await field.bounding_box() or {"y": -1})["y"]) for field in fields}
    assert (len(fields), len(tops)) == (4, 1)


async def test_rows_asked_for_before_a_search_do_not_come_into_what_it_found(
    site: Site, pages: Pages
) -> None:
    api = await site.browser("ann")
    alpha = await create(api, "alpha", desired_state="PENDING")
    await create(api, "beta", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.wait_for_selector("body[data-live]")
    async with page.expect_response("**/rows?q=beta*"), held_answer(page, "**/rows?*") as is_given:
        await api.patch(f"{API}/workspaces/{alpha['id']}", json={"description": "changed"})
        await is_given()
        await page.get_by_role("searchbox").fill("beta")
        await expect(page.locator(".row .name")).to_have_text(["beta"])
    await expect(page.locator(".row .name")).to_have_text(["beta"])
