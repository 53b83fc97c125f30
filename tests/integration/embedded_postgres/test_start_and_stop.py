"""The embedded database starts, says where it is, and leaves
nothing behind, at whatever moment it is stopped.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from tests.support.embedded_cluster import (
    CLOCK,
    assert_nothing_runs,
    copy_cluster,
    data_of,
    embedded,
)
from tests.support.embedded_process import (
    at_work_in,
    kill_9,
    postmasters_of,
    until,
)

from codehub.adapters.postgres.embedded import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    find_running,
)
from codehub.adapters.postgres.embedded import server as server_module
from codehub.adapters.system.machine import SystemTasks


async def test_a_fresh_directory_gets_a_server_whose_data_survives_a_restart(tmp_path: Path) -> None:
    server = embedded(tmp_path)
    assert find_running(tmp_path) is None
    await server.start()
    connection = await asyncpg.connect(**server.connect_args)
    await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    await connection.close()
    await server.stop()
    assert at_work_in(data_of(tmp_path)) == {}
    assert not list(data_of(tmp_path).glob(".s.PGSQL*"))
    assert find_running(tmp_path) is None

    await server.start()
    connection = await asyncpg.connect(**server.connect_args)
    assert await connection.fetchval("SELECT answer FROM kept") == 42
    await connection.close()
    await server.stop()
    assert at_work_in(data_of(tmp_path)) == {}


async def test_the_server_is_safe_closed_and_small(cluster: Path) -> None:
    wanted = {
        "data_checksums": "on",
        "fsync": "on",
        "full_page_writes": "on",
        "jit": "off",
        "listen_addresses": "",
        "max_connections": "100",
        "server_encoding": "UTF8",
        "shared_buffers": "128MB",
        "TimeZone": "UTC",
    }
    server = embedded(cluster)
    await server.start()
    connection = await asyncpg.connect(**server.connect_args)
    assert {name: await connection.fetchval(f"SHOW {name}") for name in wanted} == wanted
    rules = await connection.fetch("SELECT type, database, user_name, auth_method FROM pg_hba_file_rules")
    assert [tuple(rule) for rule in rules] == [("local", ["all"], ["codehub"], "peer")]
    await connection.close()
    await server.stop()
    assert data_of(cluster).stat().st_mode & 0o777 == 0o700


async def test_starting_twice_is_starting_once(cluster: Path) -> None:
    server = embedded(cluster)
    await asyncio.gather(server.start(), server.start())
    await server.start()
    assert len(postmasters_of(cluster)) == 1
    await asyncio.gather(server.stop(), server.stop())
    await server.stop()
    assert at_work_in(data_of(cluster)) == {}


async def test_connect_args_are_refused_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"not running: await start\(\) first"):
        _ = embedded(tmp_path).connect_args


async def test_other_commands_find_the_running_server(cluster: Path) -> None:
    server = embedded(cluster)
    await server.start()
    running = find_running(cluster)
    assert running is not None
    with running:
        assert [running.pid] == postmasters_of(cluster)
        connection = await asyncpg.connect(**running.connect_args)
        await connection.close()
    await server.stop()


async def test_a_path_too_long_for_a_socket_works(initialised: Path, tmp_path: Path) -> None:
    (tmp_path / ("long" * 30)).mkdir()
    data_dir = tmp_path / ("long" * 30) / "cluster"
    copy_cluster(initialised, data_dir)
    server = embedded(data_dir)
    await server.start()
    connection = await asyncpg.connect(**server.connect_args)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
    with find_running(data_dir) or pytest.fail("the server is not found") as running:
        connection = await asyncpg.connect(**running.connect_args)
        await connection.close()
    await server.stop()
    assert at_work_in(data_of(data_dir)) == {}


async def test_a_log_that_has_grown_is_kept_once_and_begun_again(cluster: Path) -> None:
    log = cluster / "postgres" / "log"
    with log.open("ab") as file:
        file.truncate(11 * 1024 * 1024)
    server = embedded(cluster)
    await server.start()
    await server.stop()
    assert log.stat().st_size < 1024 * 1024
    assert log.with_name("log.1").stat().st_size == 11 * 1024 * 1024


@pytest.mark.parametrize("file", [".", "postgres", "postgres/data.new", "postgres/data.new/PG_VERSION"])
async def test_stopping_while_it_initialises_leaves_nothing(tmp_path: Path, file: str) -> None:
    server = embedded(tmp_path)
    starting = asyncio.create_task(server.start())
    await asyncio.sleep(0)  # so that it begins
    await until(lambda: (tmp_path / file).exists() or starting.done())
    is_quick = starting.done()
    await server.stop()
    if is_quick:
        await starting
    else:
        with pytest.raises(EmbeddedPostgresError, match="stopped while it was starting"):
            await starting
    assert_nothing_runs(tmp_path)
    if data_of(
        tmp_path
    ).exists():  # on a quick machine; then a server that had just begun left its shared memory
        await server.start()
        await server.stop()


@pytest.mark.parametrize(
    "has_come",
    [
        lambda _: True,
        lambda cluster: bool(at_work_in(data_of(cluster))),
        lambda cluster: (data_of(cluster) / "postmaster.pid").exists(),
        lambda cluster: (data_of(cluster) / ".s.PGSQL.5432").exists(),
    ],
    ids=["at once", "it has a process", "it holds its directory", "it listens"],
)
async def test_a_cancelled_start_leaves_nothing(cluster: Path, has_come: Callable[[Path], bool]) -> None:
    server = embedded(cluster)
    starting = asyncio.create_task(server.start())
    await asyncio.sleep(0)  # so that it begins
    await until(lambda: has_come(cluster) or starting.done())
    if starting.cancel():
        with pytest.raises(asyncio.CancelledError):
            await starting
    else:  # on a quick machine
        await server.stop()
    assert_nothing_runs(cluster)
    await server.start()
    await server.stop()


async def test_stopping_while_it_restarts_leaves_nothing(cluster: Path) -> None:
    server = embedded(cluster)
    await server.start()
    before = postmasters_of(cluster)
    kill_9(*before)
    await until(lambda: postmasters_of(cluster) not in (before, []))
    await server.stop()
    assert_nothing_runs(cluster)
    await server.start()
    await server.stop()


async def test_ending_all_tasks_ends_the_server_too(cluster: Path) -> None:
    tasks = SystemTasks()
    await EmbeddedPostgres(cluster, clock=CLOCK, tasks=tasks).start()
    await tasks.cancel_all()
    assert_nothing_runs(cluster)


async def test_a_server_that_does_not_react_is_ended_all_the_same(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(patience_s for _, patience_s in server_module.WAYS_TO_END) < 7
    quick = tuple((number, 0.2) for number, _ in server_module.WAYS_TO_END)
    monkeypatch.setattr(server_module, "WAYS_TO_END", quick)
    server = embedded(cluster)
    await server.start()
    os.kill(postmasters_of(cluster)[0], signal.SIGSTOP)
    await server.stop()
    assert_nothing_runs(cluster)
    monkeypatch.undo()
    await server.start()
    await server.stop()
