"""A registry's credentials: an image's name in, what Docker is to show that registry out. They are Docker's own, from `docker login`.

Reads the config.json of codehub's own user (or DOCKER_CONFIG): a registry's helper of `credHelpers`, or the `credsStore` of all, is asked
as the docker command asks it; what is in neither may be in `auths`.
"""

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog

log = structlog.get_logger()

_HUB = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io")
_HELPER_S_MAX = 20.0
_NOBODY = "<token>"  # a secret that stands for no user is an identity token


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    directory = environ.get("DOCKER_CONFIG")
    return (Path(directory) if directory else Path.home() / ".docker") / "config.json"


def auth_header(image: str, path: Path) -> dict[str, str]:
    """Return the header for a pull: empty where nothing is known of this registry. A config that can't be read is no config."""
    config = _config(path)
    registry = registry_of(image)
    names = _HUB if registry == "docker.io" else (registry, f"https://{registry}", f"http://{registry}")
    helper = _entry(config.get("credHelpers"), names) or config.get("credsStore")
    told = _asked(str(helper), names[0]) if helper else None
    if told is None and isinstance(entry := _entry(config.get("auths"), names), dict):
        told = _read(entry, names[0])
    if told is None:
        return {}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(told).encode()).decode()}


def _config(path: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        log.warning("docker_config_unreadable", path=str(path), reason=str(error))
        return {}


def _entry(section: object, names: Iterable[str]) -> Any:
    """Return what a section says of a registry, whichever of its names it is under."""
    if not isinstance(section, dict):
        return None
    found = (section.get(name) or section.get(f"{name}/") for name in names)
    return next((entry for entry in found if entry), None)


def registry_of(image: str) -> str:
    """Return where an image comes from, as Docker reads its name."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _asked(helper: str, server: str) -> dict[str, str] | None:
    """Ask a credential helper, a program that reads a server's name and says a user and a secret. One that fails knows nothing."""
    try:
        answer = subprocess.run(  # noqa: S603  # its name is in the config of codehub's own user
            [f"docker-credential-{helper}", "get"],
            input=server,
            capture_output=True,
            text=True,
            timeout=_HELPER_S_MAX,
            check=False,
        )
        if answer.returncode != 0:
            reason = answer.stdout.strip() or answer.stderr.strip()
            if "credentials not found" not in reason:
                log.warning("docker_credential_helper_failed", helper=helper, registry=server, reason=reason)
            return None
        said = json.loads(answer.stdout)
        username, secret = str(said["Username"]), str(said["Secret"])
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("docker_credential_helper_failed", helper=helper, registry=server, reason=str(error))
        return None
    except (ValueError, TypeError, KeyError):  # what it said may be the secret
        log.warning("docker_credential_helper_failed", helper=helper, registry=server, reason="no JSON")
        return None
    if username == _NOBODY:
        return {"identitytoken": secret, "serveraddress": server}
    return {"username": username, "password": secret, "serveraddress": server}


def _read(entry: Mapping[str, str], server: str) -> dict[str, str] | None:
    if entry.get("identitytoken"):
        return {"identitytoken": entry["identitytoken"], "serveraddress": server}
    username, colon, password = _decoded(entry.get("auth", "")).partition(":")
    if not colon:
        log.warning("docker_credentials_unreadable", registry=server)
        return None
    return {"username": username, "password": password.rstrip("\0"), "serveraddress": server}


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, ValueError):
        return ""
