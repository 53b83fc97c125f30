"""What a test cluster's API server is told once: storage classes, and where usage comes from."""

import base64
from collections.abc import Sequence
from typing import Any

from tests.support.cluster.layout import Layout

_RBAC = "rbac.authorization.k8s.io"


def addons(layout: Layout) -> Sequence[dict[str, Any]]:
    return (
        _bound("node-proxier", "system:node-proxier", "system:kube-proxy"),
        _storage_class("local", "WaitForFirstConsumer", is_default=True),
        _storage_class("local-immediate", "Immediate", is_default=False),
        *_metrics(layout),
    )


def _bound(name: str, role: str, user: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }


def _storage_class(name: str, binding: str, *, is_default: bool) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": str(is_default).lower()},
        },
        "provisioner": "codehub.test/directory",
        "volumeBindingMode": binding,
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


def _metrics(layout: Layout) -> Sequence[dict[str, Any]]:
    place = {"name": "metrics-server", "namespace": "kube-system"}
    user = "system:serviceaccount:kube-system:metrics-server"
    rules = [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    ]
    return (
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "metrics-server"},
            "rules": rules,
        },
        _bound("metrics-server", "metrics-server", user),
        _bound("metrics-server-delegates", "system:auth-delegator", user),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "metrics-server-reads", "namespace": "kube-system"},
            "roleRef": {
                "apiGroup": _RBAC,
                "kind": "Role",
                "name": "extension-apiserver-authentication-reader",
            },
            "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": place,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 4443}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**place, "labels": {"kubernetes.io/service-name": "metrics-server"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [layout.node_address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": 4443, "protocol": "TCP"}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "service": {**place, "port": 443},
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": base64.b64encode((layout.keys / "ca.crt").read_bytes()).decode(),
            },
        },
    )
