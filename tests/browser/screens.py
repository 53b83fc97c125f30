"""The pictures in docs/screens: `make screens`. Every screen once,
over a system in memory, as somebody would find it.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import structlog
from playwright.async_api import Browser, Page
from tests.proxy.test_tab_browser import Tab, opened, world
from tests.support.chromium import chromium_running, sign_in, watched_page
from tests.support.edge import answer_ok
from tests.support.hub import Hub, hub
from tests.support.ides import running_jupyterlab
from tests.support.patience import until
from tests.support.site import API, Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.origins import WorkspaceOrigins
from codehub.core.progress import Progress
from codehub.core.visibility import Visibility
from codehub.ports.instance_access import Listener
from codehub.proxy.policy.gate import GateRules

BYTES_MAX = 150_000
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
WORKSPACES = (
    ("payments-api", "Payments service, Python 3.12", "RUNNING", 1),
    ("notebooks", "Forecasts for the winter", "RUNNING", 2),
    ("lectures", "Slides for the autumn term", "STANDBY", 60 * 3),
    ("thesis", "LaTeX and figures", "STANDBY", 60 * 5),
    ("old-homepage", None, "ARCHIVED", 60 * 24 * 12),
    ("sandbox", "Try things here", "PENDING", None),
)
LISTENS = (Listener(3000, "node"), Listener(8000, "uvicorn"))
SOURCE = """# Mean of a stream of numbers, without keeping them
def mean(numbers):
    total = count = 0
    for number in numbers:
        total += number
        count += 1
    return total / count if count else None
"""


@dataclass
class Studio:
    """Somebody's system, and a camera."""

    browser: Browser
    site: Site
    folder: Path
    complaints: list[str]

    @asynccontextmanager
    async def page(self, name: str = "ann", **options: Any) -> AsyncIterator[Page]:
        async with watched_page(self.browser, self.complaints, **options) as page:
            await sign_in(page, self.site, name)
            yield page

    async def shoot(self, page: Page, name: str, *, whole: bool = False) -> None:
        await page.evaluate("document.fonts.ready")
        await page.screenshot(path=self.folder / f"{name}.png", full_page=whole, animations="disabled")


async def furnished(site: Site) -> dict[str, dict[str, Any]]:
    """Make what there is to see, and let it come to rest."""
    api = await site.browser("ann", Role.ADMIN)
    made = {}
    for name, description, state, _ago in reversed(WORKSPACES):
        made[name] = await create(
            api, name, description=description, desired_state=state, standby_ttl_seconds=3600
        )
    for name, _description, state, ago in WORKSPACES:
        await site.arrives(api, made[name]["id"], state)
        if ago is not None:
            await site.parts.workspaces.touch(
                {UUID(made[name]["id"]): datetime.now(UTC) - timedelta(minutes=ago)}
            )
    return made


async def break_one(site: Site) -> dict[str, Any]:
    api = await site.browser("ann", Role.ADMIN)
    made = await create(api, "crawler", description="Nightly crawl")
    await site.arrives(api, made["id"], "RUNNING")
    await api.post(f"{API}/workspaces/{made['id']}:stop")
    await site.arrives(api, made["id"], "STANDBY")
    site.storage.lose_volume(UUID(made["id"]))
    return await site.arrives(api, made["id"], "ERROR")


async def share_one(site: Site, workspace_id: str) -> None:
    """Let two programs listen, and anybody enter the second for a day."""

    async def listening(asked: UUID) -> tuple[Listener, ...]:
        return LISTENS if asked == UUID(workspace_id) else ()

    site.instance_access.listening = listening  # type: ignore[method-assign, assignment]
    api = await site.browser("ann", Role.ADMIN)
    ends = datetime.now(UTC) + timedelta(days=1)
    body = {"visibility": "public", "expires_at": ends.isoformat()}
    (await api.put(f"{API}/workspaces/{workspace_id}/ports/8000", json=body)).raise_for_status()


@asynccontextmanager
async def archiving(site: Site, workspace_id: str) -> AsyncIterator[None]:
    """Hold an archive half way."""
    may_end, archive = asyncio.Event(), site.storage.archive

    async def slowly(home: Any, volume_id: Any, op_id: UUID, report: Any, may_commit: Any) -> str:
        progress = Progress("archive", 734_000_000, 1_920_000_000, 61_000_000.0, 19.0)
        await site.world.controller.write_progress({UUID(workspace_id): (op_id, progress)}, [])
        await may_end.wait()
        return await archive(home, volume_id, op_id, report, may_commit)

    site.storage.archive = slowly  # type: ignore[method-assign]
    api = await site.browser("ann", Role.ADMIN)
    await api.post(f"{API}/workspaces/{workspace_id}:archive")
    try:
        yield
    finally:
        may_end.set()
        site.storage.archive = archive  # type: ignore[method-assign]


