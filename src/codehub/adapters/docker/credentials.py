"""An image's name goes in, the credentials for its registry come out: those that `docker login` has stored.

Reads the config.json of codehub's own user (or DOCKER_CONFIG). As the docker command does, it asks the
registry's helper in `credHelpers`, or else the `credsStore`; then it looks in `auths`.
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
_NAMELESS_USER = "<token>"  # with this user name, the secret is an identity token


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    directory = environ.get("DOCKER_CONFIG")
    return (Path(directory) if directory else Path.home() / ".docker") / "config.json"


def auth_header(image: str, path: Path) -> dict[str, str]:
    """Return the header for a pull, empty without credentials. An unreadable config counts as none."""
    config = _config(path)
    registry = registry_of(image)
    names = _HUB if registry == "docker.io" else (registry, f"https://{registry}", f"http://{registry}")
    helper = _entry(config.get("credHelpers"), names) or config.get("credsStore")
    credentials = _ask_helper(str(helper), names[0]) if helper else None
    if credentials is None and isinstance(entry := _entry(config.get("auths"), names), dict):
        credentials = _read_entry(entry, names[0])
    if credentials is None:
        return {}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(credentials).encode()).decode()}


def _config(path: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        log.warning("docker_config_unreadable", path=str(path), reason=str(error))
        return {}


def _entry(section: object, names: Iterable[str]) -> Any:
    """Return a section's entry for a registry, under any of its names."""
    if not isinstance(section, dict):
        return None
    entries = (section.get(name) or section.get(f"{name}/") for name in names)
    return next((entry for entry in entries if entry), None)


def registry_of(image: str) -> str:
    """Return the registry of an image, by Docker's rules for names."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _ask_helper(helper: str, server: str) -> dict[str, str] | None:
    """Ask a credential helper, a program that reads a server's name and prints a user and a secret.

    A helper that fails counts as one without credentials."""
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
        credentials = json.loads(answer.stdout)
        username, secret = str(credentials["Username"]), str(credentials["Secret"])
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("docker_credential_helper_failed", helper=helper, registry=server, reason=str(error))
        return None
    except (ValueError, TypeError, KeyError):  # its output may be the secret: it is not logged
        log.warning("docker_credential_helper_failed", helper=helper, registry=server, reason="no JSON")
        return None
    if username == _NAMELESS_USER:
        return {"identitytoken": secret, "serveraddress": server}
    return {"username": username, "password": secret, "serveraddress": server}


def _read_entry(entry: Mapping[str, str], server: str) -> dict[str, str] | None:
    if entry.get("identitytoken"):
        return {"identitytoken": entry["identitytoken"], "serveraddress": server}
    username, colon, password = _decode(entry.get("auth", "")).partition(":")
    if not colon:
        log.warning("docker_credentials_unreadable", registry=server)
        return None
    return {"username": username, "password": password.rstrip("\0"), "serveraddress": server}


def _decode(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, ValueError):
        return ""
