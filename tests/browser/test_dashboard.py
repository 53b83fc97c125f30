"""The dashboard in Chromium, over a platform in memory: live lists, and buttons that ask first."""

import asyncio
import re
from uuid import UUID

import pytest
from playwright.async_api import Dialog, Page, expect
from tests.browser.conftest import Pages, row
from tests.support.boots import starts_held
from tests.support.chromium import box, serious, sign_in
from tests.support.site import API, Site, create

from codehub.core.access import Role
from codehub.core.progress import Progress


def answer_dialog(page: Page, *, yes: bool) -> list[str]:
    """Answer the next question, and return what will have been asked."""
    questions: list[str] = []

    async def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        await (dialog.accept() if yes else dialog.dismiss())

    page.once("dialog", answer)
    return questions


async def test_a_workspace_is_made_and_watched_as_it_comes_up(site: Site, pages: Pages) -> None:
    page = await pages()
    await sign_in(page, site, "ann")
    await expect(page.get_by_role("heading", name="Your first workspace")).to_be_visible()
    await page.get_by_role("link", name="New workspace").first.click()
    await page.get_by_label("Name").fill("demo")
    with starts_held(site.instances):
        await page.get_by_role("button", name="Create and start").click()
        await expect(page.locator(".ws-head .badge")).to_have_text("Starting")
    await expect(page.locator(".ws-head .badge")).to_have_text("Running")
    await expect(page.locator(".track .here")).to_have_text("Running")
    await page.get_by_role("link", name="codehub").click()
    await expect(page.locator(".row .badge")).to_have_text("Running")
    await expect(page.locator("#usage")).to_have_text("1 of 3 running")


async def test_a_workspaces_own_page_counts_what_runs_after_it_was_stopped(site: Site, pages: Pages) -> None:
    workspace = await create(await site.browser("ann"), "demo")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/workspaces/{workspace['id']}")
    await expect(page.locator(".ws-head .badge")).to_have_text("Running")
    await expect(page.locator("#usage")).to_have_text("1 of 3 running")
    await page.get_by_role("button", name="Put to sleep").click()
    await expect(page.locator(".ws-head .badge")).to_have_text("Asleep")
    await expect(page.locator("#usage")).to_have_text("0 of 3 running")


async def test_what_others_do_appears_without_a_reload(site: Site, pages: Pages) -> None:
    """Made, changed and deleted by a program: the list follows, and one row at a time."""
    api = await site.browser("ann")
    page = await pages()
    await sign_in(page, site, "ann")
    workspace = await create(api, "from-the-cli")
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Running")
    other = await create(api, "another", desired_state="PENDING")
    await page.wait_for_selector(row(other))
    await expect(page.locator(".row .name")).to_have_text(["another", "from-the-cli"])
    await page.evaluate(f"document.querySelector('{row(other)}').dataset.marked = 'yes'")
    await api.post(f"{API}/workspaces/{workspace['id']}:stop")
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Asleep")
    assert await page.get_attribute(row(other), "data-marked") == "yes", (
        "a row that did not change was drawn again"
    )
    await api.delete(f"{API}/workspaces/{workspace['id']}")
    await page.wait_for_selector(row(workspace), state="detached")
    await api.delete(f"{API}/workspaces/{other['id']}")
    await expect(page.get_by_role("heading", name="Your first workspace")).to_be_visible()


async def test_a_button_that_is_held_down_while_its_row_changes_is_still_pressed(
    site: Site, pages: Pages
) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.locator(row(workspace)).get_by_role("button", name="Start").hover()
    await page.mouse.down()
    async with page.expect_response(re.compile("rows")):
        await api.patch(f"{API}/workspaces/{workspace['id']}", json={"name": "renamed"})
    await page.evaluate("new Promise(requestAnimationFrame)")
    await page.mouse.up()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Running")
    await expect(page.locator(f"{row(workspace)} .name")).to_have_text("renamed")


async def test_a_deletion_can_be_undone_at_once(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "precious")
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.click(f"#s-{workspace['id']}")
    await page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Delete").click()
    toast = page.locator(".toast")
    await expect(toast).to_contain_text("“precious” goes to the trash")
    await page.wait_for_selector(row(workspace), state="detached")
    await toast.get_by_role("button", name="Undo").click()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Archived")
    await page.click(f"#s-{workspace['id']}")
    await page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Delete").click()
    await page.wait_for_selector(row(workspace), state="detached")
    await page.get_by_role("link", name="Trash").click()
    await page.get_by_role("button", name="Undo deletion").click()
    await expect(page.get_by_role("heading", name="The trash is empty")).to_be_visible()
    await page.get_by_role("link", name="Workspaces", exact=True).click()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Archived")


