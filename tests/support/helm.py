"""Helm, as `make kubernetes` has built it, with codehub's chart; and what a chart's values may be."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from tests.support.kubernetes import built_kubernetes

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/codehub"
MINIMAL = ROOT / "deploy/kubernetes/values.yaml"
EVERYTHING: Mapping[str, Any] = {
    "image": {"tag": "1", "pullSecrets": ["registry"]},
    "redis": {"secretName": "redis"},
    "admin": {"secretName": "admin"},
    "metrics": {
        "secretName": "metrics",
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "workspaces": {
        "host": "*.ws.example.net",
        "storageClass": "fast",
        "accessMode": "ReadWriteOncePod",
        "image": "codercom/code-server:4.100.3",
        "podPatch": {"spec": {"nodeSelector": {"pool": "workspaces"}}},
    },
    "settings": {"CODEHUB_STANDBY_TTL_SECONDS": "900"},
    "api": {
        "nodeSelector": {"pool": "codehub"},
        "tolerations": [{"key": "codehub", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    },
    "proxy": {
        "trustedProxies": "10.0.0.0/8",
        "autoscaling": {"enabled": True},
        "nodeSelector": {"pool": "codehub"},
        "tolerations": [{"key": "codehub", "operator": "Exists"}],
        "podAnnotations": {"example.org/owner": "platform"},
    },
    "service": {"type": "LoadBalancer", "annotations": {"example.org/internal": "true"}},
    "ingress": {
        "className": "nginx",
        "annotations": {"example.org/body-size": "0"},
        "workspacesTlsSecretName": "ws-example-net",
    },
    "gateway": {"enabled": True, "parentRefs": [{"name": "public", "namespace": "gateways"}]},
    "networkPolicy": {
        "proxyFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]
    },
}
"""Every option that the minimal values leave out."""


def program() -> Path:
    built = built_kubernetes()
    assert built is not None
    return built / "bin/helm"


def helm(
    *arguments: str | Path, values: Mapping[str, Any] | None = None, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it. `values`: beside those of the command line."""
    environment = os.environ if kubeconfig is None else {**os.environ, "KUBECONFIG": str(kubeconfig)}
    more: Sequence[str] = () if values is None else ("--values", "-")
    return subprocess.run(
        [program(), *arguments, *more],
        env=environment,
        input=None if values is None else yaml.safe_dump(dict(values)),
        capture_output=True,
        text=True,
        check=False,
    )


def render(values: Mapping[str, Any] | None = None, *, release: str = "codehub") -> list[dict[str, Any]]:
    """Return what the chart makes of the minimal values and these."""
    place = ("--namespace", release, "--values", MINIMAL)
    done = helm("template", release, CHART, *place, values=values or {})
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(objects: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]
