"""The operator's patch and the API server that it is meant for: every field that
it knows is refused by name unless it is listed, and what the page shows is taken.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.integration.kubernetes.test_explained import cluster_settings
from tests.support.cluster.cluster import TestCluster
from tests.support.instances import new_spec
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import running_in_cluster
from tests.support.program import codehub

from codehub.adapters.kubernetes.pod_patch import PodPatch, WrongPatch, checked_patch
from codehub.adapters.kubernetes.pods import pod_manifest
from codehub.core.ides import IDES

pytestmark = KUBERNETES

PAGE = Path(__file__).parents[3] / "docs/kubernetes.md"
LISTED = {
    "PodSpec": {
        "affinity",
        "dnsConfig",
        "hostAliases",
        "hostUsers",
        "imagePullSecrets",
        "nodeSelector",
        "preemptionPolicy",
        "priorityClassName",
        "resourceClaims",
        "runtimeClassName",
        "schedulerName",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    },
    "Container": {"env", "imagePullPolicy", "resources", "volumeMounts"},
    "Volume": {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "name",
        "persistentVolumeClaim",
        "secret",
    },
    "ObjectMeta": {"annotations", "labels"},
    "ResourceRequirements": {"claims", "limits", "requests"},
}


@pytest.fixture
def schemas(cluster: TestCluster) -> Mapping[str, Any]:
    """What the API server says that it takes."""
    answer: Mapping[str, Any] = cluster.ask("GET", "/openapi/v3/api/v1")["components"]["schemas"]
    return {
        name.rpartition(".")[2]: schema["properties"]
        for name, schema in answer.items()
        if "properties" in schema
    }


def placed(kind: str, field: str) -> tuple[Mapping[str, Any], str]:
    """A patch that sets this field to something, and what names it there."""
    match kind:
        case "PodSpec":
            return {"spec": {field: None}}, f"spec.{field}"
        case "Container":
            return {"spec": {"container": {field: None}}}, f"spec.container.{field}"
        case "Volume":
            return {"spec": {"volumes": [{"name": "x", field: {}}]}}, field
        case "ResourceRequirements":
            return {"spec": {"container": {"resources": {field: None}}}}, f"resources.{field}"
        case _:
            return {"metadata": {field: None}}, f"metadata.{field}"


@pytest.mark.parametrize("kind", LISTED)
def test_every_field_that_the_api_knows_is_listed_or_refused_by_its_name(
    schemas: Mapping[str, Any], kind: str
) -> None:
    known = schemas[kind].keys()
    assert known >= LISTED[kind], "what is listed is known to the API"
    for field in known - LISTED[kind]:
        content, named = placed(kind, field)
        with pytest.raises(WrongPatch, match=rf"{re.escape(named)}( can't be set|$)"):
            checked_patch(content)


def shown() -> Iterator[PodPatch]:
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL):
        content = yaml.safe_load(block) if "\n---\n" not in block else {}
        if "kind" not in content and "spec" in content:
            yield checked_patch(content)


def tried(cluster: TestCluster, namespace: str, patch: PodPatch) -> Any:
    """Ask whether the API server would take a Pod that is patched so."""
    manifest = pod_manifest("installation", new_spec(), "volume", IDES["http"], patch)
    path = f"/api/v1/namespaces/{namespace}/pods"
    return cluster.ask("POST", path, manifest, dryRun="All", fieldValidation="Strict")


def test_what_the_page_shows_is_taken_in_a_restricted_namespace(cluster: TestCluster, namespace: str) -> None:
    for name in ("gvisor", "nvidia"):
        cluster.apply(
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": name},
                "handler": name,
            }
        )
    cluster.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "interactive"},
            "value": 1000,
        }
    )
    patches = [*shown()]
    assert len(patches) >= 2
    for patch in patches:
        made = tried(cluster, namespace, patch)["spec"]
        assert made["runtimeClassName"] in ("gvisor", "nvidia")
        assert made["containers"][0]["resources"]["limits"]["memory"] == "512Mi"


def test_every_listed_volume_is_one_that_a_restricted_namespace_takes(
    cluster: TestCluster, namespace: str
) -> None:
    sources = {
        "configMap": {"name": "x"},
        "csi": {"driver": "secrets.example"},
        "downwardAPI": {},
        "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"},
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        },
        "image": {"reference": "registry.example/models:1"},
        "persistentVolumeClaim": {"claimName": "datasets", "readOnly": True},
        "secret": {"secretName": "x"},
    }
    assert sources.keys() == LISTED["Volume"] - {"name"}
    volumes = [{"name": name.lower(), name: source} for name, source in sources.items()]
    made = tried(cluster, namespace, checked_patch({"spec": {"volumes": volumes}}))
    assert len(made["spec"]["volumes"]) == 1 + len(sources)


def test_a_start_and_the_doctor_say_what_the_cluster_does_not_take(
    cluster: TestCluster, tmp_path: Path
) -> None:
    patch, data = tmp_path / "patch.yaml", tmp_path / "data"
    patch.write_text("spec: {runtimeClassName: not-there}")
    with running_in_cluster(cluster, data, k8s_pod_patch=str(patch)):
        messages = (tmp_path / "stderr").read_text()
        assert "CODEHUB_K8S_POD_PATCH" in messages
        assert 'RuntimeClass \\"not-there\\" not found' in messages
    examined = codehub("doctor", **cluster_settings(cluster, tmp_path, k8s_pod_patch=str(patch)))
    assert 'RuntimeClass "not-there" not found' in " ".join(examined.stdout.split())
