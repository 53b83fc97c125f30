"""Who is at the other end: the peer, or what a configured proxy
says of it. Nobody else's word counts (security 5).

Whoever has no address came through our own socket: that is the edge,
which names its peer as the last hop, and nobody else can.
"""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from starlette.requests import Request

Networks = Sequence[IPv4Network | IPv6Network]


def client_address(request: Request, trusted: Networks) -> str:
    """Return the last address before our own proxies, as text."""
    hops = [hop.strip() for value in request.headers.getlist("x-forwarded-for") for hop in value.split(",")]
    peer = _peer(request, hops)
    if not _is_in(peer, trusted):
        return peer
    for hop in reversed(hops):
        if not _is_address(hop):
            break
        if not _is_in(hop, trusted):
            return hop
        peer = hop
    return peer


def _peer(request: Request, hops: list[str]) -> str:
    if request.client is not None:
        return request.client.host
    return hops.pop().strip() if hops else ""


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(text: str, networks: Networks) -> bool:
    if not networks or not _is_address(text):
        return False
    address = ip_address(text)
    return any(address in network for network in networks)
