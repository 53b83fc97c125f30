"""How large homes are, against a server that does as it is told: how often it is asked, and what follows
if it can't say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from tests.integration.kubernetes_client.test_entry import STAT
from tests.integration.kubernetes_client.test_exec import Shell
from tests.support.engine import ManualClock
from tests.support.kubernetes_api import Conversation, HostileApi

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.disk import KubernetesDisk
from codehub.adapters.kubernetes.labels import INSTANCE, pod_name
from codehub.adapters.kubernetes.pods import Pod
from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.backends import BackendUnreachable
from codehub.ports.storage import Home

if TYPE_CHECKING:
    from codehub.adapters.kubernetes.claim_store import ClaimStore
    from codehub.adapters.kubernetes.watch_cache import WatchCache

TEN_MINUTES_S, HOUR_S = 600.0, 3600.0


@dataclass
class Running:
    """Pods that run, as a watch tells of them."""

    pods: dict[str, Pod] = field(default_factory=dict)

    async def find(self, name: str) -> Pod | None:
        return self.pods.get(name)

    async def objects(self) -> Mapping[str, Pod | None]:
        return {**self.pods}

    def add(self) -> Home:
        workspace_id = SystemIdentity().new_id()
        name = pod_name(workspace_id)
        self.pods[name] = Pod(
            name, name, INSTANCE, None, workspace_id, {}, "Running", has_running_container=True, node="node-1"
        )
        return Home(workspace_id, "key")


@pytest.fixture
def running() -> Running:
    return Running()


@pytest.fixture
def clock_of_disk() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk(client: KubernetesClient, running: Running, clock_of_disk: ManualClock) -> KubernetesDisk:
    pods = cast("WatchCache[Pod | None]", running)
    return KubernetesDisk(cast("ClaimStore", None), client, pods, clock=clock_of_disk)


async def measure(talk: Conversation) -> None:
    """A home of 7 MB."""
    shell = Shell(talk)
    shell.accept()
    shell.say(1, STAT)
    await shell.hear()
    shell.say(1, b"7168\t/home/coder\n")
    shell.end({"status": "Success"})


async def refuse(talk: Conversation) -> None:
    talk.refuse(500, "InternalError", "the node does not answer")


async def test_what_can_t_be_measured_is_asked_as_rarely_as_what_can(
    api: HostileApi, disk: KubernetesDisk, running: Running, clock_of_disk: ManualClock
) -> None:
    api.handlers = [refuse]
    home = running.add()
    with pytest.raises(BackendUnreachable):
        await disk.used_mb(home)
    asked = len(api.requests)
    for _ in range(9):
        clock_of_disk.seconds += 60
        assert await disk.used_mb(home) is None
    assert len(api.requests) == asked
    api.handlers = [measure]
    clock_of_disk.seconds += 60
    assert await disk.used_mb(home) == 7


async def test_however_many_homes_there_are_few_are_measured_in_an_hour_and_all_in_turn(
    api: HostileApi, disk: KubernetesDisk, running: Running, clock_of_disk: ManualClock
) -> None:
    api.handlers = [measure]
    homes = [running.add() for _ in range(120)]
    known: list[int | None] = []
    for _ in range(60):
        known = [await disk.used_mb(home) for home in homes]
        clock_of_disk.seconds += 60
    assert set(known) == {7}
    measured = [request.path.split("/")[-2] for request in api.requests]
    assert len(measured) <= 310
    counts = [measured.count(name) for name in running.pods]
    assert max(counts) - min(counts) <= 1


async def test_few_homes_are_measured_every_ten_minutes(
    api: HostileApi, disk: KubernetesDisk, running: Running, clock_of_disk: ManualClock
) -> None:
    api.handlers = [measure]
    homes = [running.add() for _ in range(5)]
    for _ in range(60):
        assert [await disk.used_mb(home) for home in homes] == [7] * 5
        clock_of_disk.seconds += 60
    assert len(api.requests) == 5 * HOUR_S / TEN_MINUTES_S


async def test_of_a_home_whose_pod_is_gone_nothing_is_known(
    api: HostileApi, disk: KubernetesDisk, running: Running, clock_of_disk: ManualClock
) -> None:
    api.handlers = [measure]
    gone, other = running.add(), running.add()
    assert [await disk.used_mb(home) for home in (gone, other)] == [7, 7]
    running.pods.pop(pod_name(gone.workspace_id))
    assert await disk.used_mb(gone) is None
    clock_of_disk.seconds += TEN_MINUTES_S
    assert await disk.used_mb(other) == 7
