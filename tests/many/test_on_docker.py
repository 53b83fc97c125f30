"""Two of everything on Docker: one process of each role is rolled, and one killed, while people work."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.conftest import Servers
from tests.support.docker import DOCKER, Docker
from tests.support.fleet_work import (
    GOING_AWAY,
    Site,
    Work,
    fill,
    first_event,
    is_all_heard,
    kill_each,
    roll_each,
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
    async with aclosing(client):
        work = Work(site.fleet.address, cookie, await running(client, "demo"), site.database)
        big = await running(client, "big")
        await fill(site, client, big, "200M")
    async with work.under_way():
        first = await first_event(work)
        await roll_each(site, times=1)
        await work_on(work)
        assert work.failures == [], site.fleet.log_of("error")
        assert GOING_AWAY in work.goodbyes, "who was connected was told"
        await kill_each(site, work, big)
        await until(lambda: is_all_heard(work, first))
