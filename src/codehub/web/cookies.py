"""codehub's own cookies: which names are ours, which one counts, and a session's
word in and out (wire.md). Two of the one that counts are refused.

Under https the name begins with `__Host-`: a browser takes such a cookie from this
very host alone, so no sibling (`Domain=`) can toss one in. The plain name means
nothing there, or what a sibling set once would count for ever.

At a workspace's own origin both names begin so, and are for https alone: there
is no other scheme, but on this very machine, where browsers take them all the same.
"""

from typing import TYPE_CHECKING

from codehub.core.devices import DEVICE_LASTS

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

_SESSION = "codehub_session"
_DEVICE = "codehub_device"
_LANGUAGE = "codehub_language"
_YEAR_S = 365 * 86_400
_HOST_ONLY = "__Host-"
_NAMES = (_SESSION, _DEVICE, _LANGUAGE)
DOOR = _HOST_ONLY + "codehub_door"
"""What lets a browser into one workspace, at its own origin."""
PRE = _HOST_ONLY + "codehub_pre"
"""What a browser is known by there that was sent for a door's code."""
_PRE_LASTS_S = 120
OWN_NAMES = frozenset({*_NAMES, *(_HOST_ONLY + name for name in _NAMES), DOOR, PRE})
"""No workspace is sent one of these, and none can set one, whichever of them counts."""


class SeveralSessions(Exception):
    """More than one cookie says who somebody is: nobody knows which of them codehub has set."""

    def __init__(self) -> None:
        super().__init__(
            "Your browser sent several sessions, and another site of this domain may have set one of them. "
            "Delete the cookies of this site and of its domain, then sign in again."
        )


def session_name(*, secure: bool) -> str:
    """Return the name that counts."""
    return _HOST_ONLY + _SESSION if secure else _SESSION


def session_cookie(base_url: str, word: str | None) -> str:
    """Return the header that gives a browser its session's word. No word ends it."""
    secure = is_secure(base_url)
    plain = f"{session_name(secure=secure)}={word or ''}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"
    return plain if word else f"{plain}; Max-Age=0"


def session_word(cookies: str, name: str) -> str | None:
    """Return the word of the session among the cookies that were
    sent, if there is one. Raises SeveralSessions.
    """
    if name not in cookies:
        return None
    pairs = (pair.partition("=") for pair in cookies.split(";"))
    values = [value.strip() for key, _, value in pairs if key.strip() == name]
    if len(values) > 1:
        raise SeveralSessions
    return values[0] if values and values[0] else None


def sent_session(request: "HTTPConnection", base_url: str) -> str | None:
    """Return the word of the session that a request was sent with, if any. Raises SeveralSessions."""
    return session_word(
        "; ".join(request.headers.getlist("cookie")), session_name(secure=is_secure(base_url))
    )


def door_cookie(word: str, *, crosses_sites: bool = False) -> str:
    """Return the header that gives a browser its door's word. It is gone with the browser, or with the
    session. `crosses_sites`: whether it also comes with what another site's page asks for; each
    `*.localhost` is a site.
    """
    return f"{DOOR}={word}; Path=/; HttpOnly; SameSite={'None' if crosses_sites else 'Lax'}; Secure"


def pre_cookie(word: str | None) -> str:
    """Return the header that gives a browser a word to come back from the hub with. No word ends it."""
    lasts_s = _PRE_LASTS_S if word else 0
    return f"{PRE}={word or ''}; Max-Age={lasts_s}; Path=/; HttpOnly; SameSite=Lax; Secure"


def device_cookie(base_url: str, word: str) -> str:
    """Return the header by which a browser is known when it signs in the next time. It opens nothing."""
    secure = is_secure(base_url)
    name, lasts_s = _HOST_ONLY + _DEVICE if secure else _DEVICE, int(DEVICE_LASTS.total_seconds())
    return f"{name}={word}; Max-Age={lasts_s}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


def sent_device(request: "HTTPConnection", base_url: str) -> str | None:
    """Return the device's word that a request was sent with. Of several none counts, as if there were
    none.
    """
    name = _HOST_ONLY + _DEVICE if is_secure(base_url) else _DEVICE
    try:
        return session_word("; ".join(request.headers.getlist("cookie")), name)
    except SeveralSessions:
        return None


def language_cookie(base_url: str, language: str | None) -> str:
    """Return the header by which a browser is spoken to in this
    language. None ends it: the browser's own counts again.
    """
    secure = is_secure(base_url)
    name, lasts_s = _HOST_ONLY + _LANGUAGE if secure else _LANGUAGE, 0 if language is None else _YEAR_S
    return f"{name}={language or ''}; Max-Age={lasts_s}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


def sent_language(request: "HTTPConnection", base_url: str) -> str | None:
    """Return the language that somebody chose in this browser. Of several none counts, as if there were
    none.
    """
    return language_among("; ".join(request.headers.getlist("cookie")), secure=is_secure(base_url))


def language_among(cookies: str, *, secure: bool) -> str | None:
    """Return the language among the cookies that were sent, as `sent_language` does."""
    try:
        return session_word(cookies, _HOST_ONLY + _LANGUAGE if secure else _LANGUAGE)
    except SeveralSessions:
        return None


def is_secure(base_url: str) -> bool:
    return base_url.startswith("https://")
