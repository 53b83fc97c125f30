"""Who is at the other end: the peer, or what a configured proxy says of it. Nobody else's word counts (security 5)."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from starlette.requests import Request

Networks = Sequence[IPv4Network | IPv6Network]


def client_address(request: Request, trusted: Networks) -> str:
    """Return the last address before our own proxies, as text."""
    peer = request.client.host if request.client is not None else ""
    if not _is_in(peer, trusted):
        return peer
    hops = [hop.strip() for value in request.headers.getlist("x-forwarded-for") for hop in value.split(",")]
    for hop in reversed(hops):
        if not _is_address(hop):
            break
        if not _is_in(hop, trusted):
            return hop
        peer = hop
    return peer


def is_local(request: Request) -> bool:
    """Whether a program on this machine asks, and for itself: a proxy on this machine says for whom it asks."""
    peer = request.client.host if request.client is not None else ""
    is_passed_on = any(name.startswith(("x-forwarded-", "forwarded", "via")) for name in request.headers)
    return _is_address(peer) and ip_address(peer).is_loopback and not is_passed_on


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
