"""What people do to a test cluster with kubectl: remake a claim on the volume that it had, empty a node, and
put right by hand what a restored etcd no longer knows, or knows again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.layout import NODE
from tests.support.patience import block_until

from codehub.adapters.kubernetes.kinds import CLAIMS, PODS

Object = Mapping[str, Any]
MERGE = "application/merge-patch+json"
_OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}


def remake_claim(cluster: TestCluster, claim: Object) -> None:
    """Delete a claim, and make it anew on its volume, as who moves volumes by hand does: all that it says
    stays, and its uid does not.
    """
    volume = cluster.ask("GET", _volume_path(claim))
    _patch(cluster, _volume_path(claim), spec={"persistentVolumeReclaimPolicy": "Retain"})
    path = _path(claim)
    cluster.ask("DELETE", path)

    def is_gone() -> bool:
        there = cluster.find(path)
        _delete_pods_on(cluster, claim)
        return there is None or there["metadata"]["uid"] != claim["metadata"]["uid"]

    block_until(is_gone)
    put_back(cluster, claim, volume)


def put_back(cluster: TestCluster, claim: Object, volume: Object) -> bool:
    """Make a claim and its volume again, as they were written down. Says whether: of a claim that somebody
    has made meanwhile the old volume goes.
    """
    path = _volume_path(claim)
    if cluster.find(path) is None:
        spec = {name: value for name, value in volume["spec"].items() if name != "claimRef"}
        spec["persistentVolumeReclaimPolicy"] = "Retain"
        cluster.apply({**_bare(volume, "v1", "PersistentVolume"), "spec": spec})
    place = {name: claim["metadata"][name] for name in ("name", "namespace")}
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **place}
    _patch(cluster, path, spec={"claimRef": {**reference, "uid": None, "resourceVersion": None}})
    kept = ("accessModes", "resources", "storageClassName", "volumeName")
    spec = {name: claim["spec"][name] for name in kept}
    made = {**_bare(claim, "v1", "PersistentVolumeClaim"), "spec": spec}
    try:
        cluster.ask("POST", CLAIMS.path(place["namespace"]), made)
    except httpx.HTTPStatusError as error:
        if error.response.status_code != HTTPStatus.CONFLICT:
            raise
        cluster.ask("DELETE", path)
        return False
    # Its class removes the volume with the claim again.
    _patch(cluster, path, spec={"persistentVolumeReclaimPolicy": "Delete"})
    return True


def _delete_pods_on(cluster: TestCluster, claim: Object) -> None:
    """Delete what keeps a claim from going."""
    name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
    for pod in cluster.ask("GET", PODS.path(namespace))["items"]:
        volumes = pod["spec"].get("volumes", [])
        if any(each.get("persistentVolumeClaim", {}).get("claimName") == name for each in volumes):
            delete_pod(cluster, pod)


def delete_pod(cluster: TestCluster, pod: Object, **options: Any) -> None:
    with suppress_status(HTTPStatus.NOT_FOUND):
        cluster.ask("DELETE", PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"]), options)


@contextmanager
def drained(cluster: TestCluster, pods: Sequence[Object]) -> Iterator[None]:
    """The node takes no Pods, and these have to go."""
    path = f"/api/v1/nodes/{NODE}"
    _patch(cluster, path, spec={"unschedulable": True})
    try:
        for pod in pods:
            with suppress_status(HTTPStatus.NOT_FOUND):
                cluster.evict(pod)
        yield
    finally:
        _patch(cluster, path, spec={"unschedulable": None})


@contextmanager
def out_of_service(cluster: TestCluster) -> Iterator[None]:
    """The node is off, by an operator's word."""
    path = f"/api/v1/nodes/{NODE}"
    before = cluster.ask("GET", path)["spec"].get("taints", [])
    _patch(cluster, path, spec={"taints": [*before, _OUT_OF_SERVICE]})
    try:
        yield
    finally:
        now = cluster.ask("GET", path)["spec"].get("taints", [])
        kept = [taint for taint in now if taint["key"] != _OUT_OF_SERVICE["key"]]
        _patch(cluster, path, spec={"taints": kept})


def directory_of(volume: Object) -> Path:
    return Path(volume["spec"]["local"]["path"])


@contextmanager
def suppress_status(status: HTTPStatus) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPStatusError as error:
        if error.response.status_code != status:
            raise


def _bare(item: Object, version: str, kind: str) -> dict[str, Any]:
    """Return what a person writes down of an object: not what the cluster has noted on it."""
    metadata = item["metadata"]
    noted = "pv.kubernetes.io/bind"
    annotations = {
        name: value
        for name, value in metadata.get("annotations", {}).items()
        if not name.startswith((noted, "pv.kubernetes.io/bound-by", "volume.kubernetes.io/"))
    }
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    return {"apiVersion": version, "kind": kind, "metadata": {**kept, "annotations": annotations}}


def _patch(cluster: TestCluster, path: str, **changes: Any) -> None:
    cluster.ask("PATCH", path, changes, kind=MERGE)


def _path(claim: Object) -> str:
    return CLAIMS.path(claim["metadata"]["namespace"], claim["metadata"]["name"])


def _volume_path(claim: Object) -> str:
    return f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
