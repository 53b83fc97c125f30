"""What a helper says past the engine: all of it comes, by the engine
if need be, and whoever stops half way leaves nothing.
"""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.support.docker import BASE, DOCKER
from tests.support.patience import until
from tests.support.storages import OnDocker, granted, new_home, there_and_back

from codehub.adapters.docker.attach import AttachedStreams
from codehub.adapters.docker.job import Job, Task, create_container, job, job_name
from codehub.adapters.docker.pipe import TARGET, Pipe, PipedOutput
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Home

pytestmark = DOCKER

SAYS_WHERE = Task("readlink /proc/self/fd/1", ())
MUCH = 20_000_000


async def output_of(running: Job) -> bytes:
    async with aclosing(running.parts()) as parts:
        return b"".join([part async for part in parts])


async def test_a_helpers_output_does_not_pass_through_the_engine(storage: OnDocker) -> None:
    home = await a_home(storage)
    async with job(storage.connection, BASE, home.workspace_id, SAYS_WHERE, pipes=storage.pipes) as running:
        # Its name may be gone by then: "… (deleted)".
        assert (await output_of(running)).startswith(TARGET.encode())
        assert await running.exit_code() == 0
    assert list(storage.pipes.iterdir()) == []


async def test_all_of_it_comes_with_what_the_helper_told_and_how_it_ended(storage: OnDocker) -> None:
    home = await a_home(storage)
    task = Task(
        f"yes | head -c {MUCH}; yes | head -c 300000 >&2; yes | head -c {MUCH}; echo broken >&2; exit 3", ()
    )
    async with job(storage.connection, BASE, home.workspace_id, task, pipes=storage.pipes) as running:
        assert await output_of(running) == b"y\n" * MUCH
        assert await running.exit_code() == 3
        assert running.error_output.endswith(b"y\nbroken\n")


async def test_an_engine_that_does_not_see_the_directory_carries_the_output_itself(
    storage: OnDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = await a_home(storage)
    monkeypatch.chdir(tmp_path)
    elsewhere = Path("/proc/self/cwd/pipes")  # to the engine that is a place of its own
    async with job(storage.connection, BASE, home.workspace_id, SAYS_WHERE, pipes=elsewhere) as running:
        assert (await output_of(running)).startswith(b"pipe:[")
    volume_id = await storage.provider.provision(home)
    storage.write(home, {"kept": b"x" * 3_000_000})
    storage.docker.pipes = elsewhere
    before, after = await there_and_back(storage, home, volume_id)
    assert after == before


async def test_without_a_directory_for_pipes_the_output_comes_by_the_engine(
    storage: OnDocker, tmp_path: Path
) -> None:
    home = await a_home(storage)
    (tmp_path / "file").touch()
    async with job(
        storage.connection, BASE, home.workspace_id, SAYS_WHERE, pipes=tmp_path / "file" / "pipes"
    ) as running:
        assert (await output_of(running)).startswith(b"pipe:[")


async def test_a_pipe_that_nobody_reads_is_not_used(storage: OnDocker) -> None:
    """So it looks to a helper that runs under another kernel than we do, in a virtual machine."""
    home = await a_home(storage)
    pipe = Pipe(storage.pipes, home.workspace_id)
    container_id = await create_container(storage.connection, BASE, home.workspace_id, SAYS_WHERE, pipe)
    pipe.close()
    streams = AttachedStreams(storage.connection.url, container_id)
    os.mkfifo(pipe.path)  # the engine mounts it when it starts the helper
    await storage.connection.ask("POST", f"containers/{container_id}/start")
    assert await asyncio.to_thread(streams.read_line) == b"engine"
    assert (await asyncio.to_thread(streams.read)).startswith(b"pipe:[")
    streams.close()


async def test_a_helper_whose_reader_is_gone_ends_by_itself(storage: OnDocker) -> None:
    home = await a_home(storage)
    pipe = Pipe(storage.pipes, home.workspace_id)
    container_id = await create_container(
        storage.connection, BASE, home.workspace_id, Task("exec yes", ()), pipe
    )
    streams = AttachedStreams(storage.connection.url, container_id)
    await storage.connection.ask("POST", f"containers/{container_id}/start")
    assert await asyncio.to_thread(PipedOutput(streams, pipe).read)
    pipe.close()  # as a kill -9 would
    streams.disconnect()
    streams.close()
    await until(lambda: has_ended(storage, home.workspace_id))


async def test_a_cancelled_archive_leaves_no_helper_and_no_pipe(storage: OnDocker) -> None:
    home = await a_home(storage)
    volume_id = await storage.provider.provision(home)
    storage.write(home, {"much": b"x" * MUCH})
    archiving: list[asyncio.Task[object]] = []

    def stop(_amount: Amount) -> None:
        archiving[0].cancel()

    archiving.append(asyncio.ensure_future(storage.provider.archive(home, volume_id, uuid4(), stop, granted)))
    with pytest.raises(asyncio.CancelledError):
        await archiving[0]
    assert storage.engine.find(f"containers/{job_name(home.workspace_id)}/json") is None
    assert list(storage.pipes.iterdir()) == []
    assert not await storage.provider.has_archives(home.workspace_id)


async def test_an_archive_whose_helper_is_killed_half_way_does_not_count(storage: OnDocker) -> None:
    home = await a_home(storage)
    volume_id = await storage.provider.provision(home)
    storage.write(home, {"much": b"x" * MUCH})
    asked: list[None] = []

    def kill(_amount: Amount) -> None:
        if not asked:
            asked.append(storage.engine.ask("POST", f"containers/{job_name(home.workspace_id)}/kill"))

    with pytest.raises(ActionFailed, match="137"):
        await storage.provider.archive(home, volume_id, uuid4(), kill, granted)
    assert not await storage.provider.has_archives(home.workspace_id)
    before, after = await there_and_back(storage, home, volume_id)
    assert after == before


async def test_a_pipe_that_a_killed_codehub_left_is_removed_by_the_next_helper(storage: OnDocker) -> None:
    home = await a_home(storage)
    left = Pipe(storage.pipes, home.workspace_id)
    assert list(storage.pipes.iterdir()) == [left.path]
    async with job(storage.connection, BASE, home.workspace_id, SAYS_WHERE, pipes=storage.pipes):
        assert list(storage.pipes.iterdir()) == []
    left.close()


async def a_home(storage: OnDocker) -> Home:
    home = new_home()
    await storage.provider.provision(home)
    return home


async def has_ended(storage: OnDocker, workspace_id: UUID) -> bool:
    container = storage.engine.ask("GET", f"containers/{job_name(workspace_id)}/json")
    return bool(container["State"]["Status"] == "exited")
