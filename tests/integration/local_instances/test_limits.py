"""What a workspace may use: no more processes than it was given, nor memory, whatever it tries."""

import os

import pytest
from tests.support.instances import LocalWorld, local_world, new_spec
from tests.support.patience import until

from codehub.adapters.local import limits
from codehub.core.workspace import Resources

BOMB = """/usr/bin/python3 -I -S -c '
import os, signal
children = []
try:
    while len(children) < 200:
        if (pid := os.fork()) == 0:
            signal.pause()
        children.append(pid)
except OSError:
    pass
print(len(children))
for pid in children: os.kill(pid, 9)
'"""


async def forks_until_refused(world: LocalWorld, resources: Resources) -> int:
    return int(await world.inside(await world.run(new_spec(resources=resources)), BOMB))


async def test_a_workspace_has_no_more_processes_than_it_was_given(sandboxed: LocalWorld) -> None:
    assert 20 < await forks_until_refused(sandboxed, Resources(memory_mb=512, cpus=1.0, pids=40)) < 40


async def test_without_control_groups_the_number_of_its_users_processes_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none = limits.Limits({}, is_unified=False)
    monkeypatch.setattr("codehub.adapters.local.instances.find_limits", lambda *_: none)
    async with local_world() as world:
        if any("ISOLATED" in warning for warning in world.instances.warnings) and os.geteuid() != 0:
            pytest.skip("without a sandbox and without root there is no such limit")
        assert 20 < await forks_until_refused(world, Resources(memory_mb=512, cpus=1.0, pids=40)) < 40


async def test_what_is_not_limited_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    none = limits.Limits({}, is_unified=False)
    monkeypatch.setattr("codehub.adapters.local.instances.find_limits", lambda *_: none)
    async with local_world() as world:
        assert any("no limit on memory, cpu" in warning for warning in world.instances.warnings)
        await world.run()


async def test_who_takes_more_memory_than_given_is_ended_and_nobody_else(sandboxed: LocalWorld) -> None:
    if any("memory" in warning for warning in sandboxed.instances.warnings):
        pytest.skip("there are no control groups here")
    other = await sandboxed.run()
    workspace_id = await sandboxed.run(new_spec(resources=Resources(memory_mb=64, cpus=1.0, pids=64)))
    command = "/usr/bin/python3 -I -S -c 'x = bytearray(256 << 20); print(len(x))'; echo ended"

    async def was_ended() -> bool:
        # The kernel picks whom it ends: the greedy one, or the IDE with all that it started.
        try:
            output = await sandboxed.inside(workspace_id, command)
        except (OSError, AssertionError):
            return True
        return str(256 << 20) not in output

    assert await was_ended()
    assert await sandboxed.inside(other, "echo here") == "here\n"


async def test_the_control_groups_go_with_the_instance(sandboxed: LocalWorld) -> None:
    launcher = sandboxed.instances.launcher
    assert launcher is not None
    workspace_id = await sandboxed.run()
    groups = [parent / str(workspace_id) for parent in launcher.limits.parents.values()]
    assert all(group.exists() for group in groups)
    await sandboxed.instances.delete(workspace_id)

    async def gone() -> bool:
        return not any(group.exists() for group in groups)

    await until(gone)
