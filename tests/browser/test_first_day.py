"""The whole story in Chromium, against `codehub up`: PostgreSQL, sandboxed JupyterLab, archives on disk."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Page, expect
from tests.browser.conftest import Pages
from tests.support.patience import block_until, until
from tests.support.program import running

PASSWORD = "correct horse battery"
IDE_MS_MAX = 120_000
MOVES_MS_MAX = 240_000
"""For what packs or unpacks the 150 MB that are in the home."""
LOOK_S = 0.005
PACKED_BYTES = 20_000_000


async def signed_in_for_the_first_time(page: Page, address: str) -> None:
    await page.goto(address)
    await page.get_by_label("Name").fill("admin")
    await page.get_by_label("Password").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("The name or the password is wrong.")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Your first workspace")).to_be_visible()


async def created_and_come_up(page: Page) -> None:
    await page.get_by_role("link", name="New workspace").first.click()
    await page.get_by_label("Name").fill("thesis")
    await page.get_by_role("radio", name="jupyterlab").check()
    await page.get_by_role("button", name="Create and start").click()
    await is_shown(page, "Running")


async def opened_and_used(page: Page) -> str:
    """Return where the IDE is."""
    async with page.context.expect_page() as page_info:
        await page.get_by_role("link", name="Open", exact=True).click()
    ide = await page_info.value
    await ide.wait_for_selector("#jp-main-dock-panel", timeout=IDE_MS_MAX)
    await ide.click('.jp-LauncherCard[data-category="Other"][title*="terminal"]', timeout=IDE_MS_MAX)
    await ide.wait_for_selector(".jp-Terminal .xterm-screen", timeout=IDE_MS_MAX)
    await ide.click(".jp-Terminal .xterm-screen")
    await ide.keyboard.type("head -c 150000000 /dev/urandom > big; echo $((6 * 7)) > answer.txt\n")
    await expect(ide.locator('.jp-DirListing-item[title*="answer"]')).to_be_visible(timeout=IDE_MS_MAX)
    await expect(ide.get_by_text("news")).to_have_count(0)
    entry = ide.url.split("/lab")[0] + "/"
    await ide.close()
    return entry


async def woken_by_a_visit(page: Page, entry: str) -> None:
    await page.get_by_role("button", name="Put to sleep").click()
    await is_shown(page, "Asleep")
    visitor = await page.context.new_page()
    response = await visitor.goto(f"{entry}api/contents/answer.txt", wait_until="commit")
    assert response is not None
    assert response.headers["x-codehub-page"] == "waking"
    await has_the_answer(visitor)
    await visitor.close()
    await is_shown(page, "Running")


async def archived_and_restored_by_a_visit(page: Page, entry: str, homes: Path) -> None:
    await page.get_by_role("button", name="Put to sleep").click()
    await is_shown(page, "Asleep")
    halting = asyncio.create_task(asyncio.to_thread(halted_in_the_middle, homes))
    await page.get_by_role("button", name="Archive").click()
    tar = await halting
    await expect(page.locator(".under-way .moved")).to_contain_text("MB of 15", timeout=IDE_MS_MAX)
    os.kill(tar, signal.SIGCONT)
    await is_shown(page, "Archived", MOVES_MS_MAX)
    visitor = await page.context.new_page()
    await visitor.goto(entry)
    await visitor.get_by_role("button", name="Restore and open").click()
    await visitor.wait_for_url("**/lab**", timeout=MOVES_MS_MAX, wait_until="commit")
    await visitor.goto(f"{entry}api/contents/answer.txt")
    await has_the_answer(visitor)
    await visitor.close()
    await is_shown(page, "Running")
    await expect(page.locator("#logs pre")).not_to_be_empty()


async def deleted_and_taken_back(page: Page) -> None:
    await page.get_by_role("link", name="codehub").click()
    await page.get_by_label("More for thesis").click()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.locator(".toast")).to_contain_text("goes to the trash")
    await expect(page.locator(".row")).to_have_count(0, timeout=MOVES_MS_MAX)
    await page.get_by_role("link", name="Trash").click()
    await page.get_by_role("button", name="Undo deletion").click()
    await expect(page.get_by_role("heading", name="The trash is empty")).to_be_visible()
    await page.get_by_role("link", name="codehub").click()
    await expect(page.locator(".row .badge")).to_have_text("Archived", timeout=IDE_MS_MAX)


async def is_shown(page: Page, state: str, ms_max: float = IDE_MS_MAX) -> None:
    await expect(page.locator(".ws-head .badge")).to_have_text(state, timeout=ms_max)


async def has_the_answer(visitor: Page) -> None:
    """What was typed is there, as Jupyter itself tells."""
    await expect(visitor.locator("body")).to_contain_text('"content": "42\\n"', timeout=IDE_MS_MAX)


def halted_in_the_middle(homes: Path) -> int:
    """Stop the tar that packs a home when some of it is packed: a quick one would be done too soon."""
    tar = block_until(lambda: packing(homes), tick_s=LOOK_S)

    def is_halted() -> bool:
        os.kill(tar, signal.SIGSTOP)
        counters = Path(f"/proc/{tar}/io").read_text().split()
        if int(counters[counters.index("wchar:") + 1]) >= PACKED_BYTES:
            return True
        os.kill(tar, signal.SIGCONT)
        return False

    block_until(is_halted, tick_s=LOOK_S)
    return tar


def packing(homes: Path) -> int | None:
    """Return the tar that packs a home here: in its sandbox nothing but what is mounted there tells which."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program, *arguments = (entry / "cmdline").read_bytes().split(b"\0")
            sees = (entry / "mountinfo").read_bytes() + b"".join(arguments)
            if program.endswith(b"tar") and b"--create" in arguments and os.fsencode(homes) in sees:
                return int(entry.name)
    return None


async def test_the_first_day_works_from_the_first_sign_in_to_undo(tmp_path: Path, pages: Pages) -> None:
    with running(tmp_path / "data", initial_admin_password=PASSWORD, standby_ttl_seconds="3600") as server:
        page = await pages()
        await signed_in_for_the_first_time(page, server.address)
        await created_and_come_up(page)
        entry = await opened_and_used(page)
        await woken_by_a_visit(page, entry)
        await archived_and_restored_by_a_visit(page, entry, tmp_path)
        await deleted_and_taken_back(page)

        async def everything_answers() -> bool:
            await page.goto(f"{server.address}/admin/health")
            return await page.get_by_text("Everything answers").is_visible()

        await until(everything_answers)
