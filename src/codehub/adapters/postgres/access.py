"""People and keys on PostgreSQL. Hashes go in, persons come out. All time is the database's."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from codehub.adapters.postgres.connect import translate_errors
from codehub.adapters.postgres.rows import Row
from codehub.adapters.postgres.sql import statements
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

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Executor, Pool


class PostgresAccess:
    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._sql = statements()

    async def add_user(self, user_id: UUID, *, username: str, password_hash: str | None, role: Role) -> User:
        async with translate_errors():
            try:
                row = await self._pool.fetchrow(
                    *self._sql["add_user"](
                        id=user_id, username=username, password_hash=password_hash, role=role
                    )
                )
            except asyncpg.UniqueViolationError as error:
                raise UsernameTaken(username) from error
        assert row is not None
        return _to_user(row)

    async def users(self) -> Sequence[User]:
        async with translate_errors():
            return [_to_user(row) for row in await self._pool.fetch(*self._sql["users"]())]

    async def credentials(self, username: str) -> Credentials | None:
        if not is_storable(username):
            return None
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["credentials"](username=username))
        return None if row is None else Credentials(_to_user(row), row["password_hash"])

    async def amend_user(
        self,
        user_id: UUID,
        change: Amendment,
        *,
        keep_key: bytes | None = None,
        known_hash: str | None = None,
    ) -> User:
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            if change.role is Role.MEMBER or change.disabled:
                admins = [row["id"] for row in await connection.fetch(*self._sql["lock_admins"]())]
                if admins == [user_id]:
                    raise LastAdmin
            row = await connection.fetchrow(
                *self._sql["amend_user"](
                    id=user_id,
                    password_hash=change.password_hash,
                    role=change.role,
                    disabled=change.disabled,
                    known_hash=known_hash,
                )
            )
            if row is None:
                raise UnknownUser(str(user_id)) if known_hash is None else KeyEnded
            if change.password_hash is not None or change.disabled:
                await connection.execute(*self._sql["end_keys"](user_id=user_id, keep=keep_key))
        return _to_user(row)

    async def open_session(
        self, id_sha256: bytes, user_id: UUID, *, password_hash: str | None, lasts: timedelta
    ) -> bool:
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            user = await connection.fetchrow(*self._sql["hold_user"](id=user_id))
            if user is None or password_hash not in (None, user["password_hash"]):
                return False
            await connection.execute(
                *self._sql["open_session"](id_sha256=id_sha256, user_id=user_id, lasts=lasts)
            )
        return True

    async def close_session(self, id_sha256: bytes) -> None:
        async with translate_errors():
            await self._pool.execute(*self._sql["close_session"](id_sha256=id_sha256))

    async def use_session(self, id_sha256: bytes, *, lasts: timedelta) -> Person | None:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["session"](id_sha256=id_sha256))
            if row is None:
                return None
            expires_at = row["expires_at"]
            if row["is_to_be_noted"]:
                new_expiry = await self._pool.fetchval(
                    *self._sql["note_session_use"](id_sha256=id_sha256, lasts=lasts)
                )
                expires_at = new_expiry or expires_at
        return Person(_to_user(row), Scope.WRITE, is_token=False, key_sha256=id_sha256, expires_at=expires_at)

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
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            await connection.execute(*self._sql["lock_owner"](user_id=user_id))
            if not await connection.fetchval(*self._sql["is_key_of"](key_sha256=key_sha256, user_id=user_id)):
                raise KeyEnded
            if await connection.fetchval(*self._sql["live_tokens"](user_id=user_id)) >= tokens_max:
                raise TooManyTokens(str(user_id))
            row = await connection.fetchrow(
                *self._sql["add_token"](
                    id=token_id,
                    user_id=user_id,
                    name=name,
                    token_sha256=token_sha256,
                    scope=scope,
                    lasts=lasts,
                )
            )
        assert row is not None
        return _to_token(row)

    async def tokens(self, user_id: UUID) -> Sequence[Token]:
        async with translate_errors():
            return [_to_token(row) for row in await self._pool.fetch(*self._sql["tokens"](user_id=user_id))]

    async def delete_token(self, token_id: UUID, user_id: UUID) -> None:
        async with translate_errors():
            if await self._pool.fetchval(*self._sql["delete_token"](id=token_id, user_id=user_id)) is None:
                raise UnknownToken(str(token_id))

    async def use_token(self, token_sha256: bytes) -> Person | None:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["token"](token_sha256=token_sha256))
            if row is None:
                return None
            if row["is_to_be_noted"]:
                await self._pool.execute(*self._sql["note_token_use"](token_sha256=token_sha256))
        return Person(
            _to_user(row),
            Scope(row["scope"]),
            is_token=True,
            key_sha256=token_sha256,
            expires_at=row["expires_at"],
        )

    async def keys(self, user_id: UUID) -> Sequence[Key]:
        async with translate_errors():
            if not await self._pool.fetchval(*self._sql["is_user"](id=user_id)):
                raise UnknownUser(str(user_id))
            return [_to_key(row) for row in await self._pool.fetch(*self._sql["keys"](user_id=user_id))]

    async def end_keys(self, user_id: UUID) -> None:
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            if await connection.fetchval(*self._sql["lock_owner"](user_id=user_id)) is None:
                raise UnknownUser(str(user_id))
            await connection.execute(*self._sql["end_keys"](user_id=user_id, keep=None))

    async def users_by_keys(self, keys: Collection[bytes]) -> Mapping[bytes, User]:
        async with translate_errors():
            rows = await self._pool.fetch(*self._sql["users_by_keys"](keys=list(keys)))
        return {bytes(row["sha256"]): _to_user(row) for row in rows}

    async def device_signing_key(self) -> SigningKey:
        async with translate_errors():
            row = await self._pool.fetchrow(*self._sql["device_signing_key"]())
        assert row is not None
        return SigningKey(bytes(row["key"]), row["now"])

    async def count_try(self, throttles: Mapping[str, Throttle]) -> float:
        by_key = {_hash(key): throttle for key, throttle in throttles.items()}
        keys = sorted(by_key)
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            await self._lock_tries(connection, keys)
            rows = await connection.fetch(*self._sql["failures"](keys=keys))
            now = rows[0]["now"]
            failures = {row["key_sha256"]: (row["failures"], row["last_at"]) for row in rows}
            waits = [by_key[key].wait_s(*failures[key], now) for key in keys if key in failures]
            if (wait_s := max(waits, default=0.0)) > 0:
                return wait_s
            counts = [
                failures[key][0] + 1
                if key in failures and (now - failures[key][1]).total_seconds() < by_key[key].forget_s
                else 1
                for key in keys
            ]
            await connection.execute(*self._sql["count_failures"](keys=keys, counts=counts))
        return 0.0

    async def clear_failures(self, keys: Sequence[str]) -> None:
        async with translate_errors():
            await self._pool.execute(*self._sql["clear_failures"](keys=[_hash(key) for key in keys]))

    async def uncount_try(self, keys: Sequence[str]) -> None:
        key_hashes = sorted(map(_hash, keys))
        async with translate_errors(), self._pool.acquire() as connection, connection.transaction():
            await self._lock_tries(connection, key_hashes)
            await connection.execute(*self._sql["uncount_try"](keys=key_hashes))

    async def _lock_tries(self, connection: "Executor", keys: Sequence[bytes]) -> None:
        """Wait for whoever counts one of these. They come sorted, so that there is no deadlock."""
        for key in keys:
            number = int.from_bytes(key[:8], "big", signed=True)
            await connection.execute(*self._sql["lock_try"](key=number))


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold it as text; if not, nobody is called so."""
    return "\0" not in text and text.isprintable()


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _to_user(row: Row) -> User:
    return User(row["id"], row["username"], Role(row["role"]), row["disabled"], row["created_at"])


def _to_key(row: Row) -> Key:
    return Key(
        row["id"],
        row["kind"],
        row["name"],
        Scope(row["scope"]),
        row["created_at"],
        row["expires_at"],
        row["last_used_at"],
    )


def _to_token(row: Row) -> Token:
    return Token(
        row["id"],
        row["name"],
        Scope(row["scope"]),
        row["created_at"],
        row["expires_at"],
        row["last_used_at"],
    )
