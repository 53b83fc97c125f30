"""Who may do what: people, keys and requests in, yes or no out. Nothing is looked up here."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import urlsplit
from uuid import UUID

PASSWORD_LENGTH_MIN = 8
USERNAME = "[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SESSION_LASTS = timedelta(days=14)
"""From its last use."""
_USUAL_PORTS = {"http": 80, "https": 443}


class Role(StrEnum):
    ADMIN = "admin"
    MEMBER = "member"


class Scope(StrEnum):
    """What a key opens: a read key changes nothing."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class User:
    id: UUID
    username: str
    role: Role
    disabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever asks, as far as a session or a token says: what every face decides by."""

    user: User
    scope: Scope
    is_token: bool
    key_sha256: bytes
    """The session's or token's hash: what a change of password leaves open."""
    expires_at: datetime | None
    """When the key opens nothing any more. None: no such time is known."""

    @property
    def id(self) -> UUID:
        return self.user.id

    @property
    def is_admin(self) -> bool:
        return self.user.role is Role.ADMIN


def is_username(text: str) -> bool:
    """Whether somebody may be called so. `me` and `all` have a
    meaning of their own wherever an owner is named.
    """
    return re.fullmatch(USERNAME, text) is not None and text.lower() not in ("me", "all")


def may_manage(person: Person, owner_id: UUID) -> bool:
    """Whether they may see the workspace and ask things of it: its owner and admins."""
    return person.id == owner_id or person.is_admin


def may_enter(person_id: UUID, owner_id: UUID) -> bool:
    """Whether they may use what runs in it: its owner alone, admins not either."""
    return person_id == owner_id


def is_foreign(origin: str | None, fetch_site: str | None, own_origins: Collection[str]) -> bool:
    """Whether another site's page made this request. Programs send neither header, and are let through."""
    if fetch_site in ("cross-site", "same-site"):
        return True
    return origin is not None and origin_of(origin) not in own_origins


def origin_of(url: str) -> str | None:
    """Return a URL's origin, None if it has none that a page of ours could have."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _USUAL_PORTS or not parts.hostname:
        return None
    return written_origin(parts.scheme, parts.hostname, port)


def written_origin(scheme: str, host: str, port: int | None) -> str:
    """Return an origin as browsers write it: in small letters, and without the port that is usual."""
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host.lower()}" + ("" if port in (None, _USUAL_PORTS[scheme]) else f":{port}")


@dataclass(frozen=True, slots=True)
class Throttle:
    """So many failures are free; each further one doubles the
    wait. After a while without any they are forgotten.
    """

    free: int
    wait_s_max: float
    forget_s: float = 900.0
    is_one_accounts: bool = True
    """Whether it counts failures of one account alone: then a success shows that they were harmless."""

    def wait_s(self, failures: int, last_at: datetime, now: datetime) -> float:
        """Return how long the next try has to wait."""
        if failures < self.free or now - last_at >= timedelta(seconds=self.forget_s):
            return 0.0
        pause_s = min(2.0 ** min(failures - self.free, 30), self.wait_s_max)
        return max(0.0, pause_s - (now - last_at).total_seconds())


# A guesser at one account from one place is stopped soon; one with many places, or many accounts, a little
# later. Nobody is locked out for longer than a minute, or a stranger could lock anybody out.
PAIR = Throttle(free=5, wait_s_max=60.0)
ACCOUNT = Throttle(free=20, wait_s_max=30.0)
ADDRESS = Throttle(free=50, wait_s_max=60.0, is_one_accounts=False)
# Who signed in from a browser before is bounded by what that browser does, and by no stranger.
DEVICE = Throttle(free=5, wait_s_max=60.0)


def login_throttles(username: str, address: str, device: UUID | None = None) -> Mapping[str, Throttle]:
    """Return what a try at a password counts against, by key. `device`:
    the browser, if it has signed in to this account before.
    """
    if device is not None:
        return {f"device {device}": DEVICE}
    account = username.casefold()
    return {
        f"pair {address} {account}": PAIR,
        f"account {account}": ACCOUNT,
        f"address {address}": ADDRESS,
    }
