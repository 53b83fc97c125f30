"""codehub's rules for the engine: which cookies and tokens are ours, who asks, and what a request is for."""

import re
from typing import Final

from codehub.core.route import Kind, Route, parse_route
from codehub.ports.proxy_lookups import Credential
from codehub.proxy.engine.own_secrets import OwnSecrets
from codehub.proxy.engine.rules import Rules
from codehub.web.bounds import BODY_BYTES_MAX
from codehub.web.cookies import OWN_NAMES, SeveralSessions, session_name, session_word

OWN_SECRETS = OwnSecrets(OWN_NAMES, b"cht_")
_NOTED = (
    b"accept accept-language origin purpose sec-fetch-dest sec-fetch-mode sec-fetch-site"
    b" sec-purpose user-agent"
).split()
_ONCE = (b"origin", b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site")


class Ambiguous:
    """Several cookies say who asks: then nothing does, whatever else is shown."""


AMBIGUOUS: Final = Ambiguous()
Identity = Credential | Ambiguous | None
"""What the engine keeps with a head of who asks."""


def header_rules(*, secure: bool) -> Rules:
    """Return the rules; under https another session cookie counts than under http."""
    name = session_name(secure=secure)
    # As browsers write it: found once, it is the session, and needs no second look.
    plain_session = re.compile(rb"(?:\A|; )%b=([!-:<-~]+)(?:;|\Z)" % re.escape(name.encode()))
    name_bytes = name.encode()

    def identify(cookies: bytes, authorization: bytes) -> Identity:
        session: bytes | None = None
        if cookies.find(name_bytes) >= 0:
            match = plain_session.search(cookies) if cookies.count(name_bytes) == 1 else None
            if match is not None:
                session = match[1]
            else:
                try:
                    word = session_word(cookies.decode("latin-1"), name)
                except SeveralSessions:
                    return AMBIGUOUS
                session = None if word is None else word.encode("latin-1")
        if authorization:
            scheme, _, token = authorization.partition(b" ")
            if scheme.lower() == b"bearer":
                return Credential("token", token.strip())
        return None if session is None else Credential("session", session)

    return Rules(
        secrets=OWN_SECRETS,
        noted=_NOTED,
        once=_ONCE,
        own_responses=(b"x-codehub-page",),
        identify=identify,
        route=parse_route,
        body_bytes_max=_body_bytes_max,
    )


def _body_bytes_max(route: Route) -> int | None:
    """The API takes no more, and is told so before it is asked; a workspace's bodies are its own business."""
    return BODY_BYTES_MAX if route.kind is Kind.HUB else None
