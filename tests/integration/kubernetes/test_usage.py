"""What a workspace uses on a real cluster: memory and processors by its metrics, its home by its own Pod."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.engine import ManualClock
from tests.support.hands import arrives, signed_in
from tests.support.instances import new_spec
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world, running_in_cluster
from tests.support.patience import ask_until

from codehub.adapters.kubernetes.disk import KubernetesDisk
from codehub.adapters.kubernetes.metrics import PodMetrics, are_pods_measured
from codehub.adapters.system.machine import SystemClock
from codehub.ports.storage import Home

pytestmark = KUBERNETES

_MINUTES_S = 300.0


@pytest.fixture
async def world(cluster: TestCluster, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    async with kubernetes_world(cluster, tmp_path) as world:
        yield world


async def test_memory_and_processors_come_from_the_cluster_s_metrics(world: KubernetesWorld) -> None:
    workspace_id = await world.run()

    async def measured() -> object:
        return await PodMetrics(world.client, world.install_id, clock=SystemClock()).spent(workspace_id)

    spent = await ask_until(measured, lambda spent: spent is not None, seconds=_MINUTES_S)
    assert 0 < spent.memory_mb < 500  # type: ignore[attr-defined]
    assert spent.cpu >= 0  # type: ignore[attr-defined]
    with world.cluster.without("metrics"):
        assert await measured() is None
        assert not await are_pods_measured(world.client)


async def test_a_home_is_measured_in_its_pod_and_rarely(world: KubernetesWorld) -> None:
    spec = new_spec()
    clock = ManualClock()
    disk = KubernetesDisk(world.claims, world.client, world.pods, clock=clock)
    home = Home(spec.workspace_id, spec.home_store_key)
    assert await disk.used_mb(home) is None
    await world.run(spec)
    await world.inside(spec.workspace_id, "head -c 7000000 /dev/urandom > first")
    first = await disk.used_mb(home)
    assert first is not None
    assert 6 <= first < 12
    await world.inside(spec.workspace_id, "head -c 7000000 /dev/urandom > second")
    assert await disk.used_mb(home) == first
    clock.seconds += 600
    second = await disk.used_mb(home)
    assert second is not None
    assert second >= first + 6
    await world.instances.delete(spec.workspace_id)
    assert await disk.used_mb(home) is None


def test_a_workspace_says_what_it_uses(cluster: TestCluster, tmp_path: Path) -> None:
    with running_in_cluster(cluster, tmp_path / "data") as server, signed_in(server) as client:
        path = f"/workspaces/{client.post('/workspaces', json={'name': 'measured'}).json()['id']}"
        arrives(client, path, "RUNNING")
        deadline = time.monotonic() + _MINUTES_S
        while not all((client.get(path).json()["usage"] or {}).get(part) for part in ("memory_mb", "at")):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert client.get(path).json()["usage"]["disk_mb"] is not None
