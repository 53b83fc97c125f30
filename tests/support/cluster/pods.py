"""Pods of the light image in a test cluster, and what they see."""

from collections.abc import Mapping
from typing import Any

import httpx
from tests.support.cluster.cluster import TestCluster
from tests.support.docker import LIGHT
from tests.support.patience import block_until

PORT = 8080


def light_pod(namespace: str, name: str, claim: str | None = None, **labels: str) -> dict[str, Any]:
    """A Pod that a restricted namespace takes, with a claim as its home if there is one."""
    container: dict[str, Any] = {
        "name": "ide",
        "image": LIGHT,
        "imagePullPolicy": "Never",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "10m"}},
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if claim is not None:
        container["volumeMounts"] = [{"name": "home", "mountPath": "/home/coder"}]
        spec["volumes"] = [{"name": "home", "persistentVolumeClaim": {"claimName": claim}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": spec,
    }


def claim(namespace: str, name: str, size: str = "1Gi", **more: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }


def address_of(cluster: TestCluster, pod: Mapping[str, Any]) -> str:
    """Wait until a Pod answers, and return where."""
    path = cluster.path_of(pod)
    block_until(lambda: (cluster.find(path) or {}).get("status", {}).get("podIP"))
    address: str = cluster.ask("GET", path)["status"]["podIP"]
    block_until(lambda: _answers(address))
    return address


def shell(address: str, script: str) -> str:
    """Return what a shell in the Pod at this address says."""
    answer = httpx.post(f"http://{address}:{PORT}/run", content=script, timeout=30)
    return answer.text


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}:{PORT}/healthz", timeout=2).is_success
    except httpx.HTTPError:
        return False
