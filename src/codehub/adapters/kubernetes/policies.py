"""Who may reach workspaces, and what they may reach, go in; the NetworkPolicies to apply come out. Pure.

Everything private is refused, for that is where a cluster keeps itself. Raises WrongPeer.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any

from codehub.adapters.kubernetes.labels import HELPER, INSTALL, INSTANCE, POLICY, PROBE, ROLE

Network = IPv4Network | IPv6Network
Manifest = Mapping[str, Any]

_NAMESPACE = "kubernetes.io/metadata.name"
_PODS = re.compile(r"(?P<namespace>[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(/(?P<label>[^=\s]+)=(?P<value>\S*))?")

# The node's own, and what a cloud tells whoever asks from there, credentials among it.
_LINK_LOCAL = ("169.254.0.0/16", "168.63.129.16/32", "192.0.0.0/24", "fe80::/10", "fd00:ec2::/32")
# Where clusters have their Pods, Services, nodes, API servers and whatever else is theirs.
_PRIVATE = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "fc00::/7",
)
_EVERYWHERE = ("0.0.0.0/0", "::/0")
# Of IPv6 the world is what is given out to it.
_WORLD = ("0.0.0.0/0", "2000::/3")
# A resolver is a Pod, the node or the metadata server itself: only its port is the same everywhere.
_NAMES: Manifest = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}


class WrongPeer(Exception):
    """Somebody who can't be named so. Its text says how."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Who reaches workspaces, and which networks they reach beside the world, or not even as a part of it."""

    admitted: Sequence[Manifest]
    allowed: Sequence[Network] = ()
    refused: Sequence[Network] = ()
    has_store: bool = True
    """Whether Jobs carry archives to an object store. Else they mount a volume, and reach nothing."""


def parse_peers(text: str) -> tuple[Manifest, ...]:
    """Return who is meant by networks, `namespace` and `namespace/label=value`, with commas between."""
    return tuple(_peer(entry.strip()) for entry in text.split(",") if entry.strip())


def _peer(entry: str) -> Manifest:
    try:
        return {"ipBlock": {"cidr": str(ip_network(entry))}}
    except ValueError:
        parts = _PODS.fullmatch(entry)
    if parts is None:
        raise WrongPeer(
            f"{entry!r} is neither a network, as in 10.1.2.0/24, nor Pods, as in namespace or namespace/label=value"
        )
    # Never a workspace, a Job or a probe, should they share that namespace.
    pods: dict[str, Any] = {"matchExpressions": [{"key": ROLE, "operator": "DoesNotExist"}]}
    if parts["label"] is not None:
        pods["matchLabels"] = {parts["label"]: parts["value"]}
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE: parts["namespace"]}}, "podSelector": pods}


def policies(installation: str, reach: Reach) -> Mapping[str, Manifest]:
    """Return them by name: of workspaces, and of the Jobs beside their homes."""
    world = _blocks(map(ip_network, _WORLD), (*map(ip_network, (*_LINK_LOCAL, *_PRIVATE)), *reach.refused))
    allowed = _blocks(reach.allowed, reach.refused)
    # A store may be anywhere, a Pod of the cluster too, whose address no network of a policy need match.
    anywhere: Sequence[Manifest] = [
        {"namespaceSelector": {}},
        *_blocks(map(ip_network, _EVERYWHERE), tuple(map(ip_network, _LINK_LOCAL))),
    ]
    # A rule without a peer would hold for everybody.
    come_in = [{"from": [*reach.admitted]}] if reach.admitted else []
    go_out = [{"to": [*world, *allowed]}] if world or allowed else []
    to_store: Sequence[Manifest] = [_NAMES, {"to": anywhere}] if reach.has_store else []
    made = (
        _policy(installation, "workspaces", (INSTANCE, PROBE), come_in, [_NAMES, *go_out]),
        _policy(installation, "jobs", (HELPER,), [], to_store),
    )
    return {manifest["metadata"]["name"]: manifest for manifest in made}


def digest(manifests: Mapping[str, Manifest]) -> str:
    """Return a value that differs between different policies."""
    return hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()[:32]


def _policy(
    installation: str,
    of: str,
    roles: Sequence[str],
    ingress: Sequence[Manifest],
    egress: Sequence[Manifest],
) -> Manifest:
    return {
        "metadata": {
            "name": f"codehub-{installation}-{of}",
            "labels": {INSTALL: installation, ROLE: POLICY},
        },
        "spec": {
            "podSelector": {
                "matchLabels": {INSTALL: installation},
                "matchExpressions": [{"key": ROLE, "operator": "In", "values": [*roles]}],
            },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [*ingress],
            "egress": [*egress],
        },
    }


def _blocks(networks: Iterable[Network], excepted: Sequence[Network]) -> list[Manifest]:
    """Return the networks as peers, without what is excepted."""
    blocks: list[Manifest] = []
    for network in networks:
        if any(_is_within(network, each) for each in excepted):
            continue
        inside = [each for each in excepted if _is_within(each, network)]
        # Of one version, and none within another: not every plug-in takes the same address twice.
        merged = [str(each) for each in collapse_addresses(inside)]  # type: ignore[type-var]
        blocks.append({"ipBlock": {"cidr": str(network), **({"except": merged} if merged else {})}})
    return blocks


def _is_within(network: Network, other: Network) -> bool:
    return network.version == other.version and network.subnet_of(other)  # type: ignore[arg-type]  # of one version
