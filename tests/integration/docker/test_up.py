"""`codehub up` on what people run, as they use it: with curl, by its
dashboard, and with a tab that is open in a real code-server.
"""

import re
from asyncio import Event
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from playwright.async_api import Page, expect
from tests.support.chromium import CHROMIUM, chromium_running, watched_page
from tests.support.curl import CURL, Curl, go_round
from tests.support.docker import BASE, CODE_SERVER, DOCKER, NO_CODE_SERVER, Docker, TestEngine, cache
from tests.support.patience import PATIENCE_S
from tests.support.program import Running, running
from tests.support.redis import REDIS, running_redis
from tests.support.registry import REGISTRY, running_registry, slow_line
from tests.support.s3 import S3, running_s3, set_environment
from tests.support.tabs import PASSWORD, sit_before_a_tab

from codehub.adapters.docker.volumes import home_name
from codehub.adapters.postgres.connect import Role, connect
from codehub.adapters.postgres.embedded import find_running

pytestmark = [
    DOCKER,
    S3,
    REDIS,
    NO_CODE_SERVER,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)"),
]

SHOWN_MS_MAX = PATIENCE_S * 1000
BALLAST_BYTES = 20_000_000
FETCHED = re.compile(r"Fetching the image · 1\d\.\d MB of 20\.\d MB")


@pytest.fixture(scope="module")
async def engine(docker: Docker) -> TestEngine:
    engine = await docker()
    engine.build_code_server()
    return engine


@pytest.fixture(scope="module")
async def server(engine: TestEngine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with up_on(engine, tmp_path_factory.mktemp("up") / "data") as started:
        yield started


@pytest.fixture
async def server_with_workers(engine: TestEngine, tmp_path: Path) -> AsyncIterator[Running]:
    async with up_on(engine, tmp_path / "data", proxy_workers="2") as started:
        yield started


@asynccontextmanager
async def up_on(engine: TestEngine, data: Path, **more: str) -> AsyncIterator[Running]:
    """Workspaces in containers with code-server, archives in S3, hints by Redis; the rest as it comes."""
    async with running_s3() as s3, running_redis() as redis:
        bucket = await s3.new_bucket()
        with ExitStack() as stack:
            stack.enter_context(set_environment({"DOCKER_HOST": engine.url, **s3.environment()}))
            started = running(
                data,
                initial_admin_password=PASSWORD,
                instance_backend="local-docker",
                archive_url=f"s3://{bucket}/archives",
                redis_url=redis.url,
                helper_image=BASE,
                workspace_image=CODE_SERVER,
                ide="code-server",
                **more,
            )
            yield stack.enter_context(started)
            installation = await installation_in(data)
        engine.remove_labelled(installation)


async def installation_in(data_dir: Path) -> str:
    """Return whose objects they are: other tests may have theirs on the same engine."""
    running_now = find_running(data_dir)
    assert running_now is not None
    with running_now:
        connection = await connect(running_now.connect_args, Role.API)
        try:
            return str(await connection.fetchval("SELECT id FROM installation"))
        finally:
            await connection.close()


async def test_a_person_who_types_keeps_it_awake_and_a_forgotten_tab_neither_keeps_nor_wakes_it(
    server: Running, engine: TestEngine, tmp_path: Path
) -> None:
    picture = tmp_path / "code-server.png"
    await sit_before_a_tab(
        server, lambda workspace_id: engine.path_of(home_name(workspace_id)), open_terminal, picture
    )


async def open_terminal(page: Page) -> None:
    await page.wait_for_selector(".monaco-workbench", timeout=SHOWN_MS_MAX)
    await page.click("text=Yes, I trust the authors", timeout=SHOWN_MS_MAX)
    await page.wait_for_selector(".explorer-viewlet", timeout=SHOWN_MS_MAX)
    await page.keyboard.press("Control+Backquote")
    await page.wait_for_selector(".terminal-wrapper.active .xterm-screen", timeout=SHOWN_MS_MAX)
    await page.click(".terminal-wrapper.active .xterm-screen")


@CURL
def test_with_curl_alone_a_workspace_goes_round_the_whole_circle_behind_two_workers(
    server_with_workers: Running, tmp_path: Path
) -> None:
    go_round(Curl(server_with_workers, tmp_path / "jar"))


@pytest.fixture
async def distant(engine: TestEngine, tmp_path: Path) -> AsyncIterator[tuple[str, Event]]:
    """Yield the name of an image with code-server that only a registry has, over a line
    that is slow from the middle of its layer on, and what makes it fast.
    """
    repository = "codehub-test/distant"
    engine.forget_images(f"*/{repository}")  # of a run that was killed
    dockerfile = f"FROM {CODE_SERVER}\nCOPY ballast /opt/ballast"
    # In the cache, and always the same bytes: the layers below are
    # packed and stored once, which takes a minute.
    async with (
        running_registry(tmp_path, storage=cache() / "test-registry") as registry,
        slow_line(registry, BALLAST_BYTES // 2) as (far_away, is_fast),
    ):
        engine.build(
            f"{registry}/{repository}:1", dockerfile, {"ballast": Random(1).randbytes(BALLAST_BYTES)}
        )
        engine.push(f"{registry}/{repository}:1")
        yield f"{far_away}/{repository}:1", is_fast
        engine.forget_images(f"*/{repository}")


@REGISTRY
async def test_by_the_dashboard_an_image_is_fetched_while_one_watches_and_code_server_opened(
    distant: tuple[str, Event], server: Running
) -> None:
    image, is_fast = distant
    complaints: list[str] = []
    async with chromium_running() as chromium, watched_page(chromium, complaints) as page:
        page.set_default_timeout(SHOWN_MS_MAX)
        await sign_in(page, server.address)
        await page.get_by_role("link", name="New workspace").first.click()
        await page.get_by_label("Name").fill("thesis")
        await page.get_by_role("radio", name="code-server").check()
        await page.get_by_label("Image").fill(image)
        await page.get_by_role("button", name="Create and start").click()
        await expect(page.locator(".under-way .moved")).to_have_text(FETCHED, timeout=SHOWN_MS_MAX)
        assert int(await page.locator(".under-way progress").get_attribute("value") or 0) >= 45
        await page.get_by_role("link", name="codehub").click()
        row = page.locator(".row", has_text="thesis")
        await expect(row.locator(".state")).to_have_text(
            re.compile("Starting.*Fetching the image", re.DOTALL)
        )
        is_fast.set()
        await expect(row.locator(".badge")).to_have_text("Running", timeout=SHOWN_MS_MAX)
        async with page.context.expect_page() as opened:
            await row.get_by_role("link", name="Open").click()
        ide = await opened.value
        await ide.wait_for_selector(".monaco-workbench .explorer-viewlet")
        await ide.close()
        await page.get_by_label("More for thesis").click()
        await row.get_by_role("button", name="Put to sleep").click()
        await expect(row.locator(".badge")).to_have_text("Asleep", timeout=SHOWN_MS_MAX)
    assert not complaints, complaints


async def sign_in(page: Page, address: str) -> None:
    await page.goto(address)
    await page.get_by_label("Username").fill("admin")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
