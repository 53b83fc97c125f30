"""A world in a cluster, and the way in. Apart from the others: it takes what a cluster takes to import."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

from tests.support.cluster.cluster import TestCluster
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world
from tests.support.patience import until
from tests.support.programs import program

from codehub.adapters.kubernetes.instance_access import KubernetesInstanceAccess
from codehub.adapters.kubernetes.pods import UID

_END_S_MAX = 5.0


class KubernetesAccessWorld:
    has_loopback = True

    def __init__(self, world: KubernetesWorld) -> None:
        self.world = world
        self.instances = world.instances
        self.access = KubernetesInstanceAccess(world.client, world.pods)
        self.make_volume, self.identity = world.make_volume, world.identity
        self.fall_ill, self.die = world.fall_ill, world.die
        self._kept: dict[UUID, set[int]] = {}
        """Instances that may be used again, with what ran in each when nobody had used it."""

    def keep(self, workspace_id: UUID) -> None:
        self._kept[workspace_id] = self._processes(workspace_id)

    async def idle(self) -> UUID | None:
        """Return one in which all that a test began has ended. Others are given up."""
        while self._kept:
            workspace_id, before = self._kept.popitem()
            if await self._is_as(workspace_id, before):
                self._kept[workspace_id] = before
                return workspace_id
            await self.instances.delete(workspace_id)
        return None

    async def _is_as(self, workspace_id: UUID, before: set[int]) -> bool:
        if not self._processes(workspace_id) >= before:
            return False  # it has ended itself
        with suppress(TimeoutError):
            await until(lambda: self._processes(workspace_id) == before, seconds=_END_S_MAX)
            return True
        return False

    def _processes(self, workspace_id: UUID) -> set[int]:
        pod = self.world.pod(workspace_id)
        return set() if pod is None else set(self.world.cluster.processes_in(pod))

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
