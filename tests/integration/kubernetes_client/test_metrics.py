"""What Pods take, from an API that counts, and from one that does not."""

import pytest
from tests.support.engine import ManualClock
from tests.support.kubernetes_api import Conversation, HostileApi

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.labels import pod_name
from codehub.adapters.kubernetes.metrics import PodMetrics, are_pods_measured
from codehub.adapters.kubernetes.quantities import parse_quantity
from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.disks import ResourceUse

WORKSPACE = SystemIdentity().new_id()
# As metrics-server answers: no version, no page.
COUNTED = {
    "metadata": {},
    "items": [
        {
            "metadata": {"name": pod_name(WORKSPACE)},
            "containers": [
                {"name": "codehub", "usage": {"cpu": "250000000n", "memory": "102400Ki"}},
                {"name": "sidecar", "usage": {"cpu": "50m", "memory": "1Mi"}},
            ],
        }
    ],
}


async def count(talk: Conversation) -> None:
    talk.answer(COUNTED)


async def test_what_a_workspace_takes_is_the_sum_of_its_containers(
    api: HostileApi, client: KubernetesClient
) -> None:
    api.handlers = [count]
    metrics = PodMetrics(client, "install", clock=ManualClock())
    assert await metrics.spent(WORKSPACE) == ResourceUse(101, cpu=0.3)
    assert await metrics.spent(SystemIdentity().new_id()) is None
    (request,) = api.requests  # one for all of them
    assert request.path == "/apis/metrics.k8s.io/v1beta1/namespaces/spaces/pods"
    assert request.query == {"labelSelector": "codehub.dev/install=install,codehub.dev/role=instance"}


@pytest.mark.parametrize("status", [403, 404, 503])
async def test_where_nobody_counts_nothing_is_known_and_that_is_no_error(
    api: HostileApi, client: KubernetesClient, status: int
) -> None:
    async def refuse(talk: Conversation) -> None:
        talk.refuse(status, "no", "the server could not find the requested resource")

    api.handlers = [refuse]
    clock = ManualClock()
    metrics = PodMetrics(client, "install", clock=clock)
    assert await metrics.spent(WORKSPACE) is None
    assert not await are_pods_measured(client)
    api.handlers = [count]
    assert await are_pods_measured(client)
    clock.seconds += 60
    assert await metrics.spent(WORKSPACE) is not None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("128974848", 128974848),
        ("129e6", 0),
        ("1Gi", 1 << 30),
        ("1.5k", 1500),
        ("5m", 0.005),
        ("", 0),
    ],
)
def test_a_quantity_is_read_as_the_api_writes_it(text: str, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number)