async def of_lists(studio: Studio, made: dict[str, dict[str, Any]]) -> None:
    async with studio.page() as page, archiving(studio.site, made["thesis"]["id"]):
        await page.wait_for_selector(f"#ws-{made['thesis']['id']} progress[value]")
        await studio.shoot(page, "list")
        async with studio.page(color_scheme="dark") as dark:
            await dark.wait_for_selector(f"#ws-{made['thesis']['id']} progress[value]")
            await studio.shoot(dark, "list-dark")
        async with studio.page(locale="ko-KR") as korean:
            await studio.shoot(korean, "list-korean")
        async with studio.page(**PHONE) as phone:
            await studio.shoot(phone, "phone-list", whole=True)
        await page.click(f"#s-{made['payments-api']['id']}")
        await studio.shoot(page, "menu")
        await page.goto(f"{studio.site.address}/workspaces/{made['thesis']['id']}")
        await page.wait_for_selector("#logs > *")
        await studio.shoot(page, "archiving")
        await page.goto(f"{studio.site.address}/")
        await page.wait_for_selector("body[data-live]")
        await page.context.set_offline(True)
        await page.wait_for_selector("#lost:not([hidden])")
        await studio.shoot(page, "offline")


async def of_one(studio: Studio, made: dict[str, dict[str, Any]], broken: dict[str, Any]) -> None:
    address = studio.site.address
    own = f"{address}/workspaces/{made['payments-api']['id']}"
    async with studio.page() as page:
        for name, place in (("workspace", own), ("problem", f"{address}/workspaces/{broken['id']}")):
            await page.goto(place)
            await page.wait_for_selector("#logs > *")
            await page.wait_for_selector("#ports > *")
            await studio.shoot(page, name, whole=name == "workspace")
        for name, place in (
            ("settings", f"{own}/settings"),
            ("new", f"{address}/new"),
            ("refused", f"{address}/workspaces/none"),
        ):
            await page.goto(place)
            await studio.shoot(page, name, whole=name != "refused")
    async with studio.page(**PHONE, color_scheme="dark", locale="ko-KR") as phone:
        await phone.goto(f"{address}/workspaces/{broken['id']}")
        await phone.wait_for_selector("#logs > *")
        await studio.shoot(phone, "phone-problem-korean-dark")
    async with studio.page(**PHONE, locale="ko-KR") as phone:
        await phone.goto(own)
        await phone.wait_for_selector("#ports time")
        await studio.shoot(phone, "phone-workspace-korean", whole=True)
        await phone.goto(f"{own}/settings")
        await studio.shoot(phone, "phone-settings-korean", whole=True)


async def of_people(studio: Studio) -> None:
    address = studio.site.address
    await studio.site.user("bob")
    async with studio.page("bob") as page:
        await studio.shoot(page, "empty")
    async with studio.page() as page:
        await page.goto(f"{address}/account")
        await page.get_by_label("Purpose").fill("ci")
        await page.get_by_role("button", name="Make a token").click()
        await page.wait_for_selector("#token")
        await page.evaluate("document.querySelector('#token').textContent = 'cht_' + '•'.repeat(39)")
        await studio.shoot(page, "account")
        await _ask_and_disable(studio, page)
        for name in ("workspaces", "health"):
            await page.goto(f"{address}/admin/{name}")
            await studio.shoot(page, f"admin-{name}")
    async with watched_page(studio.browser, studio.complaints) as page:
        await page.goto(f"{address}/login")
        await studio.shoot(page, "login")


async def _ask_and_disable(studio: Studio, page: Page) -> None:
    """As it goes without scripts, for the question is a page then."""
    await page.goto(f"{studio.site.address}/admin/users")
    await page.evaluate("document.querySelector('.people .bad[data-sure]').removeAttribute('data-sure')")
    await page.get_by_role("button", name="Disable bob").click()
    await page.get_by_role("heading", name="Are you sure?").wait_for()
    await studio.shoot(page, "sure")
    await page.get_by_role("button", name="Disable").click()
    await page.get_by_role("button", name="Undo").wait_for()
    await studio.shoot(page, "admin-users")


async def of_deletion(studio: Studio, made: dict[str, dict[str, Any]]) -> None:
    gone = made["old-homepage"]["id"]
    async with studio.page() as page:
        await page.click(f"#s-{gone}")
        await page.locator(f"#m-{gone}").get_by_role("button", name="Delete").click()
        await page.wait_for_selector(f"#ws-{gone}", state="detached")
        await studio.shoot(page, "undo")
        await page.goto(f"{studio.site.address}/trash")
        await studio.shoot(page, "trash")


