"""Who is at the other end: the peer, or what a configured proxy says of it. Nobody else's word counts (security 5).

Whoever has no address came through our own socket: that is the edge, which names its peer as the last hop, and nobody else can.
"""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from starlette.requests import Request

Networks = Sequence[IPv4Network | IPv6Network]
# What the edge says of every request; that somebody before it passed it on, it says in another header.
_OF_THE_EDGE = frozenset({"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"})


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


def is_local(request: Request) -> bool:
    """Whether a program on this machine asks, and for itself: a proxy on this machine says for whom it asks."""
    hops = request.headers.get("x-forwarded-for", "").split(",")
    peer = _peer(request, hops)
    of_the_edge = _OF_THE_EDGE if request.client is None else ()
    is_passed_on = any(
        name.startswith(("x-forwarded-", "forwarded", "via"))
        for name in request.headers
        if name not in of_the_edge
    )
    return _is_address(peer) and ip_address(peer).is_loopback and not is_passed_on


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
