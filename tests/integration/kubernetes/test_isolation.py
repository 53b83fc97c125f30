"""Workspaces kept apart, tried from inside them: not each other, not codehub, not
the cluster, but names and the world. Where nobody enforces that, it is told.
"""

import asyncio
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.integration.kubernetes.test_explained import cluster_settings
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.job_image import JOB
from tests.support.cluster.pods import PORT, address_of, light_pod, shell
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import (
    RESTRICTED,
    KubernetesWorld,
    kubernetes_world,
    prepare_namespace,
    running_in_cluster,
)
from tests.support.patience import ask_until, block_until, until
from tests.support.program import codehub

from codehub.adapters.kubernetes.isolation import Isolation, api_servers
from codehub.adapters.kubernetes.isolation_probe import IsolationProbe, NotProbed, Probed
from codehub.adapters.kubernetes.kinds import JOBS, PODS
from codehub.adapters.kubernetes.labels import HELPER, INSTALL, PROBE, ROLE
from codehub.adapters.kubernetes.policies import Reach, parse_peers
from codehub.adapters.kubernetes.rights import NEEDED
from codehub.adapters.system.machine import SystemClock

pytestmark = KUBERNETES

METADATA, WORLD, DNS_PORT = "169.254.169.254", "198.51.100.80", 53
CODEHUB = "app.kubernetes.io/name"
Where = tuple[str, int]