async def of_the_proxy(browser: Browser, folder: Path) -> None:
    async with hub(boot_s=30.0, limits=Limits(per_user=1)) as made, watched_page(browser, []) as page:
        base = f"http://127.0.0.1:{made.address[1]}"
        made.edge.gate._rules = GateRules(frozenset({base}))  # type: ignore[attr-defined]
        await page.context.add_cookies([{"name": "codehub_session", "value": "anns-session", "url": base}])
        archived = await made.workspace(Phase.ARCHIVED, "old-homepage")
        sleeping = await made.workspace(Phase.STANDBY, "thesis")
        other = await made.workspace(Phase.STANDBY, "notebooks")
        for name, row in (("visit-archived", archived), ("visit-waking", sleeping), ("visit-limit", other)):
            await page.goto(f"{base}/w/{row.id}/")
            if name == "visit-waking":
                await _starting(made, row.id)
                await page.get_by_text("Starting…").wait_for()
            await page.screenshot(path=folder / f"{name}.png", animations="disabled")


async def of_a_problem(browser: Browser, folder: Path) -> None:
    async with hub() as made, watched_page(browser, []) as page:
        base = f"http://127.0.0.1:{made.address[1]}"
        await page.context.add_cookies([{"name": "codehub_session", "value": "anns-session", "url": base}])
        row = await made.workspace(Phase.RUNNING, "crawler")
        await made.service.set_wish(row.id, DesiredState.STANDBY, By("ann", verbatim("Asked to stop it.")))
        await made.arrives(row.id, Phase.STANDBY)
        made.storage.lose_volume(row.id)
        await made.arrives(row.id, Phase.ERROR)
        await page.goto(f"{base}/w/{row.id}/")
        await page.screenshot(path=folder / "visit-problem.png", animations="disabled")


async def of_a_tab(browser: Browser, folder: Path) -> None:
    """What our script says over an IDE that runs."""
    async with (
        world(answer_ok) as (made, activity, outcomes),
        watched_page(browser, []) as english,
        watched_page(browser, [], locale="ko-KR") as korean,
    ):
        row = await made.workspace(name="notebooks", ide="jupyterlab")
        with TemporaryDirectory() as directory:
            async with running_jupyterlab(Path(directory), f"/w/{row.id}/") as (upstream, home):
                (home / "mean.py").write_text(SOURCE)
                made.instances.served_by = upstream
                tabs = [
                    await opened(made, activity, outcomes, row, page.context, "lab/tree/mean.py")
                    for page in (english, korean)
                ]
                for tab in tabs:
                    await tab.page.locator(".cm-content >> text=total").first.wait_for()
                    await tab.page.get_by_role("button", name="No", exact=True).click()  # no news
                by = By("ann", verbatim("test"))
                await made.service.change(row.id, lambda _spec: {"standby_ttl_seconds": 10}, None, by)
                await _shoot_tab(tabs[0], "About to sleep", folder / "tab-warning.png")
                await tabs[0].wish(DesiredState.STANDBY)
                await _shoot_tab(tabs[0], "Asleep", folder / "tab-asleep.png")
                await _shoot_tab(tabs[1], "잠들었습니다", folder / "tab-asleep-korean.png")


async def _shoot_tab(tab: Tab, title: str, picture: Path) -> None:
    await tab.shows(title)
    await tab.page.screenshot(path=picture, animations="disabled")


async def _starting(made: Hub, workspace_id: UUID) -> None:
    async def has_begun() -> bool:
        return (await made.store.get(workspace_id)).status.operation != "NONE"

    await until(has_begun)


async def fine() -> None:
    """What every part of this system is."""


async def main(folder: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    checks = {"database": fine, "controller": fine}
    backends = {"local-process": fine, "local-dir": fine, "object-store": fine}
    async with (
        chromium_running() as browser,
        open_site(
            memory_world(),
            controlled=True,
            limits=Limits(per_user=4),
            checks=checks,
            backends=backends,
            workspace_origins=WorkspaceOrigins("http", "localhost", 8000),
            ports_ceiling=Visibility.PUBLIC,
        ) as site,
    ):
        await site.user("ann", Role.ADMIN)
        studio = Studio(browser, site, folder, [])
        made = await furnished(site)
        await share_one(site, made["payments-api"]["id"])
        broken = await break_one(site)
        await of_lists(studio, made)
        await of_one(studio, made, broken)
        await of_people(studio)
        await of_deletion(studio, made)
        await of_the_proxy(browser, folder)
        await of_a_problem(browser, folder)
        await of_a_tab(browser, folder)
        await site.clients.aclose()
        assert not studio.complaints, studio.complaints


def small_enough(folder: Path) -> None:
    for picture in sorted(folder.glob("*.png")):
        size = picture.stat().st_size
        assert size <= BYTES_MAX, f"{picture} has {size} bytes"


if __name__ == "__main__":
    goal = Path(sys.argv[1])
    goal.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(goal))
    small_enough(goal)
