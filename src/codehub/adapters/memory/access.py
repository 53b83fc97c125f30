"""People and keys in memory, at a clock that is given. Refuses what the schema refuses."""

import hashlib
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from codehub.core.access import Person, Role, Scope, Throttle, User
from codehub.ports.access import (
    Amendment,
    Credentials,
    Key,
    KeyEnded,
    LastAdmin,
    SigningKey,
    Token,
    TooManyTokens,
    UnknownToken,
    UnknownUser,
    UsernameTaken,
)
from codehub.ports.store import Contradiction

_NOTED_EVERY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class _Session:
    user_id: UUID
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime


Users = dict[UUID, Credentials]
"""All users: the stores in memory share them."""


class MemoryAccess:
    """No method awaits inside, so each one is a transaction."""

    def __init__(self, users: Users, *, now: Callable[[], datetime]) -> None:
        self._users = users
        self._now = now
        self._sessions: dict[bytes, _Session] = {}
        self._tokens: dict[bytes, tuple[UUID, Token]] = {}
        self._failures: dict[str, tuple[int, datetime]] = {}
        self._device_key = secrets.token_bytes(32)

    async def add_user(self, user_id: UUID, *, username: str, password_hash: str | None, role: Role) -> User:
        if not username or not (password_hash is None or password_hash.startswith("$argon2id$")):
            raise Contradiction("a user has a name, and a password's hash is argon2id")
        if user_id in self._users or await self.credentials(username) is not None:
            raise UsernameTaken(username)
        user = User(user_id, username, role, disabled=False, created_at=self._now())
        self._users[user_id] = Credentials(user, password_hash)
        return user

    async def users(self) -> Sequence[User]:
        users = (credentials.user for credentials in self._users.values())
        return sorted(users, key=lambda user: user.username.lower())

    async def credentials(self, username: str) -> Credentials | None:
        lowered = username.lower()
        return next(
            (
                credentials
                for credentials in self._users.values()
                if credentials.user.username.lower() == lowered
            ),
            None,
        )

    async def amend_user(
        self,
        user_id: UUID,
        change: Amendment,
        *,
        keep_key: bytes | None = None,
        known_hash: str | None = None,
    ) -> User:
        credentials = self._users.get(user_id)
        if credentials is None:
            raise UnknownUser(str(user_id))
        if known_hash not in (None, credentials.password_hash):
            raise KeyEnded
        if (change.role is Role.MEMBER or change.disabled) and self._admins() == [user_id]:
            raise LastAdmin
        user = replace(
            credentials.user,
            role=credentials.user.role if change.role is None else change.role,
            disabled=credentials.user.disabled if change.disabled is None else change.disabled,
        )
        self._users[user_id] = Credentials(user, change.password_hash or credentials.password_hash)
        if change.password_hash is not None or change.disabled:
            self._end_keys(user_id, keep_key)
        return user

    def _end_keys(self, user_id: UUID, keep_key: bytes | None = None) -> None:
        for key, session in list(self._sessions.items()):
            if session.user_id == user_id and key != keep_key:
                del self._sessions[key]
        for key, (owner, _token) in list(self._tokens.items()):
            if owner == user_id and key != keep_key:
                del self._tokens[key]

    async def open_session(
        self, id_sha256: bytes, user_id: UUID, *, password_hash: str | None, lasts: timedelta
    ) -> bool:
        credentials, now = self._users[user_id], self._now()
        if credentials.user.disabled or password_hash not in (None, credentials.password_hash):
            return False
        self._sessions[id_sha256] = _Session(user_id, now, now, now + lasts)
        return True

    async def close_session(self, id_sha256: bytes) -> None:
        self._sessions.pop(id_sha256, None)

    async def use_session(self, id_sha256: bytes, *, lasts: timedelta) -> Person | None:
        session, now = self._sessions.get(id_sha256), self._now()
        if session is None or session.expires_at <= now:
            return None
        user = self._users[session.user_id].user
        if user.disabled:
            return None
        if now - session.last_seen_at > _NOTED_EVERY:
            session = self._sessions[id_sha256] = replace(session, last_seen_at=now, expires_at=now + lasts)
        return Person(user, Scope.WRITE, is_token=False, key_sha256=id_sha256, expires_at=session.expires_at)

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
        now = self._now()
        if (await self.users_by_keys([key_sha256])).get(key_sha256) != self._users[user_id].user:
            raise KeyEnded
        live = [
            token
            for token in await self.tokens(user_id)
            if token.expires_at is None or token.expires_at > now
        ]
        if len(live) >= tokens_max:
            raise TooManyTokens(str(user_id))
        token = Token(token_id, name, scope, now, None if lasts is None else now + lasts, None)
        self._tokens[token_sha256] = (user_id, token)
        return token

    async def tokens(self, user_id: UUID) -> Sequence[Token]:
        return sorted(
            (token for owner, token in self._tokens.values() if owner == user_id), key=lambda token: token.id
        )

    async def delete_token(self, token_id: UUID, user_id: UUID) -> None:
        for key, (owner, token) in self._tokens.items():
            if (owner, token.id) == (user_id, token_id):
                del self._tokens[key]
                return
        raise UnknownToken(str(token_id))

    async def use_token(self, token_sha256: bytes) -> Person | None:
        entry, now = self._tokens.get(token_sha256), self._now()
        if entry is None:
            return None
        owner, token = entry
        user = self._users[owner].user
        if user.disabled or (token.expires_at is not None and token.expires_at <= now):
            return None
        if token.last_used_at is None or now - token.last_used_at > _NOTED_EVERY:
            self._tokens[token_sha256] = (owner, replace(token, last_used_at=now))
        return Person(user, token.scope, is_token=True, key_sha256=token_sha256, expires_at=token.expires_at)

    async def keys(self, user_id: UUID) -> Sequence[Key]:
        if user_id not in self._users:
            raise UnknownUser(str(user_id))
        now = self._now()
        keys = [
            Key(
                UUID(bytes=hashlib.sha256(key).digest()[:16]),
                "session",
                None,
                Scope.WRITE,
                session.created_at,
                session.expires_at,
                session.last_seen_at,
            )
            for key, session in self._sessions.items()
            if session.user_id == user_id and session.expires_at > now
        ]
        keys += [
            Key(
                token.id,
                "token",
                token.name,
                token.scope,
                token.created_at,
                token.expires_at,
                token.last_used_at,
            )
            for owner, token in self._tokens.values()
            if owner == user_id and (token.expires_at is None or token.expires_at > now)
        ]
        return sorted(keys, key=lambda key: (key.created_at, key.id))

    async def end_keys(self, user_id: UUID) -> None:
        if user_id not in self._users:
            raise UnknownUser(str(user_id))
        self._end_keys(user_id)

    async def users_by_keys(self, keys: Collection[bytes]) -> Mapping[bytes, User]:
        now = self._now()
        owners = {
            key: session.user_id
            for key in keys
            if (session := self._sessions.get(key)) is not None and session.expires_at > now
        }
        for key in keys:
            owner, token = self._tokens.get(key, (None, None))
            if (
                owner is not None
                and token is not None
                and (token.expires_at is None or token.expires_at > now)
            ):
                owners[key] = owner
        users = {key: self._users[owner].user for key, owner in owners.items()}
        return {key: user for key, user in users.items() if not user.disabled}

    async def device_signing_key(self) -> SigningKey:
        return SigningKey(self._device_key, self._now())

    async def count_try(self, throttles: Mapping[str, Throttle]) -> float:
        now = self._now()
        waits = [
            throttle.wait_s(*self._failures[key], now)
            for key, throttle in throttles.items()
            if key in self._failures
        ]
        if (wait_s := max(waits, default=0.0)) > 0:
            return wait_s
        for key, throttle in throttles.items():
            failures, last_at = self._failures.get(key, (0, now))
            is_forgotten = (now - last_at).total_seconds() >= throttle.forget_s
            self._failures[key] = (1 if is_forgotten else failures + 1, now)
        return 0.0

    async def clear_failures(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._failures.pop(key, None)

    async def uncount_try(self, keys: Sequence[str]) -> None:
        for key in keys:
            failures, last_at = self._failures.pop(key, (0, self._now()))
            if failures > 1:
                self._failures[key] = (failures - 1, last_at)

    def _admins(self) -> list[UUID]:
        return [
            user_id
            for user_id, credentials in self._users.items()
            if credentials.user.role is Role.ADMIN and not credentials.user.disabled
        ]
