"""Where a cluster is looked for when no setting names it, and where
in it codehub is then: the Pod that it runs in, then kubectl's own places.
"""

import asyncio
import os
from ipaddress import ip_address
from pathlib import Path

from codehub.adapters.kubernetes.access import Access, from_kubeconfig, in_cluster
from codehub.ports.system import Clock

_DEFAULT = "~/.kube/config"
# What a chart calls Pods of its own.
_OWN_LABEL = "app.kubernetes.io/name=codehub"


def find_access(kubeconfig: Path | None, *, clock: Clock) -> Access:
    """Return the way to the cluster. Raises AccessRefused."""
    if _is_in_cluster(kubeconfig):
        return in_cluster(clock=clock)
    path = kubeconfig or Path(os.environ.get("KUBECONFIG") or _DEFAULT)
    return from_kubeconfig(path.expanduser(), clock=clock)


async def own_place(kubeconfig: Path | None, access: Access) -> str | None:
    """Return as what the cluster sees codehub's processes: Pods of this one's namespace, or this machine's
    address. None: that can't be told.
    """
    if _is_in_cluster(kubeconfig):
        return None if access.namespace is None else f"{access.namespace}/{_OWN_LABEL}"
    server = access.upstream
    try:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=(server.host, server.port)
        )
    except OSError:
        return None
    address = ip_address(transport.get_extra_info("sockname")[0].partition("%")[0])
    transport.close()
    return None if address.is_loopback else str(address)


def _is_in_cluster(kubeconfig: Path | None) -> bool:
    return kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ
