"""Users, sessions and tokens of an AccessStore, made in one call each. Used by its contract."""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID, uuid4

from tests.support.stores import PASSWORD_HASH

from codehub.core.access import Person, Role, Scope
from codehub.ports.access import AccessStore

LASTS = timedelta(days=1)
Age = Callable[[timedelta], Awaitable[None]]
"""Lets everything that is stored be so much older."""
OTHER_HASH = PASSWORD_HASH.replace("c2Fs", "b3Ro")


def new_key() -> bytes:
    return hashlib.sha256(uuid4().bytes).digest()


async def add_user(access: AccessStore, name: str = "ann", role: Role = Role.MEMBER) -> UUID:
    return (await access.add_user(uuid4(), username=name, password_hash=PASSWORD_HASH, role=role)).id


async def open_session(access: AccessStore, user_id: UUID, lasts: timedelta = LASTS) -> bytes:
    key = new_key()
    assert await access.open_session(key, user_id, password_hash=PASSWORD_HASH, lasts=lasts)
    return key


async def person_of(access: AccessStore, key: bytes) -> Person | None:
    return await access.use_session(key, lasts=LASTS)


async def make_token(
    access: AccessStore,
    user_id: UUID,
    lasts: timedelta | None = None,
    scope: Scope = Scope.READ,
    key_sha256: bytes | None = None,
) -> tuple[UUID, bytes]:
    key, by = new_key(), key_sha256 or await open_session(access, user_id)
    made = await access.add_token(
        uuid4(), user_id, name="ci", token_sha256=key, scope=scope, lasts=lasts, tokens_max=100, key_sha256=by
    )
    assert (made.expires_at is None) is (lasts is None)
    return made.id, key
