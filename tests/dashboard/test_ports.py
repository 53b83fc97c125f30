"""The list of ports on a workspace's page: what listens, whom it is for, and what a choice there does."""

import asyncio
import re
from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import pytest
from tests.support.forms import post
from tests.support.patience import PATIENCE_S, until
from tests.support.site import API, Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role
from codehub.core.origins import WorkspaceOrigins
from codehub.core.visibility import Visibility
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instance_access import Command

ORIGINS = WorkspaceOrigins("http", "localhost", 8000)
PARTIAL = {"HX-Request": "true", "HX-Target": "ports"}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site(
        memory_world(), controlled=True, workspace_origins=ORIGINS, ports_ceiling=Visibility.PUBLIC
    ) as opened:
        yield opened
        await opened.clients.aclose()


async def running(site: Site, client: httpx.AsyncClient) -> str:
    workspace = await create(client)
    await site.arrives(client, workspace["id"], "RUNNING")
    return f"/workspaces/{workspace['id']}"


async def text_of(client: httpx.AsyncClient, place: str) -> str:
    answer = await client.get(f"{place}/ports", headers=PARTIAL)
    assert answer.status_code == 200
    return answer.text


async def test_the_page_lists_what_listens_and_leads_there(site: Site) -> None:
    ann = await site.browser()
    place = await running(site, ann)
    assert f'hx-get="{place}/ports"' in (await ann.get(place)).text
    assert "Nothing listens now" in await text_of(ann, place)
    workspace_id = UUID(place.rpartition("/")[2])
    label = (await site.world.api.get(workspace_id)).label
    async with asyncio.timeout(PATIENCE_S):
        async with site.instance_access.exec(workspace_id, Command(("serve", "3000", ""))) as session:
            assert await session.output.read() == b"ready\n"

            async def is_listed() -> bool:
                return f'href="http://3000-{label}.localhost:8000/"' in await text_of(ann, place)

            await until(is_listed)
            assert ">serve<" in await text_of(ann, place)


async def test_a_choice_says_whom_a_port_is_for(site: Site) -> None:
    ann = await site.browser()
    place = await running(site, ann)
    chosen = await post(ann, site, f"{place}/ports", PARTIAL, port="3000", visibility="public:3600")
    assert chosen.status_code == 200
    assert re.search(r'<option value="public" selected disabled>', chosen.text)
    assert "<time" in chosen.text
    chosen = await post(ann, site, f"{place}/ports", port="3000", visibility="signed-in")
    assert (chosen.status_code, chosen.headers["location"]) == (303, place)
    assert re.search(r'<option value="signed-in" selected>', await text_of(ann, place))
    await post(ann, site, f"{place}/ports", PARTIAL, port="3000", visibility="private")
    assert "Nothing listens now" in await text_of(ann, place)


@pytest.mark.parametrize(
    ("port", "visibility"),
    [
        ("0", "private"),
        ("65536", "private"),
        ("x", "private"),
        ("1" * 30, "private"),
        ("3000", "public"),
        ("3000", ""),
    ],
)
async def test_what_the_list_does_not_offer_is_refused(site: Site, port: str, visibility: str) -> None:
    ann = await site.browser()
    place = await running(site, ann)
    assert (await post(ann, site, f"{place}/ports", port=port, visibility=visibility)).status_code == 400


async def test_above_the_ceiling_nothing_is_offered_and_what_was_refused_is_said(site: Site) -> None:
    ann = await site.browser()
    place = await running(site, ann)
    site.parts.ports.ceiling = Visibility.PRIVATE
    answer = await post(ann, site, f"{place}/ports", PARTIAL, port="3000", visibility="signed-in")
    assert "the most that is allowed here is private" in answer.text


async def test_an_admin_sees_ports_and_closes_them_but_opens_none(site: Site) -> None:
    ann, root = await site.browser(), await site.browser("root", Role.ADMIN)
    place = await running(site, ann)
    await post(ann, site, f"{place}/ports", port="3000", visibility="signed-in")
    assert '<option value="public' not in await text_of(root, place)
    assert (await post(root, site, f"{place}/ports", port="80", visibility="signed-in")).status_code == 403
    assert (await post(root, site, f"{place}/ports", port="3000", visibility="private")).status_code == 303
    assert "3000" not in await text_of(ann, place)


async def test_while_the_backend_is_away_that_is_said_and_nothing_fails(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_workspace_id: UUID) -> None:
        raise BackendUnreachable("away")

    ann = await site.browser()
    place = await running(site, ann)
    monkeypatch.setattr(site.instance_access, "listening", away)

    async def is_answered() -> bool:
        return "does not answer" in await text_of(ann, place)

    await until(is_answered)
    assert (await ann.get(f"{API}{place}/ports")).status_code == 503


async def test_without_origins_a_page_has_no_list_of_ports() -> None:
    async with open_site(memory_world(), controlled=True) as site:
        ann = await site.browser()
        place = await running(site, ann)
        assert "ports" not in (await ann.get(place)).text
        assert "CODEHUB_WORKSPACE_HOST" in await text_of(ann, place)
        await site.clients.aclose()
