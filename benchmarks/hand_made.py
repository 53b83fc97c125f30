"""Workspaces as a cluster has them, without anybody who runs them: rows go in, Pods and claims on a real API
server come out. Nothing schedules, mounts or ends them, for the components that would are held.

Each Pod has an address of this machine's loopback; one server answers at all of them.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import asyncpg
from benchmarks.proxy_peers import Peer
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.machine import processes

from codehub.adapters.kubernetes.access import from_kubeconfig
from codehub.adapters.kubernetes.claims import claim_manifest
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import CLAIMS, CONFIG_MAPS, PODS
from codehub.adapters.kubernetes.labels import COMPLETE, INSTALL, MARK, ROLE, mark_name, pod_name
from codehub.adapters.kubernetes.pods import CONTAINER, pod_manifest
from codehub.adapters.kubernetes.rights import RIGHTS
from codehub.adapters.postgres.connect import ConnectArgs
from codehub.adapters.system.machine import SystemClock
from codehub.core.ides import IDES
from codehub.core.workspace import Resources, StorageBackend
from codehub.ports.instances import InstanceSpec

IDE = "code-server"
# Who would schedule, run and end what is made here, and what would take processor time beside it.
ACTORS = ("scheduler", "controllers", "kubelet", "local", "metrics", "proxy")
_MERGE = "application/merge-patch+json"
_KINDS = frozenset(kind.plural for kind, _, _ in RIGHTS)
_GONE_S_MAX = 600  # thousands, one after another
_FIRST_ADDRESS = IPv4Address("127.64.0.1")

# The rows of `fill`, in a cluster, with nothing that a time to live would end meanwhile.
IN_CLUSTER = """
UPDATE workspaces SET instance_backend = 'k8s', storage_backend = 'k8s-pvc',
    standby_ttl_seconds = 86400, archive_ttl_seconds = NULL, last_access_at = now(),
    home_ctx = CASE WHEN phase IN ('RUNNING', 'STANDBY')
        THEN jsonb_build_object('volume_id', id, 'restore_marker', null, 'dirty', true) ELSE home_ctx END
"""
_WITH_HOMES = (
    "SELECT id, image_ref, phase FROM workspaces WHERE phase IN ('RUNNING', 'STANDBY') ORDER BY phase, id"
)


@contextmanager
def only_an_api(cluster: TestCluster) -> Iterator[None]:
    """Let nobody of the cluster act on what is made by hand, or take processor time beside it."""
    with cluster.without(*ACTORS):
        yield


class HandMade:
    """What stands in the cluster for the rows of a database. `port`: where the server of all instances
    listens.
    """

    def __init__(self, cluster: TestCluster, namespace: str, *, port: int) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._port = port

    async def make(self, connect_args: ConnectArgs) -> list[UUID]:
        """Make all objects, the mark included, and return the workspaces that run."""
        clock = SystemClock()
        access = from_kubeconfig(self._cluster.kubeconfig, clock=clock)
        client = KubernetesClient(access, namespace=self._namespace, clock=clock)
        connection = await asyncpg.connect(**connect_args)
        try:
            rows = await connection.fetch(_WITH_HOMES)
            installation = str(await connection.fetchval("SELECT id FROM installation"))
        finally:
            await connection.close()
        try:
            labels = {INSTALL: installation, ROLE: MARK}
            mark = {"metadata": {"name": mark_name(installation), "labels": labels}}
            if await client.find(CONFIG_MAPS, mark_name(installation)) is None:
                await client.create(CONFIG_MAPS, mark)
            running = [row for row in rows if row["phase"] == "RUNNING"]
            claims = [_claim(installation, _uuid(row["id"])) for row in rows]
            await asyncio.gather(*(client.create(CLAIMS, claim) for claim in claims))
            pods = [self._pod(installation, row) for row in running]
            await asyncio.gather(*(client.create(PODS, pod) for pod in pods))
            ids = [_uuid(row["id"]) for row in running]
            await asyncio.gather(*(self._begin(client, *each) for each in enumerate(ids)))
            return ids
        finally:
            await client.close()

    def remove(self) -> None:
        """Remove it all: what held it together does not look any more."""
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for kind in (PODS, CLAIMS, CONFIG_MAPS):
            path = kind.path(self._namespace)
            self._cluster.ask("DELETE", path, options, within_s=_GONE_S_MAX, labelSelector=INSTALL)

    def change(self, workspace_id: UUID, number: int) -> None:
        """Change something about a Pod that changes nothing for anybody: who watches hears of it."""
        change = {"metadata": {"annotations": {"example.org/turn": str(number)}}}
        self._cluster.ask("PATCH", PODS.path(self._namespace, pod_name(workspace_id)), change, kind=_MERGE)

    def requests(self) -> dict[tuple[str, str], int]:
        """Return how often the API server was asked for what codehub has there, by verb and kind."""
        counts: dict[tuple[str, str], int] = {}
        for line in self._cluster.ask("GET", "/metrics").splitlines():
            if not line.startswith("apiserver_request_total{"):
                continue
            inside, _, value = line.removeprefix("apiserver_request_total{").rpartition("} ")
            labels = dict(pair.split("=", 1) for pair in inside.replace('"', "").split(","))
            if labels["resource"] in _KINDS:
                key = (labels["verb"], labels["resource"])
                counts[key] = counts.get(key, 0) + int(float(value))
        return counts

    def control_plane(self) -> Mapping[str, Peer]:
        """Return the processes of the cluster that work all the same."""
        layout, here = self._cluster.layout, processes(self._cluster.layout)
        inside = {name: int((layout.place / "pids" / name).read_text()) for name in ("apiserver", "etcd")}
        return {name: Peer(name, 0, (here[pid],)) for name, pid in inside.items()}

    def _pod(self, installation: str, row: asyncpg.Record) -> dict[str, Any]:
        workspace_id = _uuid(row["id"])
        spec = InstanceSpec(workspace_id, StorageBackend.K8S_PVC, "", row["image_ref"], IDE, Resources())
        pod = pod_manifest(installation, spec, str(workspace_id), IDES[IDE])
        pod["spec"]["nodeName"] = "made-by-hand"
        pod["spec"]["containers"][0]["ports"][0]["containerPort"] = self._port
        return pod

    async def _begin(self, client: KubernetesClient, number: int, workspace_id: UUID) -> None:
        """Say of a Pod what its node would say of one that is ready."""
        now, address = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), str(_FIRST_ADDRESS + number)
        container = {
            "name": CONTAINER,
            "image": "docker.io/codercom/code-server:4.100.3",
            "imageID": f"docker.io/codercom/code-server@sha256:{'0' * 64}",
            "containerID": f"containerd://{workspace_id.hex * 2}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in (
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            )
        ]
        status = {
            "phase": "Running",
            "hostIP": "127.0.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
            "conditions": conditions,
            "containerStatuses": [container],
        }
        path = PODS.path(self._namespace, pod_name(workspace_id), "status")
        await client.api.ask("PATCH", path, body={"status": status}, content_type=_MERGE)


def _claim(installation: str, workspace_id: UUID) -> dict[str, Any]:
    volume_id = str(workspace_id)
    claim = claim_manifest(
        installation, workspace_id, volume_id, size_mb=None, storage_class=None, made_from=None
    )
    claim["metadata"]["annotations"][COMPLETE] = datetime.now(UTC).isoformat()
    return claim


def _uuid(value: Any) -> UUID:
    return UUID(int=value.int)
