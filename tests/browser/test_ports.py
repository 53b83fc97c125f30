"""The ports of a workspace on its page, in Chromium: they come and go by themselves, a choice opens one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from tests.browser.conftest import Pages
from tests.support.chromium import sign_in
from tests.support.patience import until
from tests.support.site import API, Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.origins import WorkspaceOrigins
from codehub.core.visibility import Visibility
from codehub.ports.instance_access import Command

ORIGINS = WorkspaceOrigins("http", "localhost", 8000)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site(
        memory_world(), controlled=True, workspace_origins=ORIGINS, ports_ceiling=Visibility.PUBLIC
    ) as opened:
        yield opened
        await opened.clients.aclose()


@asynccontextmanager
async def serving(site: Site, workspace_id: str, port: int) -> AsyncIterator[None]:
    async with site.instance_access.exec(UUID(workspace_id), Command(("serve", str(port), ""))) as session:
        assert await session.output.read() == b"ready\n"
        yield


@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
async def test_ports_come_and_go_by_themselves_and_a_choice_lets_others_in(
    site: Site, pages: Pages, locale: str
) -> None:
    ann = await site.browser()
    made = await create(ann, standby_ttl_seconds=3600)
    await site.arrives(ann, made["id"], "RUNNING")
    page = await pages(locale=locale)
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/workspaces/{made['id']}")
    await page.wait_for_selector("#ports .faint")
    async with serving(site, made["id"], 3000), serving(site, made["id"], 8080):
        label = (await site.world.api.get(UUID(made["id"]))).label
        link = page.locator(f'#ports a[href="http://3000-{label}.localhost:8000/"]')
        await link.wait_for()
        await page.select_option("#port-3000", "signed-in")

        async def is_shared() -> bool:
            items = (await ann.get(f"{API}/workspaces/{made['id']}/ports")).json()["items"]
            return bool(items) and items[0]["visibility"] == "signed-in"

        await until(is_shared)
        await page.select_option("#port-8080", "public:3600")
        await page.wait_for_selector("#ports time")
    await page.wait_for_function('() => !document.querySelector("#ports").textContent.includes("serve")')
