"""Addresses as settings write them go in, whether they can be read comes
out. Refuses other schemes, and hosts and ports that can't be.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from urllib.parse import SplitResult, urlsplit

from codehub.core.origins import Unfit, UnfitOrigins, WorkspaceOrigins, origins_at

_NO_PLACE = (
    "its host and port can't be read. A password is written with %2F for /, %3A for :, %40 for @, %23 for "
    "#, %3F for ?, %5B for ["
)
SCHEMES: Mapping[str, tuple[str, ...]] = {
    "database_url": ("postgresql://", "postgres://"),
    "redis_url": ("redis://", "rediss://", "unix://"),
    "archive_url": ("file:///", "s3://"),
}
_UNFIT: Mapping[Unfit, str] = {
    Unfit.NO_WILDCARD: (
        "it must be *. and a name below which every name leads here, as in *.ws.example.net, or none"
    ),
    Unfit.PLAIN_HTTP: (
        "over plain http browsers keep workspaces apart on this machine alone, as *.localhost. Let browsers "
        "come by https and say so in CODEHUB_PUBLIC_BASE_URL, or set it to none"
    ),
    Unfit.HUB_BELOW: (
        "codehub's own address, {base_url}, lies below {domain}. Name a domain for workspaces alone"
    ),
}
API_SCHEMES = ("http://", "unix:///")


def refuse_unknown(url: str, schemes: tuple[str, ...]) -> None:
    if not url.startswith(schemes):
        raise ValueError(f"it must begin with {' or '.join(schemes)}")
    if _parts(url) is None or (url.startswith("http://") and not is_web_address(url)):
        raise ValueError(_NO_PLACE)


def is_web_address(url: str) -> bool:
    """Whether it is http:// or https:// with a host, and a port if any, that can be read."""
    parts = _parts(url)
    return parts is not None and parts.scheme in ("http", "https") and parts.hostname is not None


def read_origins(workspace_host: str, base_url: str) -> WorkspaceOrigins | None:
    """Return where workspaces have their origins, if they have. Raises ValueError, which says what to do."""
    try:
        return origins_at(workspace_host, base_url)
    except UnfitOrigins as error:
        raise ValueError(_UNFIT[error.why].format(base_url=base_url, domain=error.domain)) from None


def to_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(network.strip()) for network in text.split(",") if network.strip())


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if its host and port can't be read."""
    try:
        parts = urlsplit(url)
        _ = "," in parts.netloc or parts.port  # PostgreSQL's may name several hosts, with a port each
    except ValueError:
        return None
    return parts
