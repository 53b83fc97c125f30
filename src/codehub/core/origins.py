"""The origins that workspaces have of their own: a Host goes in, the place that it names comes out, and the
reverse (spec §14).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from codehub.core.visibility import PORT_MAX

LABEL = "[0-9a-f]{20}"
"""80 random bits. The database makes one for each row, and no other row ever has it."""
NONE = "none"
LOCAL = "*.localhost"
_PLACE = re.compile(f"(?:([1-9][0-9]{{0,4}})-)?({LABEL})")
_NAME = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_WILDCARD = re.compile(rf"\*\.({_NAME}(?:\.{_NAME})*)(?::([1-9][0-9]{{0,4}}))?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_USUAL_PORTS = {"http": 80, "https": 443}


class Place(NamedTuple):
    """What a host name leads to: an IDE, or what listens on a port beside it."""

    label: str
    port: int | None

    @property
    def name(self) -> str:
        """The first part of its host name."""
        return self.label if self.port is None else f"{self.port}-{self.label}"


def read_place(name: str) -> Place | None:
    """Return what the first part of an origin's host name stands for, if it can be one."""
    match = _PLACE.fullmatch(name)
    if match is None:
        return None
    port = None if match[1] is None else int(match[1])
    return None if port is not None and port > PORT_MAX else Place(match[2], port)


class Door(NamedTuple):
    """What a door's cookie opens, and nothing else."""

    workspace_id: UUID
    port: int | None


@dataclass(frozen=True, slots=True)
class WorkspaceOrigins:
    """Where workspaces have their origins: one name below `domain` for each."""

    scheme: str
    domain: str
    """In lower case, without a dot at either end."""
    port: int | None
    """As browsers see it. None: the scheme's usual one, which they leave out."""

    @property
    def _written_port(self) -> str:
        return "" if self.port is None else f":{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether browsers find them on their own machine, without asking anybody for an address."""
        return _is_local(self.domain)

    def origin_of(self, label: str, port: int | None = None) -> str:
        """Return the origin of an IDE or of a port, as browsers write it."""
        return f"{self.scheme}://{Place(label, port).name}.{self.domain}{self._written_port}"

    def pattern_of_ports(self, label: str) -> str:
        """Return the origins of all ports in the way of VS Code, which puts in the number itself."""
        return f"{self.scheme}://{{{{port}}}}-{label}.{self.domain}{self._written_port}"

    def read_host(self, host: bytes) -> Place | None:
        """Return what a Host names, compared as a whole; None if it is no workspace's."""
        written, ending = host.decode("latin-1").lower(), f".{self.domain}{self._written_port}"
        return read_place(written.removesuffix(ending)) if written.endswith(ending) else None

    def covers(self, host: bytes) -> bool:
        """Whether a Host lies below the domain: then it is never the hub's, even if it names nothing."""
        name = host.lower().partition(b":")[0].rstrip(b".")
        return name.endswith(b"." + self.domain.encode())


def usual_host(base_url: str) -> str:
    """Return what the setting is where nobody has set it. Browsers of the hub's own machine know every name
    below localhost; no other wildcard name can be guessed.
    """
    return LOCAL if urlsplit(base_url).scheme == "http" and is_loopback(base_url) else NONE


class Unfit(StrEnum):
    """Why workspaces can't have their origins there."""

    NO_WILDCARD = "no-wildcard"
    PLAIN_HTTP = "plain-http"
    HUB_BELOW = "hub-below"


class UnfitOrigins(ValueError):
    def __init__(self, why: Unfit, domain: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.domain = domain


def origins_at(written: str, base_url: str) -> WorkspaceOrigins | None:
    """Return where workspaces have their origins, from the setting and from how browsers reach the hub; None:
    nowhere.

    Raises UnfitOrigins.
    """
    if written == NONE:
        return None
    match = _WILDCARD.fullmatch(written.lower())
    if match is None or (match[2] is not None and int(match[2]) > PORT_MAX):
        raise UnfitOrigins(Unfit.NO_WILDCARD)
    hub, domain = urlsplit(base_url), match[1]
    if hub.scheme != "https" and not (_is_local(domain) and is_loopback(base_url)):
        raise UnfitOrigins(Unfit.PLAIN_HTTP, domain)
    if f".{hub.hostname}".endswith(f".{domain}") and domain != hub.hostname:
        raise UnfitOrigins(Unfit.HUB_BELOW, domain)
    port = hub.port if match[2] is None else int(match[2])
    return WorkspaceOrigins(hub.scheme, domain, None if port == _USUAL_PORTS[hub.scheme] else port)


def _is_local(domain: str) -> bool:
    return domain == "localhost" or domain.endswith(".localhost")


def instance_environment(origins: WorkspaceOrigins, label: str) -> Mapping[str, str]:
    """Return what programs of an instance are told of its origins: code-server, where its ports lead
    to; Vite, which names its dev server may be asked by.
    """
    environment = {"VSCODE_PROXY_URI": origins.pattern_of_ports(label) + "/"}
    if not origins.domain.endswith("localhost"):  # which it answers to anyway
        environment["__VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS"] = f".{origins.domain}"
    return environment


def is_loopback(base_url: str) -> bool:
    """Whether browsers reach the hub on their own machine alone."""
    return urlsplit(base_url).hostname in _LOOPBACK
