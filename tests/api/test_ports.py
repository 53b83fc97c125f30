"""Ports over the API: what listens is listed, and its owner lets others in, under the operator's ceiling."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.conftest import Servers
from tests.support.patience import PATIENCE_S, until
from tests.support.site import API, Site, create, open_site
from tests.support.stores import PostgresWorld

from codehub.core.access import Role, Scope
from codehub.core.origins import WorkspaceOrigins
from codehub.core.visibility import Visibility
from codehub.ports.instance_access import Command

ORIGINS = WorkspaceOrigins("https", "ws.example.net", None)


@pytest.fixture(scope="module")
async def opened_port_site(servers: Servers) -> AsyncIterator[Site]:
    async with (
        PostgresWorld.opened(await servers("postgres-18")) as world,
        open_site(
            world, controlled=True, workspace_origins=ORIGINS, ports_ceiling=Visibility.PUBLIC
        ) as opened,
    ):
        yield opened


@pytest.fixture
async def port_site(opened_port_site: Site) -> AsyncIterator[Site]:
    """Workspaces have origins of their own here. Each test has people of its own."""
    opened_port_site.forget()
    yield opened_port_site
    await opened_port_site.clients.aclose()


async def running(site: Site, client: httpx.AsyncClient) -> str:
    workspace = await create(client)
    await site.arrives(client, workspace["id"], "RUNNING")
    return str(workspace["id"])


@asynccontextmanager
async def server(site: Site, workspace_id: str, port: int) -> AsyncIterator[None]:
    """Listen on a port of a workspace."""
    command = Command(("serve", str(port), ""))
    async with asyncio.timeout(PATIENCE_S):
        async with site.instance_access.exec(UUID(workspace_id), command) as session:
            assert await session.output.read() == b"ready\n"
            yield


async def ports_of(client: httpx.AsyncClient, workspace_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"{API}/workspaces/{workspace_id}/ports")
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def put(client: httpx.AsyncClient, workspace_id: str, port: int, **body: Any) -> httpx.Response:
    return await client.put(f"{API}/workspaces/{workspace_id}/ports/{port}", json=body)


async def test_what_listens_is_listed_with_its_own_origin_while_it_does(port_site: Site) -> None:
    ann = await port_site.program()
    workspace_id = await running(port_site, ann)
    label = (await port_site.world.api.get(UUID(workspace_id))).label
    assert await ports_of(ann, workspace_id) == []

    async def listed() -> bool:
        return bool(await ports_of(ann, workspace_id))

    async with server(port_site, workspace_id, 3000):
        await until(listed)
        assert await ports_of(ann, workspace_id) == [
            {
                "port": 3000,
                "process": "serve",
                "url": f"https://3000-{label}.ws.example.net/",
                "visibility": "private",
                "expires_at": None,
            }
        ]

    async def is_gone() -> bool:
        return not await listed()

    await until(is_gone)


async def test_a_port_is_opened_listed_and_made_private_again(port_site: Site) -> None:
    ann = await port_site.program()
    workspace_id = (await create(ann, desired_state="PENDING"))["id"]
    end = (datetime.now(UTC) + timedelta(hours=2)).replace(microsecond=0)
    opened = await put(ann, workspace_id, 3000, visibility="public", expires_at=end.isoformat())
    assert opened.status_code == 200, opened.text
    assert (opened.json()["visibility"], opened.json()["process"]) == ("public", None)
    assert opened.json()["expires_at"].startswith(end.strftime("%Y-%m-%dT%H:%M:%S"))
    assert await ports_of(ann, workspace_id) == [opened.json()]
    closed = await ann.delete(f"{API}/workspaces/{workspace_id}/ports/3000")
    assert (closed.status_code, closed.json()["visibility"]) == (200, "private")
    assert await ports_of(ann, workspace_id) == []
    history = (await ann.get(f"{API}/workspaces/{workspace_id}/events")).json()["items"]
    assert [line["reason"] for line in history[:2]] == ["PortMadePrivate", "PortSharedUntil"]
    assert history[1]["actor"].endswith("ann")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"visibility": "public"}, "expires_at"),
        ({"visibility": "public", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"visibility": "everybody"}, "visibility"),
        ({"visibility": "shared", "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({}, "visibility"),
        ({"visibility": "shared", "more": 1}, "more"),
    ],
)
async def test_what_is_no_wish_for_a_port_is_refused(
    port_site: Site, body: dict[str, Any], field: str
) -> None:
    ann = await port_site.program()
    workspace_id = (await create(ann, desired_state="PENDING"))["id"]
    refused = await put(ann, workspace_id, 3000, **body)
    assert refused.status_code == 422
    assert field in {detail["field"].removeprefix("body.") for detail in refused.json()["error"]["details"]}
    for port in (0, 65_536):
        assert (await put(ann, workspace_id, port, visibility="shared")).status_code == 422


async def test_above_the_operators_ceiling_nothing_is_opened_and_the_bound_is_told(
    port_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await port_site.program()
    workspace_id = (await create(ann, desired_state="PENDING"))["id"]
    public = {"visibility": "public", "expires_at": "2100-01-01T00:00:00Z"}
    assert (await put(ann, workspace_id, 80, **public)).status_code == 200
    monkeypatch.setattr(port_site.parts.ports, "ceiling", Visibility.SIGNED_IN)
    refused = await put(ann, workspace_id, 3000, **public)
    assert refused.status_code == 422
    assert refused.json()["error"]["details"][0]["max"] == "signed-in"
    assert (await put(ann, workspace_id, 3000, visibility="signed-in")).status_code == 200
    # One that was opened before the ceiling was lowered is no wider than that now.
    assert [port["visibility"] for port in await ports_of(ann, workspace_id)] == ["signed-in"] * 2


async def test_who_may_not_see_a_workspace_sees_none_of_its_ports_and_only_its_owner_opens_one(
    port_site: Site,
) -> None:
    ann, bob = await port_site.program(), await port_site.program("bob")
    admin, reader = await port_site.program("root", Role.ADMIN), await port_site.program(scope=Scope.READ)
    workspace_id = (await create(ann, desired_state="PENDING"))["id"]
    assert (await bob.get(f"{API}/workspaces/{workspace_id}/ports")).status_code == 403
    for stranger in (bob, admin, reader):
        assert (await put(stranger, workspace_id, 3000, visibility="shared")).status_code == 403
    assert (await put(ann, workspace_id, 3000, visibility="shared")).status_code == 200
    assert [port["port"] for port in await ports_of(admin, workspace_id)] == [3000]
    assert (await put(admin, workspace_id, 3000, visibility="private")).status_code == 200
    assert await ports_of(reader, workspace_id) == []


async def test_without_origins_there_are_no_ports_and_it_is_told_why(site: Site) -> None:
    ann = await site.program()
    workspace_id = (await create(ann, desired_state="PENDING"))["id"]
    for answer in (
        await ann.get(f"{API}/workspaces/{workspace_id}/ports"),
        await put(ann, workspace_id, 3000, visibility="shared"),
        await ann.delete(f"{API}/workspaces/{workspace_id}/ports/3000"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "INVALID_STATE")
        assert "CODEHUB_WORKSPACE_HOST" in answer.json()["error"]["message"]
