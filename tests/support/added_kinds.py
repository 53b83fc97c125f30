"""Kinds that no cluster has by itself, as far as the chart uses them: with the fields and the patterns of
the Gateway API and of the Prometheus operator, so that a strict check knows a misspelt one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
from tests.support.cluster.cluster import TestCluster
from tests.support.patience import block_until

_DURATION = r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"
_INTERVAL = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
_TEXT: Mapping[str, Any] = {"type": "string"}
_PORT: Mapping[str, Any] = {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


def _list(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(item)}


_REFERENCE = {"group": _TEXT, "kind": _TEXT, "name": _TEXT, "namespace": _TEXT, "port": _PORT}
_HTTP_ROUTE = _object(
    parentRefs=_list(_object("name", **_REFERENCE, sectionName=_TEXT)),
    hostnames=_list(
        {**_TEXT, "pattern": r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}
    ),
    rules=_list(
        _object(
            backendRefs=_list(_object("name", **_REFERENCE, weight={"type": "integer", "format": "int32"})),
            timeouts=_object(
                request={**_TEXT, "pattern": _DURATION}, backendRequest={**_TEXT, "pattern": _DURATION}
            ),
        )
    ),
)
_SERVICE_MONITOR = _object(
    "endpoints",
    "selector",
    selector=_object(matchLabels={"type": "object", "additionalProperties": _TEXT}),
    endpoints=_list(
        _object(
            port=_TEXT,
            path=_TEXT,
            interval={**_TEXT, "pattern": _INTERVAL},
            authorization=_object(type=_TEXT, credentials=_object("key", name=_TEXT, key=_TEXT)),
        )
    ),
)


def _kind(group: str, name: str, plural: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    schema = _object("spec", spec=dict(spec))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # A group of Kubernetes' own wants a word on that.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": {"kind": name, "plural": plural, "singular": name.lower()},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


_KINDS = (
    _kind("gateway.networking.k8s.io", "HTTPRoute", "httproutes", _HTTP_ROUTE),
    _kind("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", _SERVICE_MONITOR),
)


@contextmanager
def added_kinds(cluster: TestCluster) -> Iterator[None]:
    """Let a cluster have them."""
    cluster.apply(*_KINDS)
    try:
        for each in _KINDS:
            group, plural = each["spec"]["group"], each["spec"]["names"]["plural"]
            block_until(partial(_is_served, cluster, f"/apis/{group}/v1/{plural}"))
        yield
    finally:
        for each in _KINDS:
            cluster.ask("DELETE", cluster.path_of(each))
        # It ends a moment later, and would take what the next test makes of it with it.
        for each in _KINDS:
            block_until(partial(_is_gone, cluster, cluster.path_of(each)))


def _is_gone(cluster: TestCluster, path: str) -> bool:
    return cluster.find(path) is None


def _is_served(cluster: TestCluster, path: str) -> bool:
    """A new kind is refused for a moment: its storage is set up."""
    try:
        return cluster.find(path) is not None
    except httpx.HTTPStatusError:
        return False
