"""Two of everything on Docker: one process of each role is rolled, and one killed, while people work."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import Servers
from tests.support.docker import DOCKER, Docker
from tests.support.fleet_work import (
    API,
    GOING_AWAY,
    ROLES,
    TAKE_OVER_S_MAX,
    Site,
    Work,
    archiving,
    arrives,
    is_all_heard,
    is_taken_over,
    op_of,
    running,
    two_of_each,
    work_on,
)
from tests.support.hands import ON_DOCKER
from tests.support.patience import until
from tests.support.s3 import set_environment

from codehub.adapters.objectstore.store import MARK

pytestmark = [
    DOCKER,
    # Those who work are cancelled at the end, some while they connect.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
async def site(docker: Docker, servers: Servers, tmp_path: Path) -> AsyncIterator[Site]:
    engine, server = await docker(), await servers("postgres-18")
    settings = {"instance_backend": "local-docker", **ON_DOCKER}
    try:
        with set_environment({"DOCKER_HOST": engine.url}):
            async with two_of_each(server, tmp_path, **settings) as opened:
                yield opened
    finally:
        if (mark := tmp_path / "data/archives" / MARK).exists():
            engine.remove_labelled(mark.read_text().strip())


async def test_what_is_rolled_refuses_nobody_anything_and_what_is_killed_takes_nothing_along(
    site: Site,
) -> None:
    client, cookie = await site.signed_in()
    work = Work(site.fleet.address, cookie, await running(client, "demo"), site.database)
    big = await running(client, "big")
    script = "head -c 200M /dev/urandom > /home/coder/big; echo done"
    assert await site.run(client, big, script) == "done"
    async with work.under_way():
        await until(lambda: work.answered > 20 and work.heard)
        first = max(work.heard)
        for role in ROLES:
            old = await site.roll(role)
            assert await old.ended() == 0, old.log.read_text()
        await work_on(work)
        assert work.failures == [], site.fleet.log_of("error")
        assert GOING_AWAY in work.goodbyes, "who was connected was told"
        for role in ("api", "proxy"):
            site.members[role][0].kill()
            await work_on(work)
        await client.aclose()
        client, cookie = await site.signed_in()
        assert (await client.post(f"{API}/workspaces/{big}:archive")).is_success
        controller, op_id = await archiving(site, big), await op_of(site, big)
        controller.kill()
        killed_at = time.monotonic()
        await until(lambda: is_taken_over(site, big, op_id))
        took_s = time.monotonic() - killed_at
        await arrives(client, big, "ARCHIVED")
        await until(lambda: is_all_heard(work, first))
    assert took_s < TAKE_OVER_S_MAX
    assert all(failure.startswith("PATCH ") for failure in work.failures), work.failures
    assert len(work.failures) <= 4, "two were in flight at each of two deaths"
    await client.aclose()
