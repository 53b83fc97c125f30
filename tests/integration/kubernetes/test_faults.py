"""What a test can do to the cluster: end its components, hold them
back, let one hang, and turn back what the API server knows.
"""

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.pods import address_of, light_pod, shell
from tests.support.kubernetes import KUBERNETES
from tests.support.patience import block_until

pytestmark = KUBERNETES


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize("component", ["kubelet", "containerd"])
def test_a_pod_outlives_a_killed_component_of_its_node(
    cluster: TestCluster, namespace: str, component: str
) -> None:
    pod, later = light_pod(namespace, "light"), light_pod(namespace, "later")
    cluster.apply(pod)
    address = address_of(cluster, pod)
    began = shell(address, "stat -c %Y /proc/1")
    cluster.kill(component)
    cluster.apply(later)
    address_of(cluster, later)
    assert shell(address, "stat -c %Y /proc/1") == began


def test_a_component_that_is_held_back_returns_when_it_is_let(cluster: TestCluster, namespace: str) -> None:
    pod = light_pod(namespace, "light")
    with cluster.without("scheduler"):
        cluster.apply(pod)
        assert "nodeName" not in cluster.ask("GET", cluster.path_of(pod))["spec"]
    address_of(cluster, pod)


def test_a_frozen_api_server_takes_connections_and_answers_nothing(cluster: TestCluster) -> None:
    with cluster.frozen("apiserver"), pytest.raises(httpx.ReadTimeout):
        cluster.ask("GET", "/version", within_s=0.5)
    assert cluster.ask("GET", "/version")["major"] == "1"


def test_a_killed_api_server_is_back_with_what_it_knew(cluster: TestCluster, namespace: str) -> None:
    cluster.apply(kept := config_map(namespace, "kept"))
    cluster.kill("apiserver")
    cluster.wait_until_ready()
    assert cluster.find(cluster.path_of(kept))


def test_a_restored_snapshot_knows_what_was_then_and_nothing_since(
    cluster: TestCluster, namespace: str, tmp_path: Path
) -> None:
    cluster.apply(before := config_map(namespace, "before"))
    snapshot = cluster.snapshot(tmp_path / "snapshot")
    cluster.apply(since := config_map(namespace, "since"))
    for number in range(100):
        cluster.apply(config_map(namespace, "since", number=str(number)))
    version = _version(cluster, namespace)
    cluster.restore(snapshot)
    block_until(lambda: cluster.find(cluster.path_of(before)))
    assert cluster.find(cluster.path_of(since)) is None
    assert _version(cluster, namespace) < version


def _version(cluster: TestCluster, namespace: str) -> int:
    maps = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/configmaps")
    return int(maps["metadata"]["resourceVersion"])
