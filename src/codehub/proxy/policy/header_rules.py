"""codehub's rules for the engine: which cookies and tokens are ours, who asks, and what a request is for."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Literal

from codehub.core.origins import WorkspaceOrigins
from codehub.core.route import Kind, Route, parse_route
from codehub.ports.proxy_lookups import Credential
from codehub.proxy.engine.own_secrets import OwnSecrets
from codehub.proxy.engine.rules import Rules
from codehub.web.bounds import BODY_BYTES_MAX
from codehub.web.cookies import DOOR, OWN_NAMES, SeveralSessions, session_name, session_word

TOKEN_HEADER = b"x-codehub-token"
_HOSTS_MAX = 4_096
OWN_SECRETS = OwnSecrets(OWN_NAMES, b"cht_")
_NOTED = (
    b"accept accept-language access-control-request-headers access-control-request-method origin purpose"
    b" sec-fetch-dest sec-fetch-mode sec-fetch-site sec-purpose user-agent"
).split()
_ONCE = (b"origin", b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site")


class Ambiguous:
    """Several cookies say who asks: then nothing does, whatever else is shown."""


AMBIGUOUS: Final = Ambiguous()
Identity = Credential | Ambiguous | None
"""What the engine keeps with a head of who asks."""


def header_rules(*, secure: bool, origins: WorkspaceOrigins | None = None) -> Rules:
    """Return the rules. Under https another session cookie counts than under http; at the hosts of workspaces
    a door's cookie and our own header for tokens count, and neither a session's nor Authorization.
    """
    session, door = _cookie_reader("session", session_name(secure=secure)), _cookie_reader("door", DOOR)
    is_workspaces = _never if origins is None else lru_cache(_HOSTS_MAX)(origins.covers)

    def identify(fields: Mapping[bytes, bytes]) -> Identity:
        at_workspaces = is_workspaces(fields.get(b"host", b""))
        shown = (door if at_workspaces else session)(fields.get(b"cookie", b""))
        token = fields.get(TOKEN_HEADER) if at_workspaces else _bearer(fields.get(b"authorization", b""))
        return shown if token is None or shown is AMBIGUOUS else Credential("token", token.strip())

    def route(target: bytes, host: bytes) -> Route:
        return parse_route(target, host, origins if is_workspaces(host) else None)

    return Rules(
        secrets=OWN_SECRETS,
        noted=_NOTED,
        once=_ONCE,
        token_header=None if origins is None else TOKEN_HEADER,
        own_responses=(b"x-codehub-page",),
        identify=identify,
        passes_authorization=is_workspaces,
        route=route,
        body_bytes_max=_body_bytes_max,
    )


def _cookie_reader(kind: Literal["session", "door"], name: str) -> Callable[[bytes], Identity]:
    name_bytes = name.encode()
    # As browsers write it: found once, it is what counts, and needs no second look.
    plain = re.compile(rb"(?:\A|; )%b=([!-:<-~]+)(?:;|\Z)" % re.escape(name_bytes))

    def read(cookies: bytes) -> Identity:
        if cookies.find(name_bytes) < 0:
            return None
        match = plain.search(cookies) if cookies.count(name_bytes) == 1 else None
        if match is not None:
            return Credential(kind, match[1])
        try:
            word = session_word(cookies.decode("latin-1"), name)
        except SeveralSessions:
            return AMBIGUOUS
        return None if word is None else Credential(kind, word.encode("latin-1"))

    return read


def _bearer(authorization: bytes) -> bytes | None:
    scheme, _, token = authorization.partition(b" ")
    return token if scheme.lower() == b"bearer" else None


def _never(_host: bytes) -> bool:
    return False


def _body_bytes_max(route: Route) -> int | None:
    """The API takes no more, and is told so before it is asked; a workspace's bodies are its own business."""
    return BODY_BYTES_MAX if route.kind is Kind.HUB else None
