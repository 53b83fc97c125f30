"""What takes an instance's place from it, made for real: a node that falls silent, comes
back, or is out of service; a volume that no node gets; somebody more important.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.hands import MERGE, out_of_service
from tests.support.cluster.layout import NODE
from tests.support.cluster.pods import claim, light_pod
from tests.support.far_volumes import far_volume, refuse_attachment
from tests.support.instances import become_healthy, new_spec
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world
from tests.support.nodes import is_ready, power_off
from tests.support.patience import block_until, until
from tests.support.whys import held_up, patched

from codehub.adapters.kubernetes.kinds import NODES
from codehub.adapters.kubernetes.labels import claim_name
from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable

pytestmark = KUBERNETES
_SEAT = "codehub.test/seat"


@pytest.fixture
async def world(cluster: TestCluster, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    async with kubernetes_world(cluster, tmp_path) as opened:
        yield opened


# A node that is gone


async def test_a_pod_on_a_silent_node_is_neither_replaced_nor_taken_for_gone(world: KubernetesWorld) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    before = await world.identity(spec.workspace_id)
    await until(lambda: is_ready(world.pod(spec.workspace_id)))
    with world.cluster.without("kubelet"):

        async def is_out_of_sight() -> bool:
            instance = await world.instances.status(spec.workspace_id)
            return instance is not None and instance.is_out_of_sight

        await until(is_out_of_sight, seconds=180)
        (listed,) = (await world.instances.list_all()).values()
        assert listed.why == Message(Code.NODE_LOST, {"node": "node-1"})
        with pytest.raises(BackendUnreachable) as refused:
            await world.instances.start(spec, volume_id)
        assert refused.value.message.code == Code.NODE_LOST
    await become_healthy(world.instances, spec.workspace_id)
    assert await world.identity(spec.workspace_id) == before


async def test_a_deletion_that_its_node_does_not_confirm_is_waited_for(
    world: KubernetesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.adapters.kubernetes.instances._GONE_S_MAX", 3.0)
    workspace_id = await world.run()
    with world.cluster.without("kubelet"):
        with pytest.raises(BackendUnreachable) as refused:
            await world.instances.delete(workspace_id)
        assert refused.value.message.code == Code.NODE_LOST
        assert await world.instances.status(workspace_id) is not None
    await world.instances.delete(workspace_id)
    assert await world.instances.status(workspace_id) is None


async def test_what_ran_on_a_node_that_is_out_of_service_runs_again_once_there_is_a_node(
    world: KubernetesWorld,
) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    await world.inside(spec.workspace_id, "echo kept > /home/coder/notes")
    await until(lambda: is_ready(world.pod(spec.workspace_id)))
    before = await world.identity(spec.workspace_id)
    with world.cluster.without("kubelet"):
        power_off(world.cluster, world.pod(spec.workspace_id))
        await until(lambda: is_lost(world, spec.workspace_id))
        with out_of_service(world.cluster):

            async def is_gone() -> bool:
                return await world.instances.status(spec.workspace_id) is None

            await until(is_gone)
            message = await held_up(world.instances, spec, volume_id)
            assert message.code == Code.UNSCHEDULABLE
            (refusal,) = message.facts["lacks"]
            assert refusal.code == Code.NODES_REFUSE
            assert "taint" in refusal.facts["why"]
    await become_healthy(world.instances, spec.workspace_id)
    assert await world.identity(spec.workspace_id) != before
    assert (await world.inside(spec.workspace_id, "cat /home/coder/notes")).strip() == "kept"


async def is_lost(world: KubernetesWorld, workspace_id: UUID) -> bool:
    instance = await world.instances.status(workspace_id)
    return instance is not None and instance.why == Message(Code.NODE_LOST, {"node": NODE})


# A volume that no node gets


async def test_a_volume_that_its_driver_does_not_attach_is_waited_for_and_can_be_given_up(
    world: KubernetesWorld,
) -> None:
    """The test is the driver's attacher: the cluster asks it for an attachment, and it refuses."""
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    with far_claim(world) as name:
        mounts = [{"name": "far", "mountPath": "/far"}]
        volumes = [{"name": "far", "persistentVolumeClaim": {"claimName": name}}]
        instances = patched(world, {"volumeMounts": mounts}, volumes=volumes)
        await instances.start(spec, volume_id)
        await until(lambda: refuse_attachment(world.cluster, name, "the disk is attached to node-2"))
        message = await held_up(instances, spec, volume_id)
        assert message.code == Code.VOLUME_NOT_ATTACHED
        assert "the disk is attached to node-2" in message.facts["message"]
        await instances.delete(spec.workspace_id)
        assert await instances.status(spec.workspace_id) is None


