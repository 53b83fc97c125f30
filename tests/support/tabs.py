"""A tab in a real browser, and who sits in front of it: while they type, or a
program prints, their workspace stays awake, and then it sleeps.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from playwright.async_api import Page, expect
from tests.support.ides import browser
from tests.support.patience import PATIENCE_S, until
from tests.support.program import Running

TTL_S = 20
AWAKE_S = TTL_S + 15
"""What is seen to run for that long runs because something keeps it awake."""
LOADS_S_MAX = 3600
"""Its time to live until its IDE is drawn: until then a tab does
nothing that counts, however long a slow machine takes.
"""
GRACE_S = 10
"""So long it is kept awake when its time to live becomes short: what was done before may not be recorded
yet.
"""
PASSWORD = "correct horse"


@dataclass
class Owner:
    """Somebody with a session, and one workspace."""

    client: httpx.AsyncClient
    workspace: str

    async def phase(self) -> str:
        answer = await self.client.get(self.workspace)
        answer.raise_for_status()
        shown: dict[str, Any] = answer.json()
        return str(shown["phase"]) if shown["operation"] == "NONE" else str(shown["operation"])

    async def arrives(self, phase: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (now := await self.phase()) != phase:
            assert time.monotonic() < deadline, now
            await asyncio.sleep(0.2)

    async def sleeps_when_unused(self) -> None:
        """From now on, in a moment."""
        (await self.client.post(f"{self.workspace}:keep_awake", json={"seconds": GRACE_S})).raise_for_status()
        changed = await self.client.patch(self.workspace, json={"standby_ttl_seconds": TTL_S})
        changed.raise_for_status()

    async def starts(self) -> int:
        """How often it was started so far."""
        events = (await self.client.get(f"{self.workspace}/events", params={"limit": 200})).json()["items"]
        return sum(event["to"] == "STARTING" for event in events)


async def sit_before_a_tab(
    server: Running,
    home_of: Callable[[UUID], Path],
    open_terminal: Callable[[Page], Awaitable[None]],
    picture: Path,
) -> None:
    """Open a sleeping workspace, type into its terminal for longer than its time to live,
    let a program print there for as long, and go away from the open tab.

    It runs for as long as somebody types or something prints, sleeps
    although the tab is open, and is not woken by the tab's retries.
    """
    async with (
        httpx.AsyncClient(base_url=f"{server.address}/api/v1", timeout=PATIENCE_S) as client,
        browser() as context,
    ):
        signed_in = await client.post("/login", json={"username": "admin", "password": PASSWORD})
        wanted = {"name": "demo", "desired_state": "STANDBY", "standby_ttl_seconds": LOADS_S_MAX}
        workspace_id = (await client.post("/workspaces", json=wanted)).json()["id"]
        owner = Owner(client, f"/workspaces/{workspace_id}")
        await owner.arrives("STANDBY")
        session = signed_in.cookies["codehub_session"]
        await context.add_cookies([{"name": "codehub_session", "value": session, "url": server.address}])
        page = await context.new_page()
        refused = _refusals(page)
        shown = await page.goto(f"{server.address}/w/{workspace_id}/", wait_until="commit")
        assert shown is not None
        assert shown.headers["x-codehub-page"] == "waking", "a page that leads on by itself"
        await open_terminal(page)
        answer = home_of(UUID(workspace_id)) / "answer"
        await page.keyboard.type("echo $((6 * 7)) | tee answer\n")
        await until(lambda: answer.exists() and answer.read_text() == "42\n", seconds=PATIENCE_S)
        await page.screenshot(path=picture)
        metered = (await client.get(f"{server.address}/metrics")).text
        assert 'codehub_ide_pages_total{outcome="inserted"}' in metered, "the script is in this tab"
        await owner.sleeps_when_unused()

        began = time.monotonic()
        while time.monotonic() - began < GRACE_S + AWAKE_S:
            await page.keyboard.type("echo typing is work\n", delay=50)
            assert await owner.phase() == "RUNNING"

        printed = answer.with_name("printed")
        await page.keyboard.type(f"for i in $(seq {AWAKE_S}); do date; sleep 1; done; touch printed\n")
        async with asyncio.timeout(AWAKE_S + PATIENCE_S):
            while not printed.exists():
                assert await owner.phase() == "RUNNING"
                await asyncio.sleep(0.5)

        await owner.arrives("STANDBY")
        await expect(page.locator("codehub-tab h2")).to_have_text("Asleep", timeout=PATIENCE_S * 1000)
        starts, retries = await owner.starts(), len(refused)
        await until(lambda: len(refused) >= retries + 2, seconds=PATIENCE_S)
        assert await owner.phase() == "STANDBY"
        assert await owner.starts() == starts


def _refusals(page: Page) -> list[str]:
    """Return a list that grows with each socket that is not let in."""
    refused: list[str] = []

    def hear(why: str) -> None:
        refused.append(why)

    page.on("websocket", lambda socket: socket.on("socketerror", hear))
    return refused
