"""Why a workspace does not run, made for real: a code with facts,
held up where waiting helps, failed where it does not.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.live_watch import Watched, watching
from tests.support.instances import become_healthy, new_spec, post_to
from tests.support.kubernetes import KUBERNETES, Kubernetes
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world
from tests.support.patience import PATIENCE_S, until
from tests.support.whys import ended, failure, held_up, patched

from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.observation import Instance
from codehub.core.workspace import Resources
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceSpec

pytestmark = KUBERNETES
SILENCE_S_MAX = 90.0
SMALL = Resources(memory_mb=64, cpus=0.5, pids=64)


@dataclass
class Quiet:
    watched: Watched
    since_s: float


@pytest.fixture(scope="module", autouse=True)
async def quiet(kubernetes: Kubernetes) -> AsyncIterator[Quiet]:
    """A watch of which nobody changes anything, beside all of these tests: that takes longer than they do
    alone, and they harm no API server.
    """
    async with watching(kubernetes(), silence_s_max=SILENCE_S_MAX) as watched:
        yield Quiet(watched, time.monotonic())


@pytest.fixture
async def world(cluster: TestCluster, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    async with kubernetes_world(cluster, tmp_path) as opened:
        yield opened


@pytest.fixture
async def bounded(cluster: TestCluster, namespace: str, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    """In a namespace of its own, so that its bounds are nobody else's."""
    async with kubernetes_world(cluster, tmp_path, namespace=namespace) as opened:
        yield opened


async def test_what_no_node_has_room_for_waits_and_goes_on_once_it_asks_for_less(
    world: KubernetesWorld,
) -> None:
    spec = new_spec(resources=Resources(memory_mb=1 << 24, cpus=1.0, pids=64))
    volume_id = await world.make_volume(spec)
    message = await held_up(world.instances, spec, volume_id)
    assert message.code == Code.UNSCHEDULABLE
    assert message.facts["nodes"] == "1"
    assert message.facts["lacks"] == [Message(Code.LACKS_RESOURCE, {"nodes": "1", "resource": "memory"})]
    instance = await world.instances.status(spec.workspace_id)
    assert instance == Instance(running=False, healthy=False, why=message)
    less = new_spec(workspace_id=spec.workspace_id)
    await world.instances.start(less, volume_id)
    await become_healthy(world.instances, spec.workspace_id)


async def test_an_image_whose_registry_is_away_is_waited_for(world: KubernetesWorld) -> None:
    spec = new_spec(image_ref="registry.invalid/nothing:1")
    message = await held_up(world.instances, spec, await world.make_volume(spec))
    assert (message.code, message.facts["image"]) == (Code.IMAGE_NOT_PULLED, spec.image_ref)


async def test_an_image_that_is_not_there_and_not_fetched_is_an_error_and_leaves_no_pod(
    world: KubernetesWorld,
) -> None:
    spec = new_spec(image_ref="codehub-test/nothing:1")
    instances = patched(world, {"imagePullPolicy": "Never"})
    error = await failure(instances, spec, await world.make_volume(spec))
    assert (error.message.code, error.reason) == (Code.IMAGE_REFUSED, ErrorReason.IMAGE_PULL_FAILED)
    assert await instances.status(spec.workspace_id) is None


async def test_a_volume_that_can_not_be_mounted_is_waited_for_and_then_it_runs(
    world: KubernetesWorld,
) -> None:
    spec, secret = new_spec(), f"late-{world.install_id}"
    volume = {"name": "late", "secret": {"secretName": secret}}
    instances = patched(world, {"volumeMounts": [{"name": "late", "mountPath": "/late"}]}, volumes=[volume])
    volume_id = await world.make_volume(spec)
    message = await held_up(instances, spec, volume_id)
    assert message.code == Code.VOLUME_NOT_MOUNTED
    assert secret in message.facts["message"]
    before = await world.identity(spec.workspace_id)
    metadata = {"name": secret, "namespace": world.namespace}
    world.cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    await become_healthy(instances, spec.workspace_id)
    assert await world.identity(spec.workspace_id) == before


async def test_what_takes_more_than_its_memory_is_told(world: KubernetesWorld) -> None:
    workspace_id = await world.run(new_spec(resources=SMALL))
    await post_to(world.instances, workspace_id, "/echo", "x" * (200 << 20))
    instance = await ended(world, workspace_id)
    assert instance.why == Message(Code.OUT_OF_MEMORY, {"memory": "64Mi"})


async def test_what_its_node_evicts_is_told(world: KubernetesWorld) -> None:
    instances = patched(world, {"resources": {"limits": {"ephemeral-storage": "1Mi"}}})
    spec = new_spec()
    await instances.start(spec, await world.make_volume(spec))
    await become_healthy(instances, spec.workspace_id)
    await post_to(instances, spec.workspace_id, "/run", "head -c 20000000 /dev/zero > /tmp/large")
    # Its node looks at what was written once a minute, when it has time.
    instance = await ended(world, spec.workspace_id, seconds=3 * PATIENCE_S)
    assert instance.why is not None
    assert instance.why.code == Code.EVICTED
    assert "storage" in instance.why.facts["message"]


async def test_a_quota_is_waited_for_and_then_it_runs(bounded: KubernetesWorld) -> None:
    spec = new_spec()
    volume_id = await bounded.make_volume(spec)
    metadata = {"name": "small", "namespace": bounded.namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    bounded.cluster.apply({**quota, "spec": {"hard": {"requests.memory": "100Mi"}}})
    message = await held_up(bounded.instances, spec, volume_id)
    assert message.code == Code.QUOTA_EXCEEDED
    assert "requests.memory" in message.facts["message"]
    bounded.cluster.ask("DELETE", bounded.cluster.path_of(quota))
    await become_healthy_when_allowed(bounded, spec, volume_id)


async def become_healthy_when_allowed(world: KubernetesWorld, spec: InstanceSpec, volume_id: str) -> None:
    async def is_accepted() -> bool:
        try:
            await world.instances.start(spec, volume_id)
        except BackendUnreachable:
            return False
        return True

    await until(is_accepted)
    await become_healthy(world.instances, spec.workspace_id)


async def test_a_rule_of_the_cluster_is_an_error(bounded: KubernetesWorld) -> None:
    spec = new_spec()
    volume_id = await bounded.make_volume(spec)
    metadata = {"name": "small", "namespace": bounded.namespace}
    limits = [{"type": "Container", "max": {"memory": "100Mi"}}]
    bounded.cluster.apply(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}
    )
    error = await failure(bounded.instances, spec, volume_id)
    assert error.message.code == Code.ADMISSION_REFUSED
    assert "100Mi" in error.message.facts["message"]


async def test_a_quiet_watch_lives_past_the_longest_silence_by_bookmarks_alone(quiet: Quiet) -> None:
    await until(lambda: time.monotonic() > quiet.since_s + SILENCE_S_MAX + 1)
    assert await quiet.watched.names() == {"first"}
    assert quiet.watched.client.watches == 1
