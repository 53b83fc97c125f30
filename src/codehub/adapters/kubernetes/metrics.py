"""What Pods take comes out, as the cluster's metrics have it. Where nobody counts it is None, and no error.

One request for all of them: a Role in one namespace may list these, and may not ask nodes.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import POD_METRICS
from codehub.adapters.kubernetes.labels import INSTALL, INSTANCE, ROLE, pod_name
from codehub.adapters.kubernetes.quantities import parse_quantity
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.disks import ResourceUse
from codehub.ports.system import Clock

log = structlog.get_logger()

_FRESH_S = 20.0
_MB = 1 << 20


class PodMetrics:
    """The Gauge of the k8s backend."""

    def __init__(self, client: KubernetesClient, installation: str, *, clock: Clock) -> None:
        self._client = client
        self._labels = {INSTALL: installation, ROLE: INSTANCE}
        self._clock = clock
        self._uses: Mapping[str, ResourceUse] = {}
        """By the name of their Pod: not everybody who counts knows its labels."""
        self._measured_at = -_FRESH_S
        self._trouble = ""

    async def spent(self, workspace_id: UUID) -> ResourceUse | None:
        if self._clock.monotonic() - self._measured_at >= _FRESH_S:
            self._uses = await self._measure_all()
            self._measured_at = self._clock.monotonic()
        return self._uses.get(pod_name(workspace_id))

    async def _measure_all(self) -> Mapping[str, ResourceUse]:
        try:
            answers = await self._client.list_whole(POD_METRICS, labels=self._labels)
        except (ActionFailed, BackendUnreachable) as error:
            if str(error) != self._trouble:
                log.info("pods_not_measured", reason=str(error))
                self._trouble = str(error)
            return {}
        self._trouble = ""
        return {answer["metadata"]["name"]: _use(answer["containers"]) for answer in answers}


async def are_pods_measured(client: KubernetesClient) -> bool:
    """Whether the cluster has somebody who measures Pods, and who answers."""
    try:
        await client.list_whole(POD_METRICS, labels={ROLE: INSTANCE})
    except (ActionFailed, BackendUnreachable):
        return False
    return True


def _use(containers: Sequence[Mapping[str, Any]]) -> ResourceUse:
    def total(resource: str) -> float:
        return sum(parse_quantity(container["usage"].get(resource, "")) for container in containers)

    return ResourceUse(int(total("memory")) // _MB, cpu=total("cpu"))
