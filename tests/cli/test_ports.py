"""`codehub ws ports`: what it lists, what it opens, and what it refuses."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.patience import PATIENCE_S, until
from tests.support.site import Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.origins import WorkspaceOrigins
from codehub.core.visibility import Visibility
from codehub.ports.instance_access import Command as Program

ORIGINS = WorkspaceOrigins("https", "ws.example.net", None)


@pytest.fixture
async def port_site() -> AsyncIterator[Site]:
    async with open_site(
        memory_world(), controlled=True, workspace_origins=ORIGINS, ports_ceiling=Visibility.PUBLIC
    ) as opened:
        yield opened
        await opened.clients.aclose()


@pytest.fixture
async def shell(port_site: Site, tmp_path: Path) -> Command:
    ann = await port_site.program("ann")
    token = ann.headers["Authorization"].removeprefix("Bearer ")
    made = await create(ann)
    await port_site.arrives(ann, made["id"], "RUNNING")
    return Command(tmp_path, {"url": port_site.address, "token": token})


async def test_what_listens_is_listed_with_its_address_and_opened(port_site: Site, shell: Command) -> None:
    assert "Nothing listens in demo" in (await shell("ws", "ports", "demo")).err
    (row,) = (await port_site.world.controller.changes(None)).workspaces
    async with asyncio.timeout(PATIENCE_S):
        async with port_site.instance_access.exec(row.id, Program(("serve", "3000", ""))) as session:
            assert await session.output.read() == b"ready\n"

            async def is_listed() -> bool:
                return bool((await shell("ws", "ports", "demo", "--json")).json)

            await until(is_listed)
            url = f"https://3000-{row.label}.ws.example.net/"
            listed = await shell("ws", "ports", "demo")
            assert [cell for cell in ("3000", "serve", "you alone", url) if cell not in listed.out] == []
            opened = await shell("ws", "ports", "demo", "--open", "3000", "--no-browser")
            assert (opened.code, opened.out) == (0, f"{url}\n")
            silent = await shell("ws", "ports", "demo", "--open", "3001", "--no-browser")
            assert (silent.code, "Nothing listens on port 3001" in silent.err) == (4, True)


async def test_a_port_is_let_others_into_for_a_time_and_made_private(shell: Command) -> None:
    shared = await shell("ws", "ports", "demo", "--share", "3000", "public", "--until", "2h")
    assert (shared.code, "anybody, until" in shared.out) == (0, True), shared.err
    (item,) = (await shell("ws", "ports", "demo", "--json")).json
    assert (item["port"], item["visibility"], item["process"]) == (3000, "public", None)
    day = await shell("ws", "ports", "demo", "--share", "3000", "signed-in", "--until", "2099-01-01T00:00")
    assert "everybody signed in, until 2099-01-01 00:00" in day.out
    assert (await shell("ws", "ports", "demo", "--share", "3000", "private")).code == 0
    assert (await shell("ws", "ports", "demo", "--json")).json == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--share", "0", "private"),
        ("--share", "http", "private"),
        ("--share", "3000", "everybody"),
        ("--share", "3000", "public"),
        ("--share", "3000", "public", "--until", "soon"),
        ("--share", "3000", "public", "--until", "2020-01-01"),
        ("--until", "2h"),
        ("--open", "70000"),
    ],
)
async def test_what_makes_no_sense_is_refused(shell: Command, arguments: tuple[str, ...]) -> None:
    refused = await shell("ws", "ports", "demo", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err
