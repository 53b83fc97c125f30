"""Where the Docker engine listens, as DOCKER_HOST says it, and the volume that marks it as an
installation's.
"""

from pathlib import Path
from urllib.parse import urlsplit

from codehub.ports.instances import TcpUpstream, UnixUpstream, Upstream

DEFAULT_URL = "unix:///var/run/docker.sock"
_DEFAULT_PORT = 2375


def engine_upstream(url: str) -> Upstream:
    """Return where an engine listens. Raises OSError for what is no such address."""
    refusal = OSError(f"{url!r} is no unix:// or tcp:// address")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise refusal from None
    if parts.scheme == "unix" and parts.path:
        return UnixUpstream(Path(parts.path))
    if parts.scheme in ("tcp", "http") and parts.hostname is not None and port != 0:
        return TcpUpstream(parts.hostname, port or _DEFAULT_PORT)
    raise refusal


def mark_of(installation: str) -> str:
    """Return the name of the volume that marks an engine as an installation's."""
    return f"codehub-{installation}"
