"""What every platform promises of instances. Another joins by a
name in the fixture; no test knows which one it is on.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contracts.platforms import PLATFORMS
from tests.support.docker import Docker
from tests.support.docker_world import docker_world
from tests.support.instances import (
    InstanceWorld,
    MemoryWorld,
    are_listed,
    become_healthy,
    local_world,
    new_spec,
)
from tests.support.kubernetes import Kubernetes
from tests.support.kubernetes_world import kubernetes_world
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.health import answer_status
from codehub.core.observation import Instance
from codehub.core.workspace import Resources
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec

HEALTHY = Instance(running=True, healthy=True)


@pytest.fixture(autouse=True)
def patient_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a server that answers is well: nobody takes it for ill after two
    seconds.
    """
    monkeypatch.setattr(answer_status, "__defaults__", (PATIENCE_S,))


@pytest.fixture(params=PLATFORMS)
async def platform(
    request: pytest.FixtureRequest, docker: Docker, kubernetes: Kubernetes, tmp_path: Path
) -> AsyncIterator[InstanceWorld]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    if request.param == "docker":
        async with docker_world(await docker()) as on_docker:
            yield on_docker
        return
    if request.param == "kubernetes":
        async with kubernetes_world(kubernetes(), tmp_path) as in_cluster:
            yield in_cluster
        return
    async with local_world(sandbox=request.param == "local") as world:
        yield world


async def running(platform: InstanceWorld, spec: InstanceSpec) -> str:
    volume_id = await platform.make_volume(spec)
    await platform.instances.start(spec, volume_id)
    await become_healthy(platform.instances, spec.workspace_id)
    return volume_id


async def test_what_was_started_becomes_healthy_and_is_listed_as_it_is(platform: InstanceWorld) -> None:
    spec = new_spec()
    assert await platform.instances.status(spec.workspace_id) is None
    assert await platform.instances.list_all() == {}
    await running(platform, spec)
    await are_listed(platform.instances, {spec.workspace_id: HEALTHY})


async def test_a_second_start_finds_the_first_and_leaves_it_alone(platform: InstanceWorld) -> None:
    spec = new_spec()
    volume_id = await platform.make_volume(spec)
    await platform.instances.start(spec, volume_id)
    first = await platform.identity(spec.workspace_id)
    await platform.instances.start(spec, volume_id)  # while it boots
    await become_healthy(platform.instances, spec.workspace_id)
    await platform.instances.start(spec, volume_id)
    assert await platform.identity(spec.workspace_id) == first


async def test_starts_at_once_make_one_instance(platform: InstanceWorld) -> None:
    spec = new_spec()
    volume_id = await platform.make_volume(spec)
    await asyncio.gather(*(platform.instances.start(spec, volume_id) for _ in range(5)))
    await become_healthy(platform.instances, spec.workspace_id)
    assert list(await platform.instances.list_all()) == [spec.workspace_id]


@pytest.mark.parametrize("made", [True, False], ids=["another volume is there", "no volume is there"])
async def test_a_start_refuses_any_volume_but_the_one_it_names(platform: InstanceWorld, made: bool) -> None:
    spec = new_spec()
    if made:
        await platform.make_volume(spec)
    with pytest.raises(ActionFailed, match="NoSuchVolume"):
        await platform.instances.start(spec, "not-this-one")
    assert await platform.instances.list_all() == {}


async def test_a_refused_start_leaves_the_running_instance_alone(platform: InstanceWorld) -> None:
    spec = new_spec()
    await running(platform, spec)
    before = await platform.identity(spec.workspace_id)
    with pytest.raises(ActionFailed, match="NoSuchVolume"):
        await platform.instances.start(spec, "not-this-one")
    assert await platform.identity(spec.workspace_id) == before
    await become_healthy(platform.instances, spec.workspace_id)