async def test_a_purge_asks_first(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "unloved", desired_state="PENDING")
    await api.delete(f"{API}/workspaces/{workspace['id']}")
    await site.arrives(api, workspace["id"], "DELETED")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/trash")
    heads = page.get_by_role("columnheader")
    assert (await heads.all_inner_texts())[:3] == ["Name", "Deleted", "Gone for good"]
    questions = answer_dialog(page, yes=False)
    await page.get_by_role("button", name="Delete for good").click()
    assert "Nothing is kept" in questions[0]
    await expect(page.locator(".row")).to_have_count(1)
    answer_dialog(page, yes=True)
    await page.get_by_role("button", name="Delete for good").click()
    await expect(page.locator(".row")).to_have_count(0)


@pytest.mark.parametrize(
    ("button", "question", "fact"),
    [
        ("Disable", "signed out everywhere and their tokens end", "Enable"),
        ("Make member", "no longer see other people's workspaces", "Make admin"),
    ],
)
async def test_taking_something_from_a_person_asks_first_and_says_how_it_is_undone(
    site: Site, pages: Pages, button: str, question: str, fact: str
) -> None:
    await site.user("ann", Role.ADMIN)
    await site.user("bob", Role.ADMIN)
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/admin/users")
    bob = page.get_by_role("row").filter(has_text="bob")
    questions = answer_dialog(page, yes=False)
    await bob.get_by_role("button", name=button).click()
    assert "bob" in questions[0]
    assert question in questions[0]
    assert re.search(
        f"An admin can undo this with “{fact}”(; tokens have to be made anew)?\\.$", questions[0]
    )
    await expect(bob.get_by_role("button", name=button)).to_be_enabled()
    for undo in (
        page.locator(".said").get_by_role("button", name="Undo"),
        bob.get_by_role("button", name=fact),
    ):
        answer_dialog(page, yes=True)
        await bob.get_by_role("button", name=button).click()
        await undo.click()
        await expect(bob.get_by_role("button", name=button)).to_be_visible()


async def test_an_archive_under_way_shows_its_progress(
    site: Site, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "big", desired_state="STANDBY")
    await site.arrives(api, workspace["id"], "STANDBY")
    may_end = asyncio.Event()
    archive = site.storage.archive

    async def slowly(home: object, volume_id: object, op_id: UUID, report: object, may_commit: object) -> str:
        # Not by `report`: how fast that is depends on the machine.
        progress = Progress("archive", 50_000_000, 200_000_000, 25_000_000.0, 6.0)
        await site.world.controller.write_progress({UUID(workspace["id"]): (op_id, progress)}, [])
        await may_end.wait()
        return await archive(home, volume_id, op_id, report, may_commit)  # type: ignore[arg-type]

    monkeypatch.setattr(site.storage, "archive", slowly)
    page = await pages()
    await sign_in(page, site, "ann")
    await page.click(f"#s-{workspace['id']}")
    await page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Archive").click()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Archiving")
    await expect(page.locator(f"{row(workspace)} .note")).to_have_text(
        "50.0 MB of 200 MB · 25.0 MB/s · 6 s left"
    )
    await expect(page.locator(f"{row(workspace)} progress")).to_have_attribute("value", "25")
    may_end.set()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Archived")
    await page.locator(row(workspace)).get_by_role("button", name="Restore").click()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Running")


async def test_an_error_is_explained_and_recovered_from(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "broken")
    await site.arrives(api, workspace["id"], "RUNNING")
    await api.post(f"{API}/workspaces/{workspace['id']}:stop")
    await site.arrives(api, workspace["id"], "STANDBY")
    page = await pages()
    await sign_in(page, site, "ann")
    site.storage.lose_volume(UUID(workspace["id"]))
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Problem")
    await page.locator(row(workspace)).get_by_role("link", name="What happened?").click()
    await expect(page.get_by_role("heading", name="Files are missing")).to_be_visible()
    assert await serious(page) == []
    lossy = page.get_by_role("button", name="Continue without the lost files")
    await lossy.click()
    await expect(page.get_by_role("heading", name="Files are missing")).to_be_visible()
    await page.get_by_label("I understand").check()
    await lossy.click()
    await expect(page.locator(".ws-head .badge")).to_have_text("Asleep")
    await expect(page.locator(".timeline")).to_contain_text("ann accepted the loss")


