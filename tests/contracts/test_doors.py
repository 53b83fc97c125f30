"""The contract of Doorkeeper: who shows something valid is known, everybody else is nobody."""

import hashlib
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from tests.support.stores import PostgresWorld

from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.password_authenticator import PasswordAuthenticator
from codehub.adapters.postgres.credentials import PostgresCredentials
from codehub.adapters.system.machine import SystemIdentity, SystemRandomness
from codehub.adapters.system.passwords import Argon2Passwords
from codehub.core.access import SESSION_LASTS, Role, Scope
from codehub.core.visit import Visitor
from codehub.ports.proxy_lookups import Credential
from codehub.service.access import AccessService, SignedIn

SESSION = Credential("session", b"a session")
READS = Credential("token", b"cht_reads")
WRITES = Credential("token", b"cht_writes")
UNKNOWN = Credential("session", b"unknown")


async def test_in_memory_who_was_let_in_is_known_until_turned_out() -> None:
    credentials = MemoryCredentials()
    ann = Visitor(uuid4(), "ann")
    credentials.admit(SESSION, ann)
    assert await credentials.people([SESSION, UNKNOWN]) == {SESSION: ann}
    assert await credentials.people([]) == {}
    credentials.revoke(SESSION)
    assert await credentials.people([SESSION]) == {}


async def store(world: PostgresWorld, *, life: timedelta = timedelta(hours=1)) -> None:
    expires = await world.now() + life

    def digest(credential: Credential) -> bytes:
        return hashlib.sha256(credential.secret).digest()

    insert = "INSERT INTO sessions (id_sha256, user_id, expires_at) VALUES ($1, $2, $3)"
    await world.api_pool.execute(insert, digest(SESSION), world.user_id, expires)
    insert = (
        "INSERT INTO api_tokens (id, user_id, name, token_sha256, scope, expires_at) VALUES ($1, $2, $3, "
        "$4, $5, $6)"
    )
    for credential, scope in ((READS, "read"), (WRITES, "write")):
        await world.api_pool.execute(
            insert, uuid4(), world.user_id, scope, digest(credential), scope, expires
        )


async def test_on_postgres_sessions_and_tokens_are_known_with_what_they_may(postgres: PostgresWorld) -> None:
    credentials = PostgresCredentials(postgres.api_pool)
    await store(postgres)
    name = f"user-{postgres.user_id}"
    assert await credentials.people([SESSION, READS, WRITES, UNKNOWN]) == {
        SESSION: Visitor(postgres.user_id, name),
        READS: Visitor(postgres.user_id, name, may_write=False),
        WRITES: Visitor(postgres.user_id, name),
    }
    assert await credentials.people([]) == {}


async def test_on_postgres_a_sessions_secret_is_no_token_and_the_reverse(postgres: PostgresWorld) -> None:
    credentials = PostgresCredentials(postgres.api_pool)
    await store(postgres)
    assert (
        await credentials.people([Credential("token", SESSION.secret), Credential("session", WRITES.secret)])
        == {}
    )


async def test_on_postgres_what_the_access_service_hands_out_opens_the_doors_until_it_ends(
    postgres: PostgresWorld,
) -> None:
    credentials = PostgresCredentials(postgres.api_pool)
    hints = MemoryHints()
    passwords = Argon2Passwords(memory_kb=64, rounds=1)
    access = AccessService(
        postgres.access,
        PasswordAuthenticator(postgres.access, passwords),
        passwords,
        hints,
        randomness=SystemRandomness(),
        identity=SystemIdentity(),
    )
    ann = await access.add_user("ann", "correct horse", Role.MEMBER)
    signed_in = await access.login("ann", "correct horse", address="127.0.0.1", device=None)
    assert isinstance(signed_in, SignedIn)
    person = await access.authenticate(signed_in.session, None)
    assert person is not None
    token, word = await access.make_token(person, name="ci", scope=Scope.READ, lasts=None)
    session, key = Credential("session", signed_in.session.encode()), Credential("token", word.encode())
    assert await credentials.people([session, key]) == {
        session: Visitor(ann.id, "ann"),
        key: Visitor(ann.id, "ann", may_write=False),
    }
    async with hints.listen() as heard:
        await access.delete_token(person, token.id)
        assert ann.id in await anext(heard)
        await access.logout(person)
        assert ann.id in await anext(heard)
    assert await credentials.people([session, key]) == {}


async def test_in_memory_a_use_is_noted() -> None:
    credentials = MemoryCredentials()
    await credentials.note_use([SESSION])
    assert credentials.in_use == {SESSION}


async def expiry(world: PostgresWorld) -> datetime:
    expires_at: datetime = await world.api_pool.fetchval("SELECT expires_at FROM sessions")
    return expires_at


async def test_on_postgres_a_session_in_use_lasts_anew_and_is_written_once_an_hour(
    postgres: PostgresWorld,
) -> None:
    credentials = PostgresCredentials(postgres.api_pool)
    await store(postgres)
    fresh = await expiry(postgres)
    await credentials.note_use([SESSION, WRITES, UNKNOWN])
    assert await expiry(postgres) == fresh
    await postgres.api_pool.execute("UPDATE sessions SET last_seen_at = now() - interval '61 minutes'")
    await credentials.note_use([SESSION, WRITES, UNKNOWN])
    prolonged = await expiry(postgres)
    assert prolonged > fresh + SESSION_LASTS - timedelta(hours=2)
    await credentials.note_use([SESSION, WRITES])
    assert await expiry(postgres) == prolonged
    used = await postgres.api_pool.fetch("SELECT scope FROM api_tokens WHERE last_used_at IS NOT NULL")
    assert [row["scope"] for row in used] == ["write"]


async def test_on_postgres_a_session_that_is_over_is_not_brought_back_by_a_use(
    postgres: PostgresWorld,
) -> None:
    credentials = PostgresCredentials(postgres.api_pool)
    await store(postgres, life=timedelta(seconds=-1))
    await postgres.api_pool.execute("UPDATE sessions SET last_seen_at = now() - interval '2 days'")
    await credentials.note_use([SESSION, READS])
    assert await credentials.people([SESSION, READS]) == {}


@pytest.mark.parametrize("how", ["expired", "disabled", "logged out"])
async def test_on_postgres_what_is_over_belongs_to_nobody(postgres: PostgresWorld, how: str) -> None:
    credentials = PostgresCredentials(postgres.api_pool)
    await store(postgres, life=timedelta(seconds=-1) if how == "expired" else timedelta(hours=1))
    if how == "disabled":
        await postgres.api_pool.execute("UPDATE users SET disabled = true WHERE id = $1", postgres.user_id)
    if how == "logged out":
        await postgres.api_pool.execute("DELETE FROM sessions")
        await postgres.api_pool.execute("DELETE FROM api_tokens")
    assert await credentials.people([SESSION, READS, WRITES]) == {}
