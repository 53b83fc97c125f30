"""Ways to wait for what a cluster says of an instance: what holds it up, fails it, or has ended it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tests.support.kubernetes_world import KubernetesWorld
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.kubernetes.instances import KubernetesInstances
from codehub.adapters.kubernetes.pod_patch import checked_patch
from codehub.core.messages import Message
from codehub.core.observation import Instance
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import InstanceSpec


def patched(world: KubernetesWorld, container: Mapping[str, Any], **spec: Any) -> KubernetesInstances:
    return world.controller(patch=checked_patch({"spec": {**spec, "container": container}}))


async def held_up(instances: KubernetesInstances, spec: InstanceSpec, volume_id: str) -> Message:
    """Start it, as a controller does again and again, until the cluster says why it has to wait."""
    messages: list[Message] = []

    async def has_message() -> bool:
        try:
            await instances.start(spec, volume_id)
        except BackendUnreachable as error:
            messages.append(error.message)
        return bool(messages)

    await until(has_message)
    return messages[-1]


async def failure(instances: KubernetesInstances, spec: InstanceSpec, volume_id: str) -> ActionFailed:
    failures: list[ActionFailed] = []

    async def has_message() -> bool:
        try:
            await instances.start(spec, volume_id)
        except ActionFailed as error:
            failures.append(error)
        return bool(failures)

    await until(has_message)
    return failures[-1]


async def ended(world: KubernetesWorld, workspace_id: UUID, *, seconds: float = PATIENCE_S) -> Instance:
    seen: list[Instance] = []

    async def has_ended() -> bool:
        instance = await world.instances.status(workspace_id)
        is_known = instance is not None and (instance.exit_code, instance.why) != (None, None)
        seen.extend([instance] if instance is not None and is_known else [])
        return bool(seen)

    await until(has_ended, seconds=seconds)
    return seen[-1]