@contextmanager
def far_claim(world: KubernetesWorld) -> Iterator[str]:
    name = f"far-{world.install_id}"
    wanted = claim(world.namespace, name, storageClassName="", volumeName=name)
    with far_volume(world.cluster, name, world.namespace, name):
        world.cluster.apply(wanted)
        path = world.cluster.path_of(wanted)
        try:
            # Before that no node fits whoever wants it, which is another cause.
            block_until(lambda: world.cluster.ask("GET", path)["status"].get("phase") == "Bound")
            yield name
        finally:
            world.cluster.ask("DELETE", path)


# A home that is for one Pod at a time


async def test_a_home_that_is_for_one_pod_at_a_time_goes_to_no_second_one(
    cluster: TestCluster, tmp_path: Path
) -> None:
    """Whoever makes that: codehub's own Jobs and Pods take turns."""
    async with kubernetes_world(cluster, tmp_path, access_mode="ReadWriteOncePod") as world:
        workspace_id = await world.run()
        second = light_pod(world.namespace, f"second-{world.install_id}", claim_name(workspace_id))
        cluster.apply(second)
        path = cluster.path_of(second)
        try:
            await until(lambda: "ReadWriteOncePod" in json.dumps(cluster.ask("GET", path)["status"]))
            await world.instances.delete(workspace_id)
            await until(lambda: is_ready(cluster.ask("GET", path)))
        finally:
            cluster.ask("DELETE", path)


# Somebody more important


async def test_what_had_to_make_room_for_something_more_important_is_told(world: KubernetesWorld) -> None:
    with one_seat(world) as urgent:
        instances = patched(world, {"resources": {"limits": {_SEAT: "1"}}})
        spec = new_spec()
        volume_id = await world.make_volume(spec)
        await instances.start(spec, volume_id)
        await become_healthy(instances, spec.workspace_id)
        pod = light_pod(world.namespace, urgent)
        pod["spec"]["priorityClassName"] = urgent
        pod["spec"]["containers"][0]["resources"]["limits"][_SEAT] = "1"
        world.cluster.apply(pod)

        async def is_gone() -> bool:
            return await instances.status(spec.workspace_id) is None

        await until(is_gone)
        message = await held_up(instances, spec, volume_id)
        assert message.code == Code.PLACE_TAKEN
        assert message.facts["message"].startswith("Preempted by pod")
        assert message.facts["why"].facts["lacks"] == [
            Message(Code.LACKS_RESOURCE, {"nodes": "1", "resource": _SEAT})
        ]
        world.cluster.ask("DELETE", world.cluster.path_of(pod))
        await become_healthy(instances, spec.workspace_id)


@contextmanager
def one_seat(world: KubernetesWorld) -> Iterator[str]:
    """A node with a resource of which there is one, and a class of Pods that may take it from others."""
    name, path = f"urgent-{world.install_id}", f"{NODES.path('', NODE)}/status"
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
    }
    world.cluster.apply(important)
    world.cluster.ask("PATCH", path, seats("1"), kind=MERGE)
    try:
        yield name
    finally:
        world.cluster.ask("PATCH", path, seats(None), kind=MERGE)
        world.cluster.ask("DELETE", world.cluster.path_of(important))


def seats(number: str | None) -> Mapping[str, Any]:
    return {"status": {"capacity": {_SEAT: number}, "allocatable": {_SEAT: number}}}
