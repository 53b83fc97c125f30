"""When an instance ends, all of it ends: daemons, those that won't listen, and what its IDE left behind."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.instances import LocalWorld, are_listed, command_of, new_spec
from tests.support.patience import PATIENCE_S, until, within

from codehub.adapters.local.processes import find_marked
from codehub.adapters.processes import Process, all_pids
from codehub.core.observation import Instance

# Two forks and a session of its own, as daemons do it; without the environment that would tell whose it is.
DAEMON = (
    "(setsid env -i /bin/sh -c 'trap \"\" TERM HUP; echo $$ > daemon; while :; do sleep 5; done' "
    ">/dev/null 2>&1 </dev/null &)"
)


async def daemon_in(world: LocalWorld, workspace_id: UUID) -> Process:
    """Start a daemon in a workspace and return it as this machine sees it."""
    await world.inside(workspace_id, DAEMON)
    uid = world.instances.uid_of(workspace_id)

    def daemons() -> list[Process]:
        return [
            each for each in find_marked(frozenset({b"no\0ne"}), owner=uid) if b"trap" in command_of(each)
        ]

    async def there() -> bool:
        return bool(daemons())

    await until(there)
    return daemons()[0]


async def test_a_daemon_that_will_not_listen_ends_with_its_workspace(world: LocalWorld) -> None:
    workspace_id = await world.run()
    daemon = await daemon_in(world, workspace_id)
    await world.instances.delete(workspace_id)
    assert not daemon.alive()


async def test_what_a_dead_ide_left_does_not_count_as_running_and_is_ended_by_the_next_start(
    world: LocalWorld,
) -> None:
    spec = new_spec()
    workspace_id = await world.run(spec)
    daemon = await daemon_in(world, workspace_id)
    await world.die(workspace_id)

    async def is_dead() -> bool:
        instance = await world.instances.status(workspace_id)
        return instance is not None and instance.has_ended

    await until(is_dead)
    await world.instances.start(spec, f"volume of {workspace_id}")
    assert not daemon.alive()


async def test_nothing_that_was_tried_is_left_as_a_zombie(sandboxed: LocalWorld) -> None:
    before = zombies_of(os.getpid())
    await sandboxed.instances.try_out()
    assert zombies_of(os.getpid()) <= before


async def test_what_ends_before_it_could_be_watched_is_not_left_as_a_zombie(
    sandboxed: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine where nothing could be started: nobody is told of a process then."""
    before, of = zombies_of(os.getpid()), Process.of

    def ended(pid: int) -> Process | None:
        os.kill(pid, signal.SIGKILL)
        while of(pid) is not None:  # killed, and soon a zombie
            os.sched_yield()
        return None

    spec = new_spec()
    volume_id = await sandboxed.make_volume(spec)
    monkeypatch.setattr(Process, "of", ended)
    await sandboxed.instances.start(spec, volume_id)
    assert zombies_of(os.getpid()) <= before


def zombies_of(parent: int) -> set[int]:
    """Return the children of a process that have ended and that it did not ask about."""
    zombies = set()
    for pid in all_pids():
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z" and int(fields[1]) == parent:
                zombies.add(pid)
    return zombies


async def test_zombies_of_orphans_are_reaped(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    await sandboxed.inside(workspace_id, "for i in $(seq 20); do (setsid true &); done")

    async def no_zombies() -> bool:
        return "Z" not in await sandboxed.inside(workspace_id, "cut -d')' -f2 /proc/[0-9]*/stat | cut -c2")

    await until(no_zombies)


async def test_an_ide_is_asked_before_it_is_killed(world: LocalWorld) -> None:
    workspace_id = await world.run()
    await world.post(workspace_id, "/say-goodbye")
    await world.instances.delete(workspace_id)
    assert (world.home(workspace_id) / "last-words").read_text() == "goodbye"
    assert not world.instances.run_directory.of(workspace_id).directory.exists()


async def test_all_are_stopped_together_within_ten_seconds_even_if_they_will_not_listen(
    world: LocalWorld,
) -> None:
    ids = [await world.run() for _ in range(3)]
    daemons = [await daemon_in(world, each) for each in ids]
    async with within(10):
        await world.instances.stop_all()
    assert await world.instances.list_all() == {}
    assert not any(daemon.alive() for daemon in daemons)


async def test_one_workspace_can_not_end_what_another_runs(world: LocalWorld) -> None:
    workspace_id, other = await world.run(), await world.run()
    await world.inside(workspace_id, f"(CODEHUB_WORKSPACE={other} setsid sleep 60 >/dev/null 2>&1 &)")
    await world.instances.delete(other)
    await are_listed(world.instances, {workspace_id: Instance(running=True, healthy=True)})
    async with asyncio.timeout(PATIENCE_S):
        await world.instances.delete(workspace_id)
