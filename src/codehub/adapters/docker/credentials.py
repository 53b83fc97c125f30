"""A registry's credentials: an image's name in, what Docker is to show that registry out. They are Docker's own, from `docker login`.

Reads `auths` of the config.json of codehub's own user (or DOCKER_CONFIG). Credential helpers are programs, and are not run.
"""

import base64
import binascii
import json
import os
from collections.abc import Mapping
from pathlib import Path

import structlog

log = structlog.get_logger()

_HUB = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io")


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    directory = environ.get("DOCKER_CONFIG")
    return (Path(directory) if directory else Path.home() / ".docker") / "config.json"


def auth_header(image: str, path: Path) -> dict[str, str]:
    """Return the header for a pull: empty where nothing is known of this registry. A config that can't be read is no config."""
    try:
        auths = json.loads(path.read_text()).get("auths") or {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        log.warning("docker_config_unreadable", path=str(path), reason=str(error))
        return {}
    registry = registry_of(image)
    for name in _HUB if registry == "docker.io" else (registry, f"https://{registry}", f"http://{registry}"):
        entry = auths.get(name) or auths.get(f"{name}/")
        if entry:
            shown = _shown(entry, name)
            return {} if shown is None else {"X-Registry-Auth": shown}
    return {}


def registry_of(image: str) -> str:
    """Return where an image comes from, as Docker reads its name."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _shown(entry: Mapping[str, str], server: str) -> str | None:
    if entry.get("identitytoken"):
        told = {"identitytoken": entry["identitytoken"], "serveraddress": server}
    else:
        username, colon, password = _decoded(entry.get("auth", "")).partition(":")
        if not colon:
            log.warning("docker_credentials_unreadable", registry=server)
            return None
        told = {"username": username, "password": password.rstrip("\0"), "serveraddress": server}
    return base64.urlsafe_b64encode(json.dumps(told).encode()).decode()


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, ValueError):
        return ""