@pytest.fixture
async def world(cluster: TestCluster, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    async with kubernetes_world(cluster, tmp_path) as opened:
        yield opened


@pytest.fixture
def elsewhere(cluster: TestCluster) -> Iterator[str]:
    """Another namespace, as codehub's own would be."""
    with cluster.namespace(f"codehub-{uuid4().hex[:8]}", **RESTRICTED) as name:
        yield name


@contextmanager
def listening(cluster: TestCluster, address: str, port: int) -> Iterator[Where]:
    """Somebody outside of the cluster who takes connections, and answers what comes by UDP."""
    link = cluster.layout.host_link
    with ExitStack() as stack:
        if address != cluster.layout.host_address:
            place = (f"{address}/32", "dev", link)
            subprocess.run(["ip", "address", "replace", *place], check=True)
            stack.callback(subprocess.run, ["ip", "address", "delete", *place], check=True)
        for kind, answer in ((socket.SOCK_STREAM, _take), (socket.SOCK_DGRAM, _reply)):
            server = stack.enter_context(socket.socket(socket.AF_INET, kind))
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.setsockopt(
                socket.SOL_SOCKET, socket.SO_BINDTODEVICE, link.encode()
            )  # others have it elsewhere
            server.bind((address, port))
            thread = threading.Thread(target=answer, args=(server,), daemon=True)
            thread.start()
            stack.callback(_end, server, thread)
        yield address, port


def _end(server: socket.socket, thread: threading.Thread) -> None:
    """Wake its thread, and wait until that is over: one that waits for bytes keeps the port."""
    with suppress(OSError):  # one that has no peer says that it is not connected, and wakes all the same
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def _take(server: socket.socket) -> None:
    server.listen()
    with suppress(OSError):  # it is closed
        while True:
            server.accept()[0].close()


def _reply(server: socket.socket) -> None:
    with suppress(OSError):  # it is closed
        while (received := server.recvfrom(64))[1] is not None:
            server.sendto(b"yes", received[1])


def isolation(world: KubernetesWorld, *peers: str) -> Isolation:
    admitted = parse_peers(",".join((world.cluster.layout.host_address, *peers)))
    return Isolation(world.client, world.install_id, Reach(admitted), probe_of(world))


def probe_of(world: KubernetesWorld) -> IsolationProbe:
    return IsolationProbe(world.client, world.install_id, image=JOB, clock=SystemClock())


async def reaches(world: KubernetesWorld, workspace_id: UUID, where: Where) -> bool:
    return "reached" in await world.inside(workspace_id, connecting(where))


def connecting(where: Where) -> str:
    host, port = where
    return f"timeout 2 bash -c 'exec 3<>/dev/tcp/{host}/{port}' && echo reached"


async def address(world: KubernetesWorld, workspace_id: UUID) -> str:
    upstream = await world.instances.resolve_upstream(workspace_id)
    assert upstream is not None
    return str(upstream.host)  # type: ignore[union-attr]  # a Pod's is no socket


async def test_a_workspace_reaches_names_and_the_world_alone(
    world: KubernetesWorld, cluster: TestCluster, elsewhere: str
) -> None:
    layout = cluster.layout
    cluster.apply(database := light_pod(elsewhere, "database"))
    inside, neighbour = await world.run(), await world.run()
    with (
        listening(cluster, METADATA, 80) as metadata,
        listening(cluster, layout.host_address, 5432) as host,
        listening(cluster, layout.host_address, DNS_PORT) as resolver,
        listening(cluster, WORLD, 443) as world_wide,
    ):
        refused = {
            "workspace": (await address(world, neighbour), PORT),
            "database": (address_of(cluster, database), PORT),
            "api": (layout.first_service, 443),
            "node's api": (layout.node_address, 6443),
            "kubelet": (layout.node_address, 10250),
            "machine": host,
            "metadata": metadata,
        }
        allowed = {"names": resolver, "world": world_wide}

        async def reached(places: Mapping[str, Where]) -> list[str]:
            return [name for name, where in places.items() if await reaches(world, inside, where)]

        assert await reached({**refused, **allowed}) == [*refused, *allowed], "they are there"
        await isolation(world).apply()
        await ask_until(lambda: reached(refused), lambda names: not names)
        assert await reached(allowed) == [*allowed]
        asking = f"exec 3<>/dev/udp/{resolver[0]}/{DNS_PORT}; echo who >&3; timeout 20 head -c 3 <&3"
        assert await world.inside(inside, f"bash -c '{asking}'") == "yes"


async def test_who_is_named_reaches_a_workspace_and_nobody_else(
    world: KubernetesWorld, cluster: TestCluster, elsewhere: str
) -> None:
    friend = light_pod(elsewhere, "proxy", **{CODEHUB: "codehub"})
    stranger = light_pod(elsewhere, "stranger", **{CODEHUB: "postgresql"})
    pretender = light_pod(world.namespace, "pretender", **{CODEHUB: "codehub"})
    cluster.apply(friend, stranger, pretender)
    try:
        workspace = await world.run()
        where = (await address(world, workspace), PORT)
        addresses = [address_of(cluster, pod) for pod in (friend, stranger, pretender)]
        await isolation(world, f"{elsewhere}/{CODEHUB}=codehub").apply()

        def who_reaches() -> list[bool]:
            return ["reached" in shell(each, connecting(where)) for each in addresses]

        block_until(lambda: who_reaches() == [True, False, False])
    finally:
        cluster.ask("DELETE", cluster.path_of(pretender))


async def test_a_job_reaches_a_store_in_the_cluster_and_no_metadata_and_nobody_reaches_it(
    world: KubernetesWorld, cluster: TestCluster, elsewhere: str
) -> None:
    store = light_pod(elsewhere, "store")
    job = light_pod(world.namespace, f"job-{world.install_id}", **{INSTALL: world.install_id, ROLE: HELPER})
    cluster.apply(store, job)
    places = address_of(cluster, store), address_of(cluster, job)
    with listening(cluster, METADATA, 80) as metadata, listening(cluster, WORLD, 443) as world_wide:
        wanted = {(places[0], PORT): True, world_wide: True, metadata: False}
        await isolation(world, elsewhere).apply()
        block_until(lambda: {where: runs_and_reaches(cluster, job, where) for where in wanted} == wanted)
        block_until(lambda: not runs_and_reaches(cluster, store, (places[1], PORT)))


def runs_and_reaches(cluster: TestCluster, pod: Mapping[str, Any], where: Where) -> bool:
    """Ask inside a Pod that nobody may connect to."""
    place = ("--namespace", pod["metadata"]["namespace"], pod["metadata"]["name"])
    return "reached" in cluster.run(
        "kubectl", "exec", *place, "--", "bash", "-c", f"{connecting(where)} || true"
    )


async def test_the_probe_finds_that_policies_hold_and_leaves_nothing(world: KubernetesWorld) -> None:
    kept_apart = isolation(world)
    await kept_apart.apply()
    assert not await kept_apart.is_known()
    assert await kept_apart.probe() == Probed((), is_admitted=True)
    assert await kept_apart.is_known()
    assert not await isolation(world, "10.0.0.0/8").is_known(), "other policies were not tried"
    await until(lambda: _is_gone(world))


async def test_the_probe_finds_who_is_not_let_in(world: KubernetesWorld) -> None:
    closed = Isolation(world.client, world.install_id, Reach(parse_peers("203.0.113.1")), probe_of(world))
    await closed.apply()
    assert await closed.probe() == Probed((), is_admitted=False)
    assert not await closed.is_known()


async def test_the_probe_finds_that_nobody_enforces_policies(
    world: KubernetesWorld, cluster: TestCluster
) -> None:
    with unenforced(cluster), listening(cluster, METADATA, 80):
        kept_apart = isolation(world)
        await kept_apart.apply()
        probed = await kept_apart.probe()
        assert sorted(probed.reached) == ["api-server", "metadata", "node", "workspace"]
        assert not await kept_apart.is_known()


@contextmanager
def unenforced(cluster: TestCluster) -> Iterator[None]:
    """A cluster whose network plug-in knows no policies."""
    with cluster.without("local"):
        cluster.run("nft", "delete", "table", "ip", "policies")
        yield


async def test_a_probe_that_is_cut_off_leaves_nothing(world: KubernetesWorld) -> None:
    await isolation(world).apply()
    running = asyncio.ensure_future(probe_of(world).run())
    await until(lambda: _jobs(world))
    with pytest.raises(NotProbed, match="ProbeUnderWay"):
        await probe_of(world).run()
    assert await _jobs(world), "the other's Pods are not ours to remove"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: _is_gone(world))


