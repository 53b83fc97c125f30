"""The embedded database comes back when it dies, and finds what a killed codehub left."""

import asyncio
import errno
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import asyncpg
import pytest
import structlog
from tests.support.embedded_cluster import (
    CLOCK,
    abandoned,
    assert_nothing_runs,
    data_of,
    embedded,
    needs_root,
    spawned,
)
from tests.support.embedded_process import (
    EmbeddedProcess,
    kill_9,
    postmasters_of,
    until,
)

from codehub.adapters.postgres.embedded import (
    find_running,
)
from codehub.adapters.postgres.embedded import processes as processes_module
from codehub.adapters.postgres.embedded import server as server_module
from codehub.adapters.postgres.embedded.account import server_account


async def test_a_killed_server_comes_back(cluster: Path) -> None:
    server = embedded(cluster)
    with structlog.testing.capture_logs() as logs:
        await server.start()
        # A backend at work doesn't notice that its postmaster is gone, and would keep a new one out.
        busy = await asyncpg.connect(**server.connect_args)
        work = asyncio.create_task(busy.execute("SELECT count(*) FROM generate_series(1, 1000000000)"))
        kill_9(*postmasters_of(cluster))
        await until(lambda: any(entry["event"] == "postgres_restarted" for entry in logs))
    connection = await asyncpg.connect(**server.connect_args)
    await connection.close()
    assert len(postmasters_of(cluster)) == 1
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await work
    await server.stop()
    assert_nothing_runs(cluster)


async def test_a_killed_server_comes_back_though_its_end_could_not_be_waited_for(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(processes_module, "os", SimpleNamespace(**{**vars(os), "pidfd_open": refuse}))
    server = embedded(cluster)
    with structlog.testing.capture_logs() as logs:
        await server.start()
        kill_9(*postmasters_of(cluster))
        await until(lambda: any(entry["event"] == "postgres_restarted" for entry in logs))
    monkeypatch.undo()
    await server.stop()
    assert_nothing_runs(cluster)


async def test_a_restart_is_tried_until_it_works(cluster: Path) -> None:
    control = data_of(cluster) / "global" / "pg_control"
    server = embedded(cluster)
    with structlog.testing.capture_logs() as logs:
        await server.start()
        control.rename(aside := control.with_name("aside"))
        kill_9(*postmasters_of(cluster))
        await until(lambda: any(entry["event"] == "postgres_restart_failed" for entry in logs))
        assert "does not start" in next(e["error"] for e in logs if e["event"] == "postgres_restart_failed")
        aside.rename(control)
        await until(lambda: any(entry["event"] == "postgres_restarted" for entry in logs))
    await (await asyncpg.connect(**server.connect_args)).close()
    await server.stop()
    assert_nothing_runs(cluster)


async def test_the_server_of_a_killed_codehub_is_adopted_and_stopped(
    cluster: Path, children: list[EmbeddedProcess]
) -> None:
    postmaster = await abandoned(cluster, children)
    server = embedded(cluster)
    await server.start()
    assert postmasters_of(cluster) == [postmaster]
    await server.stop()
    assert_nothing_runs(cluster)


@needs_root
async def test_adoption_needs_no_right_to_trace_processes(
    cluster: Path, children: list[EmbeddedProcess]
) -> None:
    """Root in a container has no CAP_SYS_PTRACE, and sees another user's processes only as that user."""
    postmaster = await abandoned(cluster, children)
    without = ("setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-all")
    children.append(child := await EmbeddedProcess.launch(cluster, prefix=without))
    assert await child.started() == postmaster
    await child.stop()
    assert_nothing_runs(cluster)


async def test_an_adopted_server_gets_our_rules_back(cluster: Path, children: list[EmbeddedProcess]) -> None:
    await abandoned(cluster, children)
    rules = data_of(cluster) / "pg_hba.conf"
    rules.write_text("local all all trust\n")
    server = embedded(cluster)
    await server.start()
    assert rules.read_text() == "local all codehub peer map=codehub\n"
    await server.stop()


async def test_the_server_of_an_older_codehub_is_replaced(
    cluster: Path, children: list[EmbeddedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    postmaster = await abandoned(cluster, children)
    monkeypatch.setitem(server_module.INVARIANTS, "synchronous_commit", "on")
    server = embedded(cluster)
    await server.start()
    assert postmaster not in postmasters_of(cluster)
    assert len(postmasters_of(cluster)) == 1
    await server.stop()
    assert_nothing_runs(cluster)


async def test_a_server_that_is_shutting_down_is_waited_for(
    cluster: Path, children: list[EmbeddedProcess]
) -> None:
    postmaster = await abandoned(cluster, children)
    with find_running(cluster) or pytest.fail("the server is not found") as running:
        client = await asyncpg.connect(**running.connect_args)
        os.kill(postmaster, signal.SIGTERM)  # it ends when its last client has gone
        server = embedded(cluster)
        starting = asyncio.create_task(server.start())
        await until(
            lambda: "the database system is shutting down" in (cluster / "postgres" / "log").read_text()
        )
        assert postmasters_of(cluster) == [postmaster]
        await client.close()
    await starting
    assert postmaster not in postmasters_of(cluster)
    await server.stop()


async def test_a_stale_pid_that_somebody_else_has_now_is_no_obstacle(cluster: Path) -> None:
    account = await server_account(CLOCK)
    other = spawned(["sleep", "60"], account, Path("/"))
    try:
        lines = (str(other.pid), "/proc/self/cwd", "1", "5432", "/proc/self/cwd", "", "1 1", "ready")
        (data_of(cluster) / "postmaster.pid").write_text("\n".join(lines) + "\n")
        (data_of(cluster) / ".s.PGSQL.5432.lock").write_text(f"{other.pid}\n")
        server = embedded(cluster)
        assert find_running(cluster) is None
        await server.start()
        await server.stop()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
