"""Two of everything: each process is rolled in turn, and then killed,
while people work. Nothing fails that could be answered.
"""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.conftest import Servers
from tests.support.fleet import fleet
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
from tests.support.patience import PATIENCE_S, until

# Those who work are cancelled at the end, some while they connect.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
async def site(servers: Servers, tmp_path: Path) -> AsyncIterator[Site]:
    async with two_of_each(await servers("postgres-18"), tmp_path) as opened:
        yield opened


async def test_each_process_is_rolled_in_turn_and_nobody_is_refused_anything(site: Site) -> None:
    client, cookie = await site.signed_in()
    work = Work(site.fleet.address, cookie, await running(client, "demo"), site.database)
    async with work.under_way():
        await until(lambda: work.answered > 20 and work.heard)
        first = max(work.heard)
        for role in ROLES:
            for _ in range(2):
                old = await site.roll(role)
                assert await old.ended() == 0, old.log.read_text()
        await work_on(work)
        failures = list(work.failures)
        await client.post(f"{API}/workspaces/{work.workspace_id}:stop")
        await arrives(client, work.workspace_id, "STANDBY")
        await until(lambda: is_all_heard(work, first))
    assert failures == [], site.fleet.log_of("error")
    assert set(work.goodbyes) <= {GOING_AWAY, b"", b"cut"}
    assert work.goodbyes.count(GOING_AWAY) >= 4, "each was drained at least once"
    await client.aclose()


async def test_a_process_that_was_told_to_end_is_not_ready_serves_on_and_ends_at_once_when_told_again(
    servers: Servers, tmp_path: Path
) -> None:
    server = await servers("postgres-18")
    async with server.empty() as database:
        url = f"postgresql://admin@/{database}?host={server.directory}"
        with fleet(tmp_path, url, drain_notice_seconds="600") as made:
            await made.start("api", 0)
            proxy, controller = made.launch("proxy", 0), made.launch("controller", 0)
            await made.ready(proxy)
            await made.ready(controller)
            async with httpx.AsyncClient(timeout=PATIENCE_S) as anybody:
                ready = await anybody.get(f"{made.health_url('controller', 0)}/readyz")
                assert ready.json()["checks"] == {"process": "ok", "database": "ok", "controller": "ok"}
                assert (await anybody.get(f"{made.health_url('controller', 0)}/else")).status_code == 404
                controller.leave()
                assert await controller.ended() == 0, "nobody is served by it"
                public = made.url("proxy", 0)
                assert (await anybody.get(f"{public}/readyz")).status_code == 200
                proxy.leave()
                await until(lambda: says(anybody, made.health_url("proxy", 0), 503))
                await until(lambda: says(anybody, public, 503))
                assert (await anybody.get(f"{public}/healthz")).headers["connection"] == "close"
                proxy.leave()
                assert await proxy.ended() == 0


async def test_what_the_installation_lacks_takes_no_api_out_of_the_balance(
    servers: Servers, tmp_path: Path
) -> None:
    server = await servers("postgres-18")
    async with server.empty() as database:
        url = f"postgresql://admin@/{database}?host={server.directory}"
        with fleet(tmp_path, url, disk_floor_mb="1000000000") as made:
            await made.start("api", 0)
            await made.start("controller", 0)
            async with httpx.AsyncClient(timeout=PATIENCE_S) as anybody:
                await until(lambda: says(anybody, made.url("api", 0), 503))
                ready = await anybody.get(f"{made.health_url('api', 0)}/readyz")
                assert ready.json() == {"ready": True, "checks": {"process": "ok", "database": "ok"}}


async def says(anybody: httpx.AsyncClient, url: str, status: int) -> bool:
    return (await anybody.get(f"{url}/readyz")).status_code == status


async def test_what_is_killed_takes_nothing_with_it_but_what_it_held(site: Site) -> None:
    client, cookie = await site.signed_in()
    work = Work(site.fleet.address, cookie, await running(client, "demo"), site.database)
    big = await running(client, "big")
    output = await site.run(client, big, "head -c 300M /dev/urandom > big; echo done")
    assert output.endswith("done"), output
    async with work.under_way():
        await until(lambda: work.answered > 20 and work.heard)
        first = max(work.heard)
        for role in ("api", "proxy"):
            site.members[role][0].kill()
            await work_on(work)
        await client.aclose()
        client, cookie = await site.signed_in()
        assert (await client.post(f"{API}/workspaces/{big}:archive")).status_code < 300
        controller = await archiving(site, big)
        op_id = await op_of(site, big)
        controller.kill()
        killed_at = time.monotonic()
        await until(lambda: is_taken_over(site, big, op_id), seconds=PATIENCE_S)
        took_s = time.monotonic() - killed_at
        await arrives(client, big, "ARCHIVED")
        await until(lambda: is_all_heard(work, first))
    assert took_s < TAKE_OVER_S_MAX
    assert all(failure.startswith("PATCH ") for failure in work.failures), work.failures
    assert len(work.failures) <= 4, "two were in flight at each of two deaths"
    await client.aclose()
