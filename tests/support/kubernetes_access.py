"""A world in a cluster, and the way in. Apart from the others: it takes what a cluster takes to import."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from tests.support.cluster.cluster import TestCluster
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world
from tests.support.programs import program

from codehub.adapters.kubernetes.instance_access import KubernetesInstanceAccess
from codehub.adapters.kubernetes.pods import UID


class KubernetesAccessWorld:
    has_loopback = True

    def __init__(self, world: KubernetesWorld) -> None:
        self.world = world
        self.instances = world.instances
        self.access = KubernetesInstanceAccess(world.client, world.pods)
        self.make_volume, self.identity = world.make_volume, world.identity
        self.fall_ill, self.die = world.fall_ill, world.die

    def program(self, *call: object) -> tuple[str, ...]:
        name, *arguments = call
        return program(str(name), *arguments)

    def uid_of(self, workspace_id: UUID) -> int:
        del workspace_id
        return UID


@asynccontextmanager
async def kubernetes_access_world(
    cluster: TestCluster, directory: Path
) -> AsyncIterator[KubernetesAccessWorld]:
    async with kubernetes_world(cluster, directory) as world:
        yield KubernetesAccessWorld(world)
