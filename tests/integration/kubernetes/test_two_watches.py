"""Two watches of one process, of which that of claims is behind: no Pod seems to have lost its home."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.instances import become_healthy, new_spec
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world
from tests.support.patience import until

from codehub.adapters.kubernetes.contents import Changes, Listing
from codehub.ports.storage import Home

pytestmark = KUBERNETES


@pytest.fixture
async def world(cluster: TestCluster, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    async with kubernetes_world(cluster, tmp_path) as made:
        yield made


@pytest.fixture
async def another(world: KubernetesWorld, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    """Another process of the same installation."""
    made = KubernetesWorld(world.cluster, world.namespace, tmp_path, install_id=world.install_id)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(made.client.close)
        for cache in made.caches:
            cache.open()
            stack.push_async_callback(cache.close)
            await cache.objects()
        yield made


async def test_a_pod_whose_claim_is_not_listed_has_the_claims_listed_anew(
    world: KubernetesWorld, another: KubernetesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, lists = another.caches[1], 0
    replace = claims._contents.replace

    def hear_nothing(_event: Any) -> Changes:
        return frozenset()

    def list_anew(listing: Listing[Any], version: int) -> Changes:
        nonlocal lists
        lists += 1
        return replace(listing, version)

    monkeypatch.setattr(claims._contents, "apply", hear_nothing)
    monkeypatch.setattr(claims._contents, "replace", list_anew)
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    # A busy API server may have ended the watch meanwhile, and then it is listed already.
    assert (await another.storage.list_volumes() == {}) == (lists == 0)

    async def lists_the_pod() -> bool:
        return spec.workspace_id in await another.instances.list_all()

    await until(lists_the_pod)
    listed = await another.storage.list_volumes()
    assert listed[spec.workspace_id].volume_id == volume_id


async def test_a_pod_on_a_claim_that_is_listed_as_the_one_before_has_the_claims_listed_anew(
    world: KubernetesWorld, another: KubernetesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = new_spec()
    earlier_id = await world.make_volume(spec)

    async def lists_the_earlier_one() -> bool:
        listed = (await another.storage.list_volumes()).get(spec.workspace_id)
        return listed is not None and listed.volume_id == earlier_id

    await until(lists_the_earlier_one)

    def hear_nothing(_event: Any) -> Changes:
        return frozenset()

    monkeypatch.setattr(another.caches[1]._contents, "apply", hear_nothing)
    await world.storage.delete_volume(Home(spec.workspace_id, spec.home_store_key), earlier_id)
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    assert await lists_the_earlier_one()

    async def lists_the_pod() -> bool:
        return spec.workspace_id in await another.instances.list_all()

    await until(lists_the_pod)
    listed = await another.storage.list_volumes()
    assert listed[spec.workspace_id].volume_id == volume_id


async def test_a_pod_makes_the_claims_be_listed_once_at_most(
    world: KubernetesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(world.claims, "doubt_without", lambda *about: asked.append(about[0]))
    workspace_id = await world.run()
    for _ in range(3):
        assert workspace_id in await world.instances.list_all()
    assert asked == [workspace_id]