@pytest.mark.parametrize(
    "changes",
    [{"resources": Resources(memory_mb=256, cpus=0.5, pids=64)}, {"image_ref": "codehub-test/light:another"}],
    ids=["resources", "image"],
)
async def test_a_changed_spec_is_run_in_place_of_the_old_one(
    platform: InstanceWorld, changes: dict[str, object]
) -> None:
    spec = new_spec()
    volume_id = await running(platform, spec)
    before = await platform.identity(spec.workspace_id)
    changed = replace(spec, **changes)  # type: ignore[arg-type]
    await platform.instances.start(changed, volume_id)
    await become_healthy(platform.instances, spec.workspace_id)
    assert await platform.identity(spec.workspace_id) != before
    await are_listed(platform.instances, {spec.workspace_id: HEALTHY})


async def test_illness_is_seen_and_a_start_replaces_the_ill(platform: InstanceWorld) -> None:
    spec = new_spec()
    volume_id = await running(platform, spec)
    before = await platform.identity(spec.workspace_id)
    await platform.fall_ill(spec.workspace_id)
    ill = Instance(running=True, healthy=False)
    assert await platform.instances.status(spec.workspace_id) == ill
    assert await platform.instances.list_all() == {spec.workspace_id: ill}
    await platform.instances.start(spec, volume_id)
    await become_healthy(platform.instances, spec.workspace_id)
    assert await platform.identity(spec.workspace_id) != before


async def test_a_death_is_seen_and_a_start_replaces_the_dead(platform: InstanceWorld) -> None:
    spec = new_spec()
    volume_id = await running(platform, spec)
    await platform.die(spec.workspace_id)
    dead = Instance(running=False, healthy=False, has_ended=True, exit_code=1)

    async def is_dead() -> bool:
        return await platform.instances.status(spec.workspace_id) == dead

    await until(is_dead)
    (listed,) = (await platform.instances.list_all()).values()
    assert replace(listed, exit_code=1) == dead
    assert await platform.instances.resolve_upstream(spec.workspace_id) is None
    await platform.instances.start(spec, volume_id)
    await become_healthy(platform.instances, spec.workspace_id)


async def test_after_a_delete_nothing_is_left_and_another_delete_is_fine(platform: InstanceWorld) -> None:
    spec = new_spec()
    await platform.instances.delete(spec.workspace_id)
    await running(platform, spec)
    await platform.instances.delete(spec.workspace_id)
    assert await platform.instances.status(spec.workspace_id) is None
    assert await platform.instances.list_all() == {}
    await platform.instances.delete(spec.workspace_id)


async def test_a_deleted_instance_can_be_started_again_on_its_volume(platform: InstanceWorld) -> None:
    spec = new_spec()
    volume_id = await running(platform, spec)
    await platform.instances.delete(spec.workspace_id)
    await platform.instances.start(spec, volume_id)
    await become_healthy(platform.instances, spec.workspace_id)


async def test_a_delete_concerns_one_workspace_alone(platform: InstanceWorld) -> None:
    deleted, other = new_spec(), new_spec()
    await asyncio.gather(running(platform, deleted), running(platform, other))
    await platform.instances.delete(deleted.workspace_id)
    await are_listed(platform.instances, {other.workspace_id: HEALTHY})


async def test_only_what_runs_has_an_upstream(platform: InstanceWorld) -> None:
    spec = new_spec()
    assert await platform.instances.resolve_upstream(spec.workspace_id) is None
    await running(platform, spec)
    assert await platform.instances.resolve_upstream(spec.workspace_id) is not None
    await platform.instances.delete(spec.workspace_id)
    assert await platform.instances.resolve_upstream(spec.workspace_id) is None


async def test_a_death_and_a_deletion_are_hinted(platform: InstanceWorld) -> None:
    spec = new_spec()
    await running(platform, spec)
    async with asyncio.timeout(PATIENCE_S), platform.instances.events() as events:
        await platform.die(spec.workspace_id)
        assert await anext(events) == spec.workspace_id
        await platform.instances.delete(spec.workspace_id)
        assert await anext(events) == spec.workspace_id


async def test_logs_show_what_it_said_and_no_more_lines_than_asked_for(platform: InstanceWorld) -> None:
    spec = new_spec()
    assert [line async for line in platform.instances.logs(spec.workspace_id)] == []
    await running(platform, spec)
    log = b"".join([line async for line in platform.instances.logs(spec.workspace_id)])
    assert b"start" in log
    assert [line async for line in platform.instances.logs(spec.workspace_id, tail=0)] == []
