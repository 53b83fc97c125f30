"""What is removed is what was looked at: of the same name, made anew between the look and the deletion, it
stays.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.hands import remake_claim
from tests.support.cluster.job_image import JOB
from tests.support.cluster.pods import light_pod
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world
from tests.support.patience import block_until, until
from tests.support.storages import new_home

from codehub.adapters.kubernetes.job_runner import JobRunner
from codehub.adapters.kubernetes.kinds import CLAIMS, JOBS, PODS, Kind
from codehub.adapters.kubernetes.labels import HELPER, claim_name, job_name, labels_of, pod_name
from codehub.adapters.system.machine import SystemClock

pytestmark = KUBERNETES
Object = Mapping[str, Any]


@pytest.fixture
async def world(cluster: TestCluster, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    async with kubernetes_world(cluster, tmp_path) as opened:
        yield opened


@pytest.fixture
def remade_before_its_deletion(
    world: KubernetesWorld, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Kind, Callable[[Object], None]], None]:
    """Let somebody make an object of this kind anew when its deletion has been decided."""
    delete = world.client.delete

    def arrange(kind: Kind, remake: Callable[[Object], None]) -> None:
        async def delete_too_late(asked: Kind, name: str, **options: Any) -> Any:
            if asked is kind:
                monkeypatch.setattr(world.client, "delete", delete)
                there = world.cluster.ask("GET", kind.path(world.namespace, name))
                await asyncio.to_thread(remake, there)
            return await delete(asked, name, **options)

        monkeypatch.setattr(world.client, "delete", delete_too_late)

    return arrange


def remake(cluster: TestCluster, path: str, made: Object) -> None:
    cluster.ask("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    block_until(lambda: cluster.find(path) is None)
    cluster.apply(made)


def survives(cluster: TestCluster, path: str, before: str) -> bool:
    metadata = cluster.ask("GET", path)["metadata"]
    return metadata["uid"] != before and "deletionTimestamp" not in metadata


Arrange = Callable[[Kind, Callable[[Object], None]], None]


async def test_a_pod_that_was_made_anew_is_not_deleted(
    world: KubernetesWorld, remade_before_its_deletion: Arrange
) -> None:
    workspace_id = await world.run()
    path = PODS.path(world.namespace, pod_name(workspace_id))
    before = world.cluster.ask("GET", path)["metadata"]
    another = light_pod(world.namespace, pod_name(workspace_id), **before["labels"])
    remade_before_its_deletion(PODS, lambda _pod: remake(world.cluster, path, another))
    await world.instances.delete(workspace_id)
    assert survives(world.cluster, path, before["uid"])


async def test_a_claim_that_was_made_anew_is_not_deleted(
    world: KubernetesWorld, remade_before_its_deletion: Arrange
) -> None:
    home = new_home()
    volume_id = await world.storage.provision(home)
    world.write(home, {"kept": b"kept"})
    path = CLAIMS.path(world.namespace, claim_name(home.workspace_id))
    before = world.claim(home)["metadata"]["uid"]
    remade_before_its_deletion(CLAIMS, lambda claim: remake_claim(world.cluster, claim))
    await world.storage.delete_volume(home, volume_id)
    assert survives(world.cluster, path, before)
    await until(lambda: world.files(home) == {"kept": b"kept"})


async def test_a_job_that_was_made_anew_is_not_ended(
    world: KubernetesWorld, remade_before_its_deletion: Arrange
) -> None:
    workspace_id = new_home().workspace_id
    job = waiting_job(world, job_name(workspace_id), labels_of(world.install_id, workspace_id, HELPER))
    world.cluster.apply(job)
    path = JOBS.path(world.namespace, job_name(workspace_id))
    before = world.cluster.ask("GET", path)["metadata"]["uid"]
    remade_before_its_deletion(JOBS, lambda _job: remake(world.cluster, path, job))
    await JobRunner(world.client, world.install_id, world.pods, image=JOB, clock=SystemClock()).end(
        workspace_id
    )
    assert survives(world.cluster, path, before)


def waiting_job(world: KubernetesWorld, name: str, labels: Mapping[str, str]) -> Object:
    """A Job of which no Pod is made yet."""
    template = light_pod(world.namespace, name, **labels)
    metadata = {"name": name, "namespace": world.namespace, "labels": dict(labels)}
    spec = {"suspend": True, "template": {"metadata": {"labels": dict(labels)}, "spec": template["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
