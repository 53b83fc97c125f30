"""What platforms promise whose deletions take time: what is ending is there until it is gone, nothing takes
its place before that, and who waits is told what holds it. On Docker a deletion is done or refused.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.support.endings import EndingWorld, KubernetesEndings, MemoryEndings
from tests.support.instances import become_healthy, new_spec
from tests.support.kubernetes import KUBERNETES_SUITE, Kubernetes
from tests.support.kubernetes_world import kubernetes_world

from codehub.core.observation import Instance, Volume
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home

Impatient = Callable[[], None]


@pytest.fixture(params=["memory", pytest.param("kubernetes", marks=KUBERNETES_SUITE)])
async def platform(
    request: pytest.FixtureRequest, kubernetes: Kubernetes, tmp_path: Path
) -> AsyncIterator[EndingWorld]:
    if request.param == "memory":
        yield MemoryEndings()
        return
    async with kubernetes_world(kubernetes(), tmp_path) as in_cluster:
        endings = KubernetesEndings(in_cluster)
        yield endings
        endings.release_all()


@pytest.fixture
def impatient(platform: EndingWorld, monkeypatch: pytest.MonkeyPatch) -> Impatient:
    return lambda: platform.lose_patience(monkeypatch)


async def running(platform: EndingWorld) -> tuple[InstanceSpec, str]:
    spec = new_spec()
    volume_id = await platform.world.make_volume(spec)
    await platform.world.instances.start(spec, volume_id)
    await become_healthy(platform.world.instances, spec.workspace_id)
    return spec, volume_id


async def test_an_instance_that_is_held_is_listed_until_it_is_gone_and_nothing_runs_beside_it(
    platform: EndingWorld, impatient: Impatient
) -> None:
    spec, volume_id = await running(platform)
    instances = platform.world.instances
    before = await platform.world.identity(spec.workspace_id)
    platform.hold_instance(spec.workspace_id)
    impatient()
    with pytest.raises(BackendUnreachable, match="NodeLost"):
        await instances.delete(spec.workspace_id)
    (listed,) = (await instances.list_all()).values()
    assert isinstance(listed, Instance)
    assert not listed.running
    assert await instances.resolve_upstream(spec.workspace_id) is None
    with pytest.raises(BackendUnreachable, match="NodeLost"):
        await instances.start(spec, volume_id)
    assert await platform.world.identity(spec.workspace_id) == before


async def test_a_start_waits_for_the_instance_that_ends(platform: EndingWorld) -> None:
    spec, volume_id = await running(platform)
    instances = platform.world.instances
    before = await platform.world.identity(spec.workspace_id)
    platform.hold_instance(spec.workspace_id)
    with pytest.MonkeyPatch.context() as patch:
        platform.lose_patience(patch)
        with pytest.raises(BackendUnreachable):
            await instances.delete(spec.workspace_id)
    starting = asyncio.create_task(instances.start(spec, volume_id))
    await asyncio.sleep(0)
    platform.release_instance(spec.workspace_id)
    await starting
    await become_healthy(instances, spec.workspace_id)
    assert await platform.world.identity(spec.workspace_id) != before


async def test_a_volume_that_is_held_is_there_until_it_is_gone_and_nothing_begins_on_it(
    platform: EndingWorld, impatient: Impatient
) -> None:
    spec, storage = new_spec(), platform.storage
    home = Home(spec.workspace_id, spec.home_store_key)
    volume_id = await platform.world.make_volume(spec)
    platform.hold_volume(home)
    impatient()
    for _ in range(2):
        with pytest.raises(BackendUnreachable, match="ClaimHeld"):
            await storage.delete_volume(home, volume_id)
    assert await storage.list_volumes() == {home.workspace_id: Volume(volume_id)}
    with pytest.raises(BackendUnreachable, match="ClaimHeld"):
        await platform.world.instances.start(spec, volume_id)
    with pytest.raises(BackendUnreachable, match="ClaimHeld"):
        await storage.provision(home)
    with pytest.raises(BackendUnreachable, match="ClaimHeld"):
        await storage.is_worked_on(home, volume_id)
    assert await platform.world.instances.list_all() == {}


async def test_a_home_is_made_anew_once_the_one_that_ends_is_gone(platform: EndingWorld) -> None:
    spec, storage = new_spec(), platform.storage
    home = Home(spec.workspace_id, spec.home_store_key)
    volume_id = await platform.world.make_volume(spec)
    platform.hold_volume(home)
    with pytest.MonkeyPatch.context() as patch:
        platform.lose_patience(patch)
        with pytest.raises(BackendUnreachable):
            await storage.delete_volume(home, volume_id)
    making = asyncio.create_task(platform.world.make_volume(spec))
    await asyncio.sleep(0)
    platform.release_volume(home)
    made = await making
    assert made != volume_id
    assert await storage.list_volumes() == {home.workspace_id: Volume(made)}
