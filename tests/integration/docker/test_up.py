"""`codehub up` on what people run, as they use it: with curl, and with a browser that has a tab open in a real code-server."""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page
from tests.support.curl import CURL, Curl, go_round
from tests.support.docker import BASE, CODE_SERVER, DOCKER, NO_CODE_SERVER, Docker, TestEngine
from tests.support.ides import CHROMIUM
from tests.support.program import Running, running
from tests.support.redis import REDIS, running_redis
from tests.support.s3 import S3, running_s3, told
from tests.support.tabs import PASSWORD, PATIENCE_S, sit_before_a_tab

from codehub.adapters.docker.volumes import home_name
from codehub.adapters.postgres.connect import Role, connect
from codehub.adapters.postgres.embedded import find_running

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
            installation = await installation_in(tmp_path / "data")
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


@CURL
def test_with_curl_alone_a_workspace_goes_round_the_whole_circle(server: Running, tmp_path: Path) -> None:
    go_round(Curl(server, tmp_path / "jar"))


async def test_a_person_who_types_keeps_it_awake_and_a_forgotten_tab_neither_keeps_nor_wakes_it(
    server: Running, engine: TestEngine, tmp_path: Path
) -> None:
    picture = tmp_path / "code-server.png"
    await sit_before_a_tab(server, lambda one: engine.path_of(home_name(one)), open_terminal, picture)


async def open_terminal(page: Page) -> None:
    await page.wait_for_selector(".monaco-workbench", timeout=PATIENCE_S * 1000)
    await page.click("text=Yes, I trust the authors", timeout=PATIENCE_S * 1000)
    await page.wait_for_selector(".explorer-viewlet", timeout=PATIENCE_S * 1000)
    await page.keyboard.press("Control+Backquote")
    await page.wait_for_selector(".terminal-wrapper.active .xterm-screen", timeout=PATIENCE_S * 1000)
    await page.click(".terminal-wrapper.active .xterm-screen")
