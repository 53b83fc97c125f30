"""The database goes away and comes back: 503 with Retry-After meanwhile. And what operators see."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import httpx
import pytest
from tests.support.patience import PATIENCE_S, until, within
from tests.support.postgres import TestServer, running_server
from tests.support.site import API, RESTS, WATCHES, Site, create, open_site
from tests.support.stores import PostgresWorld
from tests.support.streams import reading

from codehub.adapters.local.processes import children
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.database import SERVING_CONNECTIONS, Stores, stores, until_stopped
from codehub.core.access import Role
from codehub.engine.system import System
from codehub.ports.store import StoreUnavailable


@pytest.fixture
async def frail() -> AsyncIterator[tuple[Site, PostgresWorld, TestServer]]:
    """A site on a server of its own, which a test may take connections from."""
    async with running_server("postgres-18") as server, PostgresWorld.opened(server) as world:

        async def check() -> None:
            try:
                await world.api_pool.fetchval("SELECT 1")
            except Exception as error:
                raise StoreUnavailable(str(error)) from error

        async with open_site(world, checks={"database": check}) as site:
            yield site, world, server


async def test_without_its_database_the_api_answers_503_and_recovers_by_itself(
    frail: tuple[Site, PostgresWorld, TestServer],
) -> None:
    site, world, server = frail
    ann = await site.browser("ann")
    workspace = await create(ann, **RESTS)
    name = world.connect_args["database"]
    async with reading(ann) as reader:
        await ann.patch(f"{API}/workspaces/{workspace['id']}", json={"memo": "before"})
        before = (await reader.until(lambda message: message.data["memo"] == "before"))[-1]
        await server.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> $2",
            name,
            world.admin.get_server_pid(),
        )
        for method, path in (("GET", "/workspaces"), ("GET", "/session"), ("POST", "/workspaces")):
            answer = await ann.request(method, API + path, json={"name": "x"} if method == "POST" else None)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNAVAILABLE"), path
            assert int(answer.headers["retry-after"]) >= 1
        assert (await ann.get("/readyz")).json()["ready"] is False
        assert (await ann.get("/healthz")).status_code == 200
        await server.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

        async def is_ready() -> bool:
            return (await ann.get("/readyz")).status_code == 200

        await until(is_ready)
        # A revocation may have been missed meanwhile: streams end. Who has a good key comes back, and misses
        # nothing.
        with pytest.raises(httpx.HTTPError):
            await reader.next()
    await ann.patch(f"{API}/workspaces/{workspace['id']}", json={"memo": "after"})
    async with reading(ann, before.id) as reader:
        after = await reader.next()
    assert (before.data["memo"], after.data["memo"]) == ("before", "after")


@pytest.fixture
async def frozen() -> AsyncIterator[tuple[Stores, Callable[[], None]]]:
    """Stores on a server that has stopped in the middle of everything, and how to let it go on."""
    system = System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    async with running_server("postgres-18") as server, server.migrated() as connect_args:
        async with stores(dict(connect_args), system, is_serving=True, answer_s_max=4.0) as stored:
            postmaster = server.process.pid
            pids = [postmaster, *(child.pid for child in children(postmaster))]

            def send(number: signal.Signals) -> None:
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)

            send(signal.SIGSTOP)
            try:
                yield stored, lambda: send(signal.SIGCONT)
            finally:
                send(signal.SIGCONT)
        await system.tasks.cancel_all()


async def test_readiness_is_answered_soon_even_of_a_database_that_hangs(
    frozen: tuple[Stores, Callable[[], None]],
) -> None:
    stored, go_on = frozen
    for _ in range(2):
        async with within(3.5):  # a request waits for 4 s
            with pytest.raises(StoreUnavailable, match="did not answer within 2 s"):
                await stored.check()
    go_on()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(StoreUnavailable):
                await stored.check()
                break


async def test_a_request_waits_no_longer_for_a_database_that_hangs_than_is_promised(
    frozen: tuple[Stores, Callable[[], None]],
) -> None:
    stored, _ = frozen
    async with within(20.0):
        requests = [stored.api.now() for _ in range(SERVING_CONNECTIONS)]
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes), outcomes
    async with within(20.0):  # now on connections that have to be made anew
        with pytest.raises(StoreUnavailable):
            await stored.api.now()


async def test_stopping_does_not_wait_for_a_database_that_hangs(
    frozen: tuple[Stores, Callable[[], None]],
) -> None:
    stored, _ = frozen
    role = asyncio.ensure_future(until_stopped(stored, last_answer_s_max=0.1))
    passing = asyncio.ensure_future(stored.controller.changes(None))
    with pytest.raises(StoreUnavailable):  # meanwhile the pass has asked, too
        await stored.check()
    role.cancel()
    passing.cancel()
    async with within(60.0):  # a pass would wait for two minutes
        await asyncio.wait({role, passing})


# What operators see


async def test_metrics_are_for_admins_and_who_has_the_token_wherever_they_are(living_site: Site) -> None:
    ann, admin = await living_site.browser("ann"), await living_site.browser("root", Role.ADMIN)
    workspace = await create(ann)
    await living_site.arrives(ann, workspace["id"], "RUNNING")
    async with living_site.anybody() as nobody:
        assert (await nobody.get("/metrics", headers=WATCHES)).status_code == 200
        for wrong in ({}, {"Authorization": "Bearer who-watches-this-codehuB"}, {"Authorization": "Bearer"}):
            assert (await nobody.get("/metrics", headers=wrong)).status_code == 401, "loopback is no trust"
        assert (await nobody.get(f"{API}/session", headers=WATCHES)).status_code == 401
    assert (await ann.get("/metrics")).status_code == 403
    metrics = (await admin.get("/metrics")).text
    for line in (
        'codehub_workspaces{phase="RUNNING"}',
        'codehub_operation_seconds_count{operation="STARTING",outcome="completed"}',
        "codehub_pass_seconds_count",
        "codehub_swaps_lost_total",
        "codehub_hints_total",
        'codehub_steps_under_way{lane="long"}',
        "codehub_archive_bytes",
        'codehub_http_request_seconds_count{method="POST",route="/api/v1/workspaces",status="201"}',
        "codehub_event_streams",
        "process_cpu_seconds_total",
    ):
        assert line in metrics, line


async def test_an_unknown_path_makes_no_new_metric(site: Site) -> None:
    async with site.anybody() as nobody:
        for number in range(20):
            await nobody.get(f"/nothing/{number}")
            await nobody.get(f"{API}/workspaces/{number}")
        metrics = await nobody.get("/metrics", headers=WATCHES)
    assert "/nothing" not in metrics.text
    assert 'route="none"' in metrics.text
    assert 'route="/api/v1/workspaces/{workspace_id}"' in metrics.text


async def test_one_request_id_goes_through_logs_of_api_and_controller(
    living_site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    ann = await living_site.browser("ann")
    capsys.readouterr()
    answer = await ann.post(
        f"{API}/workspaces", json={"name": "traced"}, headers={"X-Request-Id": "trace-me-7"}
    )
    await living_site.arrives(ann, answer.json()["id"], "RUNNING")
    log = ""

    def is_logged(event: str, operation: str = "") -> bool:
        nonlocal log
        log += capsys.readouterr().out
        lines = [line for line in log.splitlines() if "trace-me-7" in line]
        return any(event in line and operation in line for line in lines)

    await until(lambda: is_logged("operation_ended", "STARTING"))
    assert is_logged(" request ")
    assert is_logged("operation_began", "PROVISIONING")
