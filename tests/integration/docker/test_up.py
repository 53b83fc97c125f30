"""`codehub up` on what people run, as they use it: with curl, and with a browser that has a tab open in a real code-server."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page
from tests.support.curl import CURL, Curl, go_round
from tests.support.docker import BASE, CODE_SERVER, DOCKER, NO_CODE_SERVER, Docker, TestEngine
from tests.support.edge import until
from tests.support.ides import CHROMIUM, browser
from tests.support.program import Running, running
from tests.support.redis import REDIS, running_redis
from tests.support.s3 import S3, running_s3, told

PATIENCE_S = 90.0
TTL_S = 20
PASSWORD = "correct horse"
pytestmark = [
    *DOCKER,
    S3,
    REDIS,
    NO_CODE_SERVER,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)"),
]


@pytest.fixture
async def engine(docker: Docker) -> TestEngine:
    engine = await docker()
    engine.build_code_server()
    return engine


@pytest.fixture
async def server(engine: TestEngine, tmp_path: Path) -> AsyncIterator[Running]:
    """Workspaces in containers with code-server, archives in S3, hints by Redis; the rest as it comes."""
    async with running_s3() as s3, running_redis() as redis:
        bucket = await s3.new_bucket()
        with ExitStack() as stack:
            stack.enter_context(told({"DOCKER_HOST": engine.url, **s3.environment()}))
            started = running(
                tmp_path / "data",
                initial_admin_password=PASSWORD,
                instance_backend="local-docker",
                archive_url=f"s3://{bucket}/archives",
                redis_url=redis.url,
                helper_image=BASE,
                workspace_image=CODE_SERVER,
                ide="code-server",
            )
            yield stack.enter_context(started)
            for each in engine.ask("GET", "containers/json", all=1):
                if each["Image"] == CODE_SERVER and "codehub.install" in each["Labels"]:
                    engine.remove_labelled(each["Labels"]["codehub.install"])


@CURL
def test_with_curl_alone_a_workspace_goes_round_the_whole_circle(server: Running, tmp_path: Path) -> None:
    go_round(Curl(server, tmp_path / "jar"))


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

    async def starts(self) -> int:
        """How often it was started so far."""
        events = (await self.client.get(f"{self.workspace}/events", params={"limit": 200})).json()["items"]
        return sum(event["to"] == "STARTING" for event in events)


async def test_a_person_who_types_keeps_it_awake_and_a_forgotten_tab_neither_keeps_nor_wakes_it(
    server: Running, engine: TestEngine, tmp_path: Path
) -> None:
    async with (
        httpx.AsyncClient(base_url=f"{server.address}/api/v1", timeout=30) as client,
        browser() as context,
    ):
        signed_in = await client.post("/login", json={"username": "admin", "password": PASSWORD})
        made = await client.post(
            "/workspaces",
            json={"name": "demo", "desired_state": "STANDBY", "standby_ttl_seconds": TTL_S},
        )
        owner = Owner(client, f"/workspaces/{made.json()['id']}")
        await owner.arrives("STANDBY")
        session = signed_in.cookies["codehub_session"]
        await context.add_cookies([{"name": "codehub_session", "value": session, "url": server.address}])
        page = await context.new_page()
        refused: list[str] = []

        def hear(why: str) -> None:
            refused.append(why)

        page.on("websocket", lambda socket: socket.on("socketerror", hear))
        await page.goto(f"{server.address}/w/{made.json()['id']}/")
        assert "demo is waking up" in await page.title()
        await open_terminal(page)
        answer = engine.path_of(f"ws-{made.json()['id']}-home") / "answer"
        await page.keyboard.type("echo $((6 * 7)) | tee answer\n")
        await until(lambda: answer.exists() and answer.read_text() == "42\n", seconds=PATIENCE_S)
        await page.screenshot(path=tmp_path / "code-server.png")

        began = time.monotonic()
        while time.monotonic() - began < 2 * TTL_S:
            await page.keyboard.type("echo typing is work\n", delay=50)
            assert await owner.phase() == "RUNNING"

        await owner.arrives("STANDBY")
        starts = await owner.starts()
        retried = len(refused)
        await until(lambda: len(refused) >= retried + 2, seconds=PATIENCE_S)
        assert await owner.phase() == "STANDBY"
        assert await owner.starts() == starts


async def open_terminal(page: Page) -> None:
    await page.wait_for_selector(".monaco-workbench", timeout=PATIENCE_S * 1000)
    await page.click("text=Yes, I trust the authors", timeout=PATIENCE_S * 1000)
    await page.wait_for_selector(".explorer-viewlet", timeout=PATIENCE_S * 1000)
    await page.keyboard.press("Control+Backquote")
    await page.wait_for_selector(".terminal-wrapper.active .xterm-screen", timeout=PATIENCE_S * 1000)
    await page.click(".terminal-wrapper.active .xterm-screen")
