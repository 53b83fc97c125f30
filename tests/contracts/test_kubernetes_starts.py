"""When a start on Kubernetes returns: with the container, so that its first breath is watched; and soon, if
that is long in coming.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest
from tests.contracts.test_kubernetes_pods import INSTALLATION, WORKSPACE
from tests.support.instances import new_spec

from codehub.adapters.kubernetes.instances import KubernetesInstances
from codehub.adapters.kubernetes.pods import Pod, PodCondition, parse_pod
from codehub.adapters.system.machine import SystemClock

if TYPE_CHECKING:
    from codehub.adapters.kubernetes.claim_store import ClaimStore
    from codehub.adapters.kubernetes.client import KubernetesClient
    from codehub.adapters.kubernetes.watch_cache import WatchCache

SCHEDULED = (("PodScheduled", PodCondition("True")),)


@dataclass
class Cluster:
    """One that has the claim, schedules a Pod at once, and lets its container run after so many looks."""

    looks: int
    pod: Pod | None = None

    async def require(self, workspace_id: UUID, volume_id: str) -> None: ...

    async def create(self, _kind: object, manifest: dict[str, Any]) -> dict[str, Any]:
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "uid"}}

    def learn(self, answer: dict[str, Any]) -> None:
        made = parse_pod(answer)
        assert made is not None
        self.pod = replace(made, conditions=SCHEDULED)

    async def find(self, _name: str) -> Pod | None:
        assert self.pod is not None
        self.looks -= 1
        if self.looks == 0:
            self.pod = replace(self.pod, phase="Running", has_running_container=True)
        return self.pod


async def started(cluster: Cluster) -> Pod:
    instances = KubernetesInstances(
        cast("KubernetesClient", cluster),
        INSTALLATION,
        cast("WatchCache[Pod | None]", cluster),
        cast("ClaimStore", cluster),
        clock=SystemClock(),
    )
    await instances.start(new_spec(workspace_id=WORKSPACE), "volume")
    assert cluster.pod is not None
    return cluster.pod


@pytest.mark.parametrize("looks", [1, 2, 5])
async def test_a_start_returns_with_its_container(looks: int) -> None:
    assert (await started(Cluster(looks))).has_running_container


async def test_a_start_does_not_wait_for_a_container_that_is_long_in_coming() -> None:
    async with asyncio.timeout(60):
        assert not (await started(Cluster(1_000_000))).has_running_container
