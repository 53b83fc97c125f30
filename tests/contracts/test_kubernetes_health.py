"""Whose word says that an instance in a cluster is well: its node's, which asks it every few seconds, unless
we found otherwise; ours, where its node's probe is weaker.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest
from tests.contracts.test_kubernetes_pods import INSTALLATION, WORKSPACE

from codehub.adapters.kubernetes.instances import KubernetesInstances
from codehub.adapters.kubernetes.labels import IDE, INSTANCE, pod_name
from codehub.adapters.kubernetes.pods import Pod, PodCondition
from codehub.adapters.system.machine import SystemClock
from codehub.core.observation import Instance

if TYPE_CHECKING:
    from codehub.adapters.kubernetes.claim_store import ClaimStore
    from codehub.adapters.kubernetes.client import KubernetesClient
    from codehub.adapters.kubernetes.watch_cache import WatchCache

WELL, ILL = Instance(running=True, healthy=True), Instance(running=True, healthy=False)


@dataclass
class Server:
    """An IDE: how it answers, and how often it was asked."""

    port: int = 0
    status: int = 200
    asked: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        writer.write(b"HTTP/1.1 %d As Told\r\nContent-Length: 0\r\n\r\n" % self.status)
        await writer.drain()
        writer.close()


@dataclass
class Watched:
    """One Pod, as a watch has told of it last."""

    pod: Pod

    async def objects(self) -> Mapping[str, Pod | None]:
        return {self.pod.name: self.pod}

    async def find(self, name: str) -> Pod | None:
        return self.pod if name == self.pod.name else None

    def doubt_without(self, workspace_id: UUID, volume_id: str | None) -> None:
        """Its claim is where it should be."""

    def tell(self, **changes: object) -> None:
        self.pod = replace(self.pod, **changes)  # type: ignore[arg-type]


@pytest.fixture
async def ide() -> AsyncIterator[Server]:
    made = Server()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


def ready(status: str) -> tuple[tuple[str, PodCondition], ...]:
    return (("Ready", PodCondition(status)), ("ContainersReady", PodCondition(status)))


@pytest.fixture
def watched(ide: Server) -> Watched:
    """A Pod that its node finds ready."""
    pod = Pod("uid", pod_name(WORKSPACE), INSTANCE, None, WORKSPACE, {IDE: "code-server"}, "Running")
    running = replace(pod, ip="127.0.0.1", port=ide.port, node="node-1", has_running_container=True)
    return Watched(replace(running, conditions=ready("True")))


@pytest.fixture
def instances(watched: Watched) -> KubernetesInstances:
    return KubernetesInstances(
        cast("KubernetesClient", None),
        INSTALLATION,
        cast("WatchCache[Pod | None]", watched),
        cast("ClaimStore", watched),
        clock=SystemClock(),
    )


async def test_who_its_node_finds_ready_is_asked_by_nobody_else(
    instances: KubernetesInstances, ide: Server
) -> None:
    for _ in range(3):
        assert await instances.list_all() == {WORKSPACE: WELL}
    assert ide.asked == 0


async def test_who_its_node_no_longer_finds_ready_is_asked_from_here(
    instances: KubernetesInstances, ide: Server, watched: Watched
) -> None:
    assert await instances.list_all() == {WORKSPACE: WELL}
    watched.tell(conditions=ready("False"))
    assert await instances.list_all() == {WORKSPACE: WELL}
    assert ide.asked == 1
    ide.status = 503
    await instances.status(WORKSPACE)
    assert await instances.list_all() == {WORKSPACE: ILL}


async def test_who_did_not_answer_us_well_is_ill_whatever_its_node_says_until_it_does(
    instances: KubernetesInstances, ide: Server
) -> None:
    assert await instances.list_all() == {WORKSPACE: WELL}
    ide.status = 503
    assert await instances.status(WORKSPACE) == ILL
    assert await instances.list_all() == {WORKSPACE: ILL}
    ide.status = 200
    assert await instances.list_all() == {WORKSPACE: WELL}
    asked = ide.asked
    assert await instances.list_all() == {WORKSPACE: WELL}
    assert ide.asked == asked


async def test_who_has_ended_is_not_well_by_what_its_node_said_before(
    instances: KubernetesInstances, watched: Watched
) -> None:
    assert await instances.list_all() == {WORKSPACE: WELL}
    watched.tell(has_running_container=False, phase="Failed", reason="Evicted")
    (observation,) = (await instances.list_all()).values()
    assert (observation.running, observation.has_ended) == (False, True)


async def test_where_its_node_asks_less_than_we_do_it_is_asked_from_here(
    instances: KubernetesInstances, ide: Server, watched: Watched
) -> None:
    watched.tell(annotations={IDE: "http"})
    ide.status = 503
    assert await instances.list_all() == {WORKSPACE: ILL}
    assert ide.asked == 1


async def test_one_whose_node_is_silent_is_out_of_sight_though_it_was_ready(
    instances: KubernetesInstances, watched: Watched
) -> None:
    assert await instances.list_all() == {WORKSPACE: WELL}
    watched.tell(conditions=(("Ready", PodCondition("False")), ("ContainersReady", PodCondition("True"))))
    (observation,) = (await instances.list_all()).values()
    assert observation.is_out_of_sight
