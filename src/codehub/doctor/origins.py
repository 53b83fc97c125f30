"""Workspaces' own origins, asked for as a browser would: whether a name below their domain is known, and
whether it leads to codehub.
"""

import socket
from typing import Final
from urllib.parse import urlsplit

from codehub.adapters.system.machine import SystemRandomness
from codehub.core.origins import WorkspaceOrigins
from codehub.doctor.findings import Finding, Verdict
from codehub.doctor.language import say
from codehub.http_client import Connection, Unreachable
from codehub.settings import Settings

_PART: Final = "origins"
_ANSWER_S_MAX = 3.0
_NOBODYS_LABEL = "0" * 20
_REFUSES = (401, 404)


def examine_origins(settings: Settings) -> list[Finding]:
    origins = settings.workspace_origins
    return [] if origins is None else [_examine(origins, settings.base_url)]


def _examine(origins: WorkspaceOrigins, base_url: str) -> Finding:
    domain, origin = origins.domain, origins.origin_of(_NOBODYS_LABEL)
    address = _resolve(origin)
    if address is None:
        return _unknown(origins, base_url)
    do = say("origins.local.start" if origins.is_local else "origins.do", domain=domain)
    try:
        status = _ask(origin)
    except Unreachable as error:
        silent = say("origins.silent", domain=domain, address=address, error=error)
        return Finding(_PART, Verdict.OPTIONAL, silent, do)
    if status is not None:
        other = say("origins.other", domain=domain, address=address, status=status)
        return Finding(_PART, Verdict.OPTIONAL, other, do)
    return Finding(_PART, Verdict.OK, say("origins.ok", domain=domain, address=address))


def _unknown(origins: WorkspaceOrigins, base_url: str) -> Finding:
    domain = origins.domain
    if origins.is_local:
        do = say("origins.local.do", domain=domain, base=base_url)
        return Finding(_PART, Verdict.OPTIONAL, say("origins.local", domain=domain), do)
    do = say("origins.unknown.do", domain=domain, base=base_url)
    return Finding(_PART, Verdict.OPTIONAL, say("origins.unknown", domain=domain), do)


def _resolve(origin: str) -> str | None:
    """Return an address that the origin's name has, if this machine knows one."""
    parts = urlsplit(origin)
    try:
        addresses = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return str(addresses[0][4][0])


def _ask(origin: str) -> int | None:
    """Return None if codehub answers at the origin, for a workspace that nobody has; else the status.

    Whatever stands before it may refuse as well: codehub answers under the request's own id.
    """
    request_id = SystemRandomness().token()
    connection = Connection(origin, answer_s_max=_ANSWER_S_MAX)
    try:
        answer = connection.ask("GET", "/", {"X-Request-Id": request_id})
    finally:
        connection.close()
    is_codehub = answer.headers.get("X-Request-Id") == request_id
    return None if is_codehub and answer.status in _REFUSES else answer.status
