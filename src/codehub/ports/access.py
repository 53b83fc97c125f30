"""Access: people, sessions, tokens and failed sign-ins, as whoever guards a door needs them. Secrets come in as hashes only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from codehub.core.access import Person, Role, Scope, Throttle, User


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user with what their password is checked against."""

    user: User
    password_hash: str


@dataclass(frozen=True, slots=True)
class Token:
    """An API token, without the word itself: that is shown once."""

    id: UUID
    name: str
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


class UsernameTaken(Exception):
    """There is a user of this name, however it is written."""


class UnknownUser(Exception):
    """There is no such user."""


class UnknownToken(Exception):
    """This user has no such token."""


class TooManyTokens(Exception):
    """This user has as many live tokens as anybody may have."""


class LastAdmin(Exception):
    """Without this one nobody could administer the installation any more."""


class AccessStore(Protocol):
    async def add_user(self, user_id: UUID, *, username: str, password_hash: str, role: Role) -> User:
        """Store a new user or raise UsernameTaken."""

    async def users(self) -> Sequence[User]:
        """Return all users, by name."""

    async def credentials(self, username: str) -> Credentials | None:
        """Find a user by name, whatever its case."""

    async def amend_user(
        self, user_id: UUID, change: Amendment, *, keep_session: bytes | None = None
    ) -> User:
        """Change a user or raise UnknownUser or LastAdmin. A new password, or disabling, ends every session but the one to keep.

        Disabling ends the tokens' use as well: a disabled user's key opens nothing.
        """

    async def open_session(self, id_sha256: bytes, user_id: UUID, *, lasts: timedelta) -> None:
        """Store a session."""

    async def close_session(self, id_sha256: bytes) -> None:
        """End a session, if it is there."""

    async def session(self, id_sha256: bytes, *, lasts: timedelta) -> Person | None:
        """Return whose session this is, if it is live and its user not disabled. Use prolongs it, with a write an hour at most."""

    async def add_token(
        self,
        token_id: UUID,
        user_id: UUID,
        *,
        name: str,
        token_sha256: bytes,
        scope: Scope,
        lasts: timedelta | None,
        most: int,
    ) -> Token:
        """Store a token, or raise TooManyTokens if its user has so many that have not expired, however many ask at once."""

    async def tokens(self, user_id: UUID) -> Sequence[Token]:
        """Return a user's tokens, oldest first, those that have expired too."""

    async def delete_token(self, token_id: UUID, user_id: UUID) -> None:
        """Delete a user's own token or raise UnknownToken."""

    async def token(self, token_sha256: bytes) -> Person | None:
        """Return whose token this is, if it has not expired and its user is not disabled."""

    async def count_try(self, throttles: Mapping[str, Throttle]) -> float:
        """Count a try at a password against each key and return 0; or, if any of them has to wait, count nothing and return how long.

        Counted before the password is looked at, so that a hundred tries at once are a hundred tries.
        """

    async def forgive(self, keys: Sequence[str]) -> None:
        """Forget the failures of these keys."""

    async def take_back(self, keys: Sequence[str]) -> None:
        """Count one try less for each of these keys: that one was no failure. Earlier ones stay."""