async def _jobs(world: KubernetesWorld) -> Sequence[object]:
    return await world.client.list_objects(JOBS, labels={INSTALL: world.install_id, ROLE: PROBE})


async def _is_gone(world: KubernetesWorld) -> bool:
    labels = {INSTALL: world.install_id, ROLE: PROBE}
    return not await world.client.list_objects(PODS, labels=labels) and not await _jobs(world)


async def test_the_cluster_tells_the_addresses_of_its_api_server(
    world: KubernetesWorld, cluster: TestCluster
) -> None:
    assert cluster.layout.node_address in {
        str(each.network_address) for each in await api_servers(world.client)
    }


def until_it_says(data: Path, text: str) -> str:
    """Wait until a start has said this in its log, and return all of that."""
    log = data.parent / "stderr"
    try:
        block_until(lambda: text in log.read_text())
    except TimeoutError:
        raise AssertionError(log.read_text()) from None
    return log.read_text()


def test_a_start_makes_the_policies_and_tries_them_once_a_day(cluster: TestCluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_in_cluster(cluster, data) as server:
        assert "codehub_weakened" not in until_it_says(data, "workspaces_kept_apart")
        examined = codehub("doctor", **cluster_settings(cluster, tmp_path / "another"))
        assert "workspaces reach neither each other nor the cluster" in examined.stdout
        server.stop()


def test_a_start_and_the_doctor_say_that_nobody_enforces(cluster: TestCluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with unenforced(cluster), running_in_cluster(cluster, data):
        until_it_says(data, "its network plug-in does not enforce NetworkPolicies")
        examined = codehub("doctor", **cluster_settings(cluster, tmp_path / "another"))
        assert "Workspaces reach each other and the cluster" in " ".join(examined.stdout.split())
        assert examined.returncode != 0


def test_who_may_make_no_policies_is_told_unless_somebody_else_s_hold(
    cluster: TestCluster, namespace: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    kubeconfig = prepare_namespace(cluster, namespace, rights=NEEDED)
    with running_in_cluster(cluster, data, k8s_kubeconfig=str(kubeconfig), k8s_namespace=namespace):
        until_it_says(data, "codehub can make no NetworkPolicies itself")
