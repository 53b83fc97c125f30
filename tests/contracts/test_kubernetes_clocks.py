"""Clocks that differ: what a cluster's times say of a Pod is the same where codehub's own clock is ten
minutes ahead of it, or behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest
from tests.contracts.test_kubernetes_pods import INSTALLATION, WORKSPACE
from tests.support.engine import ManualClock
from tests.support.instances import new_spec

from codehub.adapters.kubernetes.answers import AlreadyExists
from codehub.adapters.kubernetes.instances import KubernetesInstances
from codehub.adapters.kubernetes.kinds import EVENTS, Kind
from codehub.adapters.kubernetes.pods import Pod, parse_pod, pod_manifest
from codehub.core.ides import IDES
from codehub.core.messages import Code
from codehub.ports.backends import BackendUnreachable

if TYPE_CHECKING:
    from codehub.adapters.kubernetes.claim_store import ClaimStore
    from codehub.adapters.kubernetes.client import KubernetesClient
    from codehub.adapters.kubernetes.watch_cache import WatchCache

SPEC = new_spec(workspace_id=WORKSPACE)
VOLUME = "volume"
# How far the cluster's clocks are from ours.
skewed = pytest.mark.parametrize("skew_s", [-600, 0, 600])


class _Replaced(Exception):
    """The Pod was told to go."""


@dataclass
class Cluster:
    """One with a Pod of ours, and clocks of its own. It notes who asks for events."""

    skew_s: float
    status: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    asked_for_events: int = 0

    def time(self, seconds: float = 0) -> str:
        at = datetime.now(UTC) + timedelta(seconds=self.skew_s + seconds)
        return at.isoformat(timespec="seconds")

    def answer(self) -> Mapping[str, Any]:
        manifest = pod_manifest(INSTALLATION, SPEC, VOLUME, IDES[SPEC.ide])
        spec = {**manifest["spec"], "nodeName": "node-1"}
        metadata = {**manifest["metadata"], "uid": "uid", **self.metadata}
        return {**manifest, "metadata": metadata, "spec": spec, "status": self.status}

    def runs(self, *, since_s: float = 0) -> None:
        state = {"running": {"startedAt": self.time(since_s)}}
        self.status = {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "containerStatuses": [{"name": "codehub", "state": state}],
        }

    # As a claim store

    async def require(self, workspace_id: UUID, volume_id: str) -> None: ...

    async def events(self, _workspace_id: UUID) -> Sequence[Any]:
        return ()

    # As a watch

    async def objects(self) -> Mapping[str, Pod | None]:
        pod = await self.find("")
        assert isinstance(pod, Pod)
        return {pod.name: pod}

    async def find(self, kind: object, _name: str = "") -> Any:
        """The client names a kind first."""
        return self.answer() if isinstance(kind, Kind) else parse_pod(self.answer())

    def doubt_without(self, *_about: object) -> None: ...

    def learn_deletion(self, _answer: object) -> None: ...

    # As a client

    async def create(self, _kind: object, _manifest: object) -> None:
        raise AlreadyExists(409, "AlreadyExists", "pods already exists", {})

    async def delete(self, _kind: object, _name: str, *, uid: str) -> None:
        raise _Replaced(uid)

    async def list_objects(self, kind: object, **_: object) -> Sequence[Any]:
        self.asked_for_events += kind is EVENTS
        return ()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def controller(cluster: Cluster, clock: ManualClock) -> KubernetesInstances:
    return KubernetesInstances(
        cast("KubernetesClient", cluster),
        INSTALLATION,
        cast("WatchCache[Pod | None]", cluster),
        cast("ClaimStore", cluster),
        clock=clock,
    )


@skewed
async def test_what_boots_is_not_replaced_before_it_had_its_time_by_our_clock(
    skew_s: float, clock: ManualClock
) -> None:
    cluster = Cluster(skew_s)
    cluster.runs()
    instances = controller(cluster, clock)
    for _ in range(11):
        await instances.start(SPEC, VOLUME)
        clock.seconds += 10
    clock.seconds += 20
    with pytest.raises(_Replaced):
        await instances.start(SPEC, VOLUME)


@skewed
async def test_what_its_node_found_well_before_does_not_boot_and_is_replaced(
    skew_s: float, clock: ManualClock
) -> None:
    cluster = Cluster(skew_s)
    cluster.runs(since_s=-60)
    ready = {"type": "Ready", "status": "False"}
    cluster.status["conditions"] = [{**ready, "lastTransitionTime": cluster.time(-61)}]
    await controller(cluster, clock).start(SPEC, VOLUME)
    cluster.status["conditions"] = [{**ready, "lastTransitionTime": cluster.time(-30)}]
    with pytest.raises(_Replaced):
        await controller(cluster, clock).start(SPEC, VOLUME)


@skewed
async def test_what_ends_is_out_of_sight_once_it_is_late_by_our_clock(
    skew_s: float, clock: ManualClock
) -> None:
    cluster = Cluster(skew_s)
    cluster.runs()
    cluster.metadata = {"deletionTimestamp": cluster.time(5), "deletionGracePeriodSeconds": 5}
    instances = controller(cluster, clock)
    for _ in range(4):
        (instance,) = (await instances.list_all()).values()
        assert not instance.is_out_of_sight
        clock.seconds += 10
    (instance,) = (await instances.list_all()).values()
    assert instance.is_out_of_sight
    with pytest.raises(BackendUnreachable) as lost:
        await instances.start(SPEC, VOLUME)
    assert lost.value.message.code == Code.NODE_LOST


@skewed
async def test_events_are_asked_for_once_a_pod_with_a_place_is_late_by_our_clock(
    skew_s: float, clock: ManualClock
) -> None:
    cluster = Cluster(skew_s)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": cluster.time()}
    cluster.status = {"phase": "Pending", "conditions": [scheduled]}
    instances = controller(cluster, clock)
    await instances.start(SPEC, VOLUME)
    assert cluster.asked_for_events == 0
    clock.seconds += 6
    await instances.start(SPEC, VOLUME)
    assert cluster.asked_for_events > 0