async def test_a_workspace_shows_when_it_sleeps_and_stays_awake_when_asked(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", standby_ttl_seconds=3000)
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages()
    await sign_in(page, site, "ann")
    note = page.locator(f"{row(workspace)} .note")
    await expect(note).to_have_text(re.compile(r"^sleeps in 4\d min$"))
    await page.get_by_role("button", name="Keep awake 1 h 50 min").click()
    await expect(note).to_have_text(re.compile(r"^sleeps in 1 h 4\d min$"))
    await expect(page.get_by_role("button", name="Keep awake 1 h 50 min")).to_be_visible()
    button, menu = await box(page, f"#k-{workspace['id']}"), await box(page, f"#s-{workspace['id']}")
    assert button["y"] == menu["y"], "the row's buttons do not fit on one line"


async def test_a_workspace_that_sleeps_soon_shows_it_without_a_reload(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo", standby_ttl_seconds=3600)
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages()
    await sign_in(page, site, "ann")
    await expect(page.locator(f"{row(workspace)} .note:not(.soon)")).to_contain_text("sleeps in")
    object.__setattr__(site.parts, "sleep_warning_s", 3600.0)  # an hour is soon now
    await expect(page.locator(f"{row(workspace)} .note.soon")).to_contain_text("sleeps in")


async def test_two_people_cannot_see_each_other(site: Site, pages: Pages) -> None:
    anns, bobs = await pages(), await pages()
    await sign_in(anns, site, "ann")
    await sign_in(bobs, site, "bob")
    api = await site.browser("ann")
    workspace = await create(api, "anns-own")
    await anns.wait_for_selector(row(workspace))
    await bobs.goto(f"{site.address}/workspaces/{workspace['id']}")
    await expect(bobs.get_by_text("This belongs to somebody else.")).to_be_visible()
    await bobs.goto(f"{site.address}/")
    await expect(bobs.locator(".row")).to_have_count(0)


async def test_search_finds_rows_and_a_row_that_no_longer_matches_leaves(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    for name in ("alpha", "beta", "beta-two"):
        await create(api, name, desired_state="PENDING")
    page = await pages()
    await sign_in(page, site, "ann")
    steps = await page.evaluate("history.length")
    await page.get_by_role("searchbox").fill("beta")
    await expect(page.locator(".row")).to_have_count(2)
    await expect(page).to_have_url(f"{site.address}/?q=beta")
    assert await page.evaluate("history.length") == steps, "a search is no step back"
    await page.get_by_label("State").select_option("RUNNING")
    await expect(page.get_by_role("heading", name="No matches")).to_be_visible()
    await page.get_by_role("link", name="Show all").click()
    await expect(page.locator(".row")).to_have_count(3)


async def test_a_workspace_is_pinned_by_keyboard_and_moves_to_the_top_in_every_tab(
    site: Site, pages: Pages
) -> None:
    api = await site.browser("ann")
    older, newer = [await create(api, name, desired_state="PENDING") for name in ("older", "newer")]
    page, other = await pages(), await pages()
    await sign_in(page, site, "ann")
    await sign_in(other, site, "ann")
    for tab in (page, other):
        await expect(tab.locator(".row .name")).to_have_text(["newer", "older"])
        await expect(tab.locator("body[data-live]")).to_be_visible()
    await page.locator(f"{row(older)} summary").focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Pin to the top").and_(page.locator(f"{row(older)} button")).focus()
    await page.keyboard.press("Enter")
    for tab in (page, other):
        await expect(tab.locator(".row .name")).to_have_text(["older", "newer"])
        await expect(tab.locator(f"{row(older)} .pinned")).to_be_visible()
    await expect(page.locator(f"{row(older)} summary")).to_be_focused()
    await api.patch(f"{API}/workspaces/{newer['id']}", json={"pinned": True})
    await api.patch(f"{API}/workspaces/{older['id']}", json={"pinned": False})
    for tab in (page, other):
        await expect(tab.locator(".row .name")).to_have_text(["newer", "older"])
        await expect(tab.locator(f"{row(older)} .pinned")).to_have_count(0)
