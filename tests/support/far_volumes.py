"""Volumes that a driver has to attach that is not there: the test is the driver's attacher, and refuses."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.hands import MERGE

from codehub.adapters.kubernetes.kinds import VOLUME_ATTACHMENTS


@contextmanager
def far_volume(
    cluster: TestCluster, name: str, namespace: str, claim: str, *, storage_class: str = ""
) -> Iterator[None]:
    """Let there be one that is this claim's, whether that is there yet or not."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "capacity": {"storage": "1Ti"},
            "csi": {"driver": "far.codehub.test", "volumeHandle": name},
            "claimRef": {"name": claim, "namespace": namespace},
        },
    }
    cluster.apply(volume)
    try:
        yield
    finally:
        cluster.ask("DELETE", cluster.path_of(volume))


def refuse_attachment(cluster: TestCluster, volume: str, message: str) -> bool:
    """Answer as the driver would, once the cluster has asked it."""
    path = VOLUME_ATTACHMENTS.path("")
    asked: list[Mapping[str, Any]] = cluster.ask("GET", path)["items"]
    for each in asked:
        if each["spec"]["source"]["persistentVolumeName"] == volume:
            error = {"message": message, "time": each["metadata"]["creationTimestamp"]}
            change = {"status": {"attached": False, "attachError": error}}
            cluster.ask("PATCH", f"{path}/{each['metadata']['name']}/status", change, kind=MERGE)
            return True
    return False
