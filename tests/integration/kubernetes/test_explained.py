"""A workspace that no node has room for, as its owner sees it: held up, in
words, given up by another wish; and starts that are refused.
"""

from pathlib import Path

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.faces import LIST, faces_of, held, unsaid, until_shown, wished
from tests.support.hands import arrives, signed_in
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import prepare_namespace, running_in_cluster
from tests.support.program import codehub

pytestmark = KUBERNETES


def test_a_workspace_that_no_node_has_room_for_says_so_in_every_place_and_is_let_go(
    cluster: TestCluster, tmp_path: Path
) -> None:
    with (
        running_in_cluster(cluster, tmp_path / "data", max_memory_mb="1000000") as server,
        signed_in(server) as client,
    ):
        resources = {"memory_mb": 1_000_000}
        made = client.post("/workspaces", json={"name": "huge", "resources": resources})
        path = f"/workspaces/{made.json()['id']}"
        held_up = held(client, path)
        assert held_up["code"] == "Unschedulable"
        why = "1 lacks memory."
        remedy = "an admin adds a node"
        faces = faces_of(server, client, made.json()["id"])
        assert unsaid(faces, why, remedy) == {}
        korean = client.get(path, headers={"Accept-Language": "ko"}).json()["held_up"]
        assert "memory 부족" in korean["message"]
        assert wished(client, path, "stop").status_code == 200
        arrives(client, path, "STANDBY")


def test_an_image_that_is_not_there_is_an_error_in_every_place_with_what_to_do(
    cluster: TestCluster, tmp_path: Path
) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text("{spec: {container: {imagePullPolicy: Never}}}")
    with (
        running_in_cluster(cluster, tmp_path / "data", k8s_pod_patch=str(patch)) as server,
        signed_in(server) as client,
    ):
        made = client.post("/workspaces", json={"name": "gone", "image_ref": "codehub-test/nothing:1"})
        path = f"/workspaces/{made.json()['id']}"
        shown = until_shown(client, path, "error")
        assert (shown["phase"], shown["error"]["reason"]) == ("ERROR", "ImagePullFailed")
        faces = faces_of(server, client, made.json()["id"])
        del faces[LIST]
        assert unsaid(faces, "The image codehub-test/nothing:1 can't be had", "then recover it") == {}


def cluster_settings(cluster: TestCluster, tmp_path: Path, **changes: str) -> dict[str, str]:
    usual = {
        "data_dir": str(tmp_path / "data"),
        "instance_backend": "k8s",
        "archive_url": (tmp_path / "archives").as_uri(),
        "k8s_archive_claim": "archives",
        "helper_image": "codehub-test/job",
        "k8s_kubeconfig": str(prepare_namespace(cluster)),
        "ide": "http",
        "port": "0",
    }
    return usual | changes


def test_a_start_without_a_right_names_what_is_missing(
    cluster: TestCluster, namespace: str, tmp_path: Path
) -> None:
    settings = cluster_settings(cluster, tmp_path, k8s_namespace=namespace)
    refused = codehub("up", **settings)
    assert refused.returncode != 0
    assert "codehub may not create pods" in refused.stderr
    assert "docs/kubernetes.md" in refused.stderr
    examined = codehub("doctor", **settings)
    assert f"in {namespace} codehub may not create pods" in examined.stdout


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"helper_image": ""}, "CODEHUB_HELPER_IMAGE"),
        ({"k8s_archive_claim": ""}, "CODEHUB_K8S_ARCHIVE_CLAIM"),
        ({"k8s_kubeconfig": "/nowhere"}, "CODEHUB_K8S_KUBECONFIG"),
        ({"k8s_pod_patch": "/nowhere"}, "CODEHUB_K8S_POD_PATCH"),
    ],
)
def test_a_start_that_can_not_work_says_which_setting_to_correct(
    cluster: TestCluster, tmp_path: Path, changes: dict[str, str], problem: str
) -> None:
    refused = codehub("up", **cluster_settings(cluster, tmp_path, **changes))
    assert refused.returncode != 0
    assert problem in refused.stderr


def test_the_doctor_finds_a_cluster_that_fits(cluster: TestCluster, tmp_path: Path) -> None:
    examined = codehub("doctor", **cluster_settings(cluster, tmp_path))
    assert f"v1.37.1 at {cluster.layout.server}, namespace codehub-workspaces" in examined.stdout
