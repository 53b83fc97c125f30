"""Access: people, sessions, tokens and failed sign-ins. Secrets are passed as hashes only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol
from uuid import UUID

from codehub.core.access import Person, Role, Scope, Throttle, User


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user with what their password is checked against. None: they have no password."""

    user: User
    password_hash: str | None


@dataclass(frozen=True, slots=True)
class Token:
    """An API token, without its secret, which is shown once."""

    id: UUID
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Key:
    """A session, or a token, which has a name. Never the secret itself."""

    id: UUID
    kind: Literal["session", "token"]
    name: str | None
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Amendment:
    """What changes of a user. None: stays."""

    password_hash: str | None = None
    role: Role | None = None
    disabled: bool | None = None


@dataclass(frozen=True, slots=True)
class SigningKey:
    key: bytes
    now: datetime


class UsernameTaken(Exception):
    """There is a user of this name, however it is written."""


class UnknownUser(Exception):
    """There is no such user."""


class UnknownToken(Exception):
    """This user has no such token."""


class TooManyTokens(Exception):
    """This user has as many live tokens as anybody may have."""


class KeyEnded(Exception):
    """The key of the request ended while it was handled."""


class LastAdmin(Exception):
    """Without this one nobody could administer the installation any more."""


class AccessStore(Protocol):
    async def add_user(self, user_id: UUID, *, username: str, password_hash: str | None, role: Role) -> User:
        """Store a new user, with or without a password, or raise UsernameTaken."""

    async def users(self) -> Sequence[User]:
        """Return all users, by name."""

    async def credentials(self, username: str) -> Credentials | None:
        """Find a user by name, whatever its case."""

    async def amend_user(
        self,
        user_id: UUID,
        change: Amendment,
        *,
        keep_key: bytes | None = None,
        known_hash: str | None = None,
    ) -> User:
        """Change a user or raise UnknownUser or LastAdmin. A new password, or disabling, ends every session
        and token but the one to keep.

        `known_hash`: raise KeyEnded if the password is another one by now.
        """

    async def open_session(
        self, id_sha256: bytes, user_id: UUID, *, password_hash: str | None, lasts: timedelta
    ) -> bool:
        """Store a session and return True; False, and nothing, if this is not the user's password by now, or
        they are disabled.

        `password_hash` None: they signed in without a password, so that none is compared.
        """

    async def close_session(self, id_sha256: bytes) -> None:
        """End a session, if it is there."""

    async def use_session(self, id_sha256: bytes, *, lasts: timedelta) -> Person | None:
        """Return whose session this is, if it is live and its user not disabled.

        Use is noted, true to a minute, and prolongs it.
        """

    async def add_token(
        self,
        token_id: UUID,
        user_id: UUID,
        *,
        name: str,
        token_sha256: bytes,
        scope: Scope,
        lasts: timedelta | None,
        tokens_max: int,
        key_sha256: bytes,
    ) -> Token:
        """Store a token, or raise TooManyTokens if its user has so many that have not expired, however many
        ask at once.

        Raises KeyEnded if the user's key that asks for it has ended meanwhile: it would outlive what ended
        that.
        """

    async def tokens(self, user_id: UUID) -> Sequence[Token]:
        """Return a user's tokens, oldest first, those that have expired too."""

    async def delete_token(self, token_id: UUID, user_id: UUID) -> None:
        """Delete a user's own token or raise UnknownToken."""

    async def use_token(self, token_sha256: bytes) -> Person | None:
        """Return whose token this is, if it has not expired and its user is not disabled.

        Use is noted, true to a minute.
        """

    async def keys(self, user_id: UUID) -> Sequence[Key]:
        """Return what lets this user in now, oldest first. Raises UnknownUser."""

    async def end_keys(self, user_id: UUID) -> None:
        """End every session and token of this user. Raises UnknownUser."""

    async def users_by_keys(self, keys: Collection[bytes]) -> Mapping[bytes, User]:
        """Return the user of each of these sessions and tokens that still lets somebody in."""

    async def device_signing_key(self) -> SigningKey:
        """Return the key that signs device cookies, the same for all processes, and the time."""

    async def count_try(self, throttles: Mapping[str, Throttle]) -> float:
        """Count a try at a password against each key and return 0; or, if any of them has to wait, count
        nothing and return how long.

        Counted before the password is looked at, so that a hundred tries at once are a hundred tries.
        """

    async def clear_failures(self, keys: Sequence[str]) -> None:
        """Forget the failures of these keys."""

    async def uncount_try(self, keys: Sequence[str]) -> None:
        """Count one try less for each of these keys: that one was no failure. Earlier ones stay."""
