"""Keeps workspaces apart from each other and from the cluster: policies go
to the API, and what a probe finds comes back.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import structlog

from codehub.adapters.kubernetes.answers import Refusal
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.isolation_probe import (
    API_SERVER,
    METADATA,
    NODE,
    WORKSPACE,
    IsolationProbe,
    Probed,
)
from codehub.adapters.kubernetes.kinds import CONFIG_MAPS, NETWORK_POLICIES
from codehub.adapters.kubernetes.labels import INSTALL, ISOLATION, ROLE
from codehub.adapters.kubernetes.policies import Network, Reach, digest, policies
from codehub.core.messages import Code, Message

log = structlog.get_logger()

_KEPT = timedelta(days=1)
_KEY = "probe.json"


class Isolation:
    """The policies of one installation, and whether they hold."""

    def __init__(
        self, client: KubernetesClient, installation: str, reach: Reach, probe: IsolationProbe
    ) -> None:
        self._client = client
        self._installation = installation
        self._policies = policies(installation, reach)
        self._probe = probe

    async def apply(self) -> None:
        """Make the policies, or make them so again. Raises Refusal."""
        for name, body in self._policies.items():
            await self._client.apply(NETWORK_POLICIES, name, body)

    async def is_known(self) -> bool:
        """Whether a probe has found in the last day that these very policies hold.

        What it found wanting is never remembered: somebody may have mended it.
        """
        answer = await self._client.find(CONFIG_MAPS, self._name)
        try:
            record = json.loads(((answer or {}).get("data") or {})[_KEY])
            age = datetime.now(UTC) - datetime.fromisoformat(record["at"])
            return record["policies"] == digest(self._policies) and timedelta() <= age < _KEPT
        except (KeyError, TypeError, ValueError):
            return False

    async def probe(self) -> Probed:
        """Probe, and write down that they hold if they do. Raises NotProbed."""
        probed = await self._probe.run()
        if not probed.reached and probed.is_admitted:
            record = {"at": datetime.now(UTC).isoformat(), "policies": digest(self._policies)}
            body = {
                "metadata": {"name": self._name, "labels": {INSTALL: self._installation, ROLE: ISOLATION}},
                "data": {_KEY: json.dumps(record)},
            }
            try:
                await self._client.apply(CONFIG_MAPS, self._name, body)
            except Refusal as error:
                log.info("probe_not_recorded", reason=str(error))
        return probed

    @property
    def _name(self) -> str:
        return f"codehub-{self._installation}-isolation"


async def api_servers(client: KubernetesClient) -> Sequence[Network]:
    """Return the addresses of the API server, as far as the cluster tells everybody. They may be public."""
    try:
        answer = await client.api.ask("GET", "/api")
    except Refusal:
        answer = {}
    published = [
        each["serverAddress"].rpartition(":")[0].strip("[]")
        for each in answer.get("serverAddressByClientCIDRs") or ()
    ]
    return [network for host in (client.api.access.upstream.host, *published) if (network := _network(host))]


def _network(host: str) -> Network | None:
    try:
        return ip_network(host)
    except ValueError:  # a name: what it leads to may change
        return None


# Whoever reaches another workspace is held back by no policy at all.
_REACHES = {
    API_SERVER: Code.REACHES_API_SERVER,
    NODE: Code.REACHES_NODE,
    METADATA: Code.REACHES_METADATA,
}


def problems(probed: Probed) -> Sequence[Message]:
    """Return what is wrong. Nothing: workspaces are kept apart."""
    if WORKSPACE in probed.reached:
        wrong = [Message(Code.REACHES_WORKSPACES)]
    else:
        wrong = [Message(code) for name, code in _REACHES.items() if name in probed.reached]
    return wrong if probed.is_admitted else [*wrong, Message(Code.NOT_ADMITTED)]
