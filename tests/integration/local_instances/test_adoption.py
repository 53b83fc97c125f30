"""A controller may be killed at any moment: its instances run
on, the next one finds them, and there are never two.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.instances import LocalWorld, are_listed, become_healthy, command_of, new_spec
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.local.processes import find_marked
from codehub.adapters.processes import Process
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.observation import Instance
from codehub.ports.instances import InstanceSpec

ROOT = Path(__file__).parents[3]


@pytest.fixture
def workspace_id() -> UUID:
    return SystemIdentity().new_id()


@pytest.fixture
def spec(workspace_id: UUID) -> InstanceSpec:
    return new_spec(workspace_id=workspace_id)


@asynccontextmanager
async def supervisor(
    world: LocalWorld, spec: InstanceSpec, point: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another controller of the same instances, which starts this one."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.support.local_supervisor"),
        *(str(world.data_dir.parent), world.install_id, str(spec.workspace_id), point, str(world.sandbox)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def until_started(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        async for line in process.stdout:
            if line == b"started\n":
                return
    pytest.fail("the supervisor has ended")


def servers(world: LocalWorld, workspace_id: UUID) -> list[Process]:
    """Return the IDEs of a workspace that really run, however they came to."""
    marks = frozenset(
        {f"CODEHUB_INSTALL={world.install_id}".encode(), f"CODEHUB_WORKSPACE={workspace_id}".encode()}
    )
    return [
        each for each in find_marked(marks, owner=None) if command_of(each).startswith(b"/usr/bin/python3\0")
    ]


async def test_a_killed_controller_leaves_its_instance_running_and_the_next_adopts_it(
    world: LocalWorld, spec: InstanceSpec
) -> None:
    async with supervisor(world, spec, "healthy") as first:
        await until_started(first)
        first.kill()
        await first.wait()
    before = servers(world, spec.workspace_id)
    assert len(before) == 1
    await are_listed(world.instances, {spec.workspace_id: Instance(running=True, healthy=True)})
    await world.instances.start(spec, f"volume of {spec.workspace_id}")
    assert servers(world, spec.workspace_id) == before
    assert await world.inside(spec.workspace_id, "echo still here") == "still here\n"


async def test_the_end_of_an_adopted_instance_is_hinted_and_it_can_be_deleted(
    world: LocalWorld, spec: InstanceSpec
) -> None:
    async with supervisor(world, spec, "healthy") as first:
        await until_started(first)
        first.kill()
        await first.wait()
    async with asyncio.timeout(PATIENCE_S), world.instances.events() as events:
        servers(world, spec.workspace_id)[0].send(signal.SIGKILL)
        assert await anext(events) == spec.workspace_id
    await world.instances.delete(spec.workspace_id)
    assert servers(world, spec.workspace_id) == []
    assert await world.instances.list_all() == {}


@pytest.mark.parametrize("point", ["before_spawn", "after_spawn"])
async def test_a_kill_in_the_middle_of_a_start_leaves_one_instance_or_none(
    world: LocalWorld, spec: InstanceSpec, point: str
) -> None:
    async with supervisor(world, spec, point) as first:
        assert await first.wait() == -signal.SIGKILL
    listed = await world.instances.list_all()
    assert listed[spec.workspace_id].running is (point == "after_spawn")
    await world.instances.start(spec, f"volume of {spec.workspace_id}")
    await become_healthy(world.instances, spec.workspace_id)
    assert len(servers(world, spec.workspace_id)) == 1


@pytest.mark.parametrize("point", ["before_spawn", "after_spawn"])
async def test_what_a_killed_start_left_is_deleted_to_the_last(
    world: LocalWorld, spec: InstanceSpec, point: str
) -> None:
    async with supervisor(world, spec, point) as first:
        assert await first.wait() == -signal.SIGKILL
    await world.instances.delete(spec.workspace_id)
    assert servers(world, spec.workspace_id) == []
    assert await world.instances.list_all() == {}


async def test_controllers_that_start_at_once_start_one(world: LocalWorld, spec: InstanceSpec) -> None:
    volume_id = await world.make_volume(spec)
    async with (
        supervisor(world, spec, "started") as first,
        supervisor(world, spec, "started") as second,
    ):
        await asyncio.gather(
            until_started(first), until_started(second), world.instances.start(spec, volume_id)
        )
    await become_healthy(world.instances, spec.workspace_id)
    assert len(servers(world, spec.workspace_id)) == 1


async def test_a_controller_that_ends_cleanly_leaves_them_too(world: LocalWorld) -> None:
    workspace_id = await world.run()
    second = world.controller()
    await world.instances.close()
    await second.open()
    await are_listed(second, {workspace_id: Instance(running=True, healthy=True)})
    await second.stop_all(grace_s=0.5)
    assert await second.list_all() == {}
    await second.close()
    await world.instances.open()


async def test_a_killed_launcher_does_not_end_the_ide_nor_hide_it(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    paths = sandboxed.instances.run_directory.of(workspace_id)
    record = paths.read()
    assert record is not None
    launcher = paths.starter(record)
    assert launcher is not None
    async with asyncio.timeout(PATIENCE_S), sandboxed.instances.events() as events:
        launcher.send(signal.SIGKILL)
        assert await anext(events) == workspace_id
        await become_healthy(sandboxed.instances, workspace_id)
        await sandboxed.die(workspace_id)
        assert await anext(events) == workspace_id
    dead = Instance(running=False, healthy=False, has_ended=True)
    assert await sandboxed.instances.status(workspace_id) == dead


async def test_a_pid_that_changed_hands_is_neither_believed_nor_signalled(world: LocalWorld) -> None:
    workspace_id = await world.run()
    paths = world.instances.run_directory.of(workspace_id)
    await world.die(workspace_id)

    async def is_dead() -> bool:
        return await world.instances.status(workspace_id) == Instance(
            running=False, healthy=False, has_ended=True, exit_code=1
        )

    await until(is_dead)
    stranger = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        stat = paths.launcher.read_text()
        paths.launcher.write_text(f"{stranger.pid} {stat.partition(' ')[2]}")
        paths.info.write_text(f'{{"child-pid": {stranger.pid}}}')
        assert await world.instances.status(workspace_id) == Instance(
            running=False, healthy=False, has_ended=True, exit_code=1
        )
        await world.instances.delete(workspace_id)
        assert stranger.returncode is None
        os.kill(stranger.pid, 0)
    finally:
        stranger.kill()
        await stranger.wait()


async def test_a_record_cut_short_is_an_instance_to_replace(
    sandboxed: LocalWorld, spec: InstanceSpec
) -> None:
    await sandboxed.run(spec)
    before = servers(sandboxed, spec.workspace_id)
    sandboxed.instances.run_directory.of(spec.workspace_id).record.write_text('{"finger')
    assert (await sandboxed.instances.list_all())[spec.workspace_id].running
    await sandboxed.instances.start(spec, f"volume of {spec.workspace_id}")
    await become_healthy(sandboxed.instances, spec.workspace_id)
    after = servers(sandboxed, spec.workspace_id)
    assert len(after) == 1
    assert after != before
