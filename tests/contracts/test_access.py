"""The contract of access, for every adapter: people, sessions, tokens, tries to sign in, and who owns what."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.stores import PASSWORD_HASH, PostgresWorld, World
from tests.support.throttles import Timeless

from codehub.adapters.memory.access import MemoryAccess
from codehub.core.access import Person, Role, Scope, Throttle
from codehub.ports.access import (
    AccessStore,
    Amendment,
    KeyEnded,
    LastAdmin,
    UnknownToken,
    UnknownUser,
    UsernameTaken,
)

LASTS = timedelta(days=1)
Aged = Callable[[timedelta], Awaitable[None]]
OTHER_HASH = PASSWORD_HASH.replace("c2Fs", "b3Ro")


@pytest.fixture
def access(world: World) -> AccessStore:
    return world.access


def word() -> bytes:
    return hashlib.sha256(uuid4().bytes).digest()


async def add(access: AccessStore, name: str = "ann", role: Role = Role.MEMBER) -> UUID:
    return (await access.add_user(uuid4(), username=name, password_hash=PASSWORD_HASH, role=role)).id


async def open_session(access: AccessStore, user_id: UUID, lasts: timedelta = LASTS) -> bytes:
    key = word()
    assert await access.open_session(key, user_id, password_hash=PASSWORD_HASH, lasts=lasts)
    return key


async def who(access: AccessStore, key: bytes) -> Person | None:
    return await access.session(key, lasts=LASTS)


# Users


async def test_a_user_is_found_by_name_whatever_its_case(access: AccessStore) -> None:
    user_id = await add(access, "Ann")
    credentials = await access.credentials("aNN")
    assert credentials is not None
    assert (credentials.user.id, credentials.user.username, credentials.user.role) == (
        user_id,
        "Ann",
        Role.MEMBER,
    )
    assert (credentials.user.disabled, credentials.password_hash) == (False, PASSWORD_HASH)
    assert "Ann" in [user.username for user in await access.users()]


@pytest.mark.parametrize("name", ["nobody", "", "a\0b", "\ud800", "' OR 1=1", "%"])
async def test_whoever_is_not_there_is_not_found(access: AccessStore, name: str) -> None:
    assert await access.credentials(name) is None


async def test_a_name_is_one_person_s(access: AccessStore) -> None:
    await add(access, "ann")
    with pytest.raises(UsernameTaken):
        await add(access, "ANN")


async def test_what_is_not_named_stays(access: AccessStore) -> None:
    user_id = await add(access)
    changed = await access.amend_user(user_id, Amendment(role=Role.ADMIN))
    assert (changed.role, changed.disabled) == (Role.ADMIN, False)
    credentials = await access.credentials("ann")
    assert credentials is not None
    assert credentials.password_hash == PASSWORD_HASH
    await access.amend_user(user_id, Amendment(password_hash=OTHER_HASH))
    credentials = await access.credentials("ann")
    assert credentials is not None
    assert (credentials.password_hash, credentials.user.role) == (OTHER_HASH, Role.ADMIN)
    with pytest.raises(UnknownUser):
        await access.amend_user(uuid4(), Amendment(role=Role.ADMIN))


@pytest.mark.parametrize("change", [Amendment(role=Role.MEMBER), Amendment(disabled=True)])
async def test_the_last_admin_stays_one(access: AccessStore, change: Amendment) -> None:
    first, second = await add(access, "one", Role.ADMIN), await add(access, "two", Role.ADMIN)
    outcomes = await asyncio.gather(
        access.amend_user(first, change), access.amend_user(second, change), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["LastAdmin", "User"]
    left = [user for user in await access.users() if user.role is Role.ADMIN and not user.disabled]
    assert len(left) == 1
    with pytest.raises(LastAdmin):
        await access.amend_user(left[0].id, change)


# Sessions


async def test_a_session_says_who_it_is_until_it_is_closed(access: AccessStore) -> None:
    user_id = await add(access)
    key = await open_session(access, user_id)
    person = await who(access, key)
    assert person is not None
    assert (person.id, person.scope, person.is_token, person.key_sha256) == (
        user_id,
        Scope.WRITE,
        False,
        key,
    )
    assert person.expires_at is not None
    assert timedelta(0) < person.expires_at - person.user.created_at < LASTS * 2
    await access.close_session(key)
    await access.close_session(key)
    assert await who(access, key) is None
    assert await who(access, word()) is None


async def test_a_session_that_is_over_opens_nothing(access: AccessStore) -> None:
    user_id = await add(access)
    assert await who(access, await open_session(access, user_id, timedelta(0))) is None


async def test_use_prolongs_a_session(world: World, aged: Aged) -> None:
    key = await open_session(world.access, await add(world.access))
    await aged(timedelta(hours=20))
    assert await who(world.access, key) is not None
    await aged(timedelta(hours=20))
    assert await who(world.access, key) is not None
    await aged(timedelta(hours=25))
    assert await who(world.access, key) is None


@pytest.mark.parametrize("change", [Amendment(password_hash=OTHER_HASH), Amendment(disabled=True)])
async def test_a_new_password_and_disabling_end_sessions_and_tokens_but_the_key_to_keep(
    access: AccessStore, change: Amendment
) -> None:
    user_id, other = await add(access), await add(access, "bob")
    kept, ended, others = [await open_session(access, owner_id) for owner_id in (user_id, user_id, other)]
    tokens = [(await make_token(access, owner_id))[1] for owner_id in (user_id, other)]
    await access.amend_user(user_id, change, keep_key=kept)
    assert await who(access, ended) is None
    assert (await who(access, kept) is None) is bool(change.disabled)
    assert await who(access, others) is not None
    assert [await access.token(key) is None for key in tokens] == [True, False]
    if change.disabled:
        await access.amend_user(user_id, Amendment(disabled=False))
    assert await access.token(tokens[0]) is None, "what has ended comes back by nothing"
    kept_token = (await make_token(access, other))[1]
    await access.amend_user(other, Amendment(password_hash=OTHER_HASH), keep_key=kept_token)
    assert (await access.token(kept_token) is None, await who(access, others)) == (False, None)


async def test_no_session_is_opened_by_a_password_that_was_changed_while_it_was_looked_at(
    access: AccessStore,
) -> None:
    user_id = await add(access)
    await access.amend_user(user_id, Amendment(password_hash=OTHER_HASH))
    key = word()
    assert not await access.open_session(key, user_id, password_hash=PASSWORD_HASH, lasts=LASTS)
    assert await who(access, key) is None
    await access.amend_user(user_id, Amendment(disabled=True))
    assert not await access.open_session(key, user_id, password_hash=OTHER_HASH, lasts=LASTS)


async def test_a_user_without_a_password_has_sessions_and_can_be_given_one(access: AccessStore) -> None:
    user = await access.add_user(uuid4(), username="dora", password_hash=None, role=Role.MEMBER)
    credentials = await access.credentials("dora")
    assert credentials is not None
    assert credentials.password_hash is None
    key = word()
    assert not await access.open_session(key, user.id, password_hash=PASSWORD_HASH, lasts=LASTS)
    assert await access.open_session(key, user.id, password_hash=None, lasts=LASTS)
    assert (await access.amend_user(user.id, Amendment(role=Role.ADMIN))).role is Role.ADMIN
    await access.amend_user(user.id, Amendment(password_hash=PASSWORD_HASH))
    assert await who(access, key) is None, "a new password ends what was open"
    assert await access.open_session(key, user.id, password_hash=PASSWORD_HASH, lasts=LASTS)
    await add(access, "eve", Role.ADMIN)
    await access.amend_user(user.id, Amendment(disabled=True))
    assert not await access.open_session(word(), user.id, password_hash=None, lasts=LASTS)


async def test_who_was_disabled_before_they_had_a_password_opens_no_session(access: AccessStore) -> None:
    user = await access.add_user(uuid4(), username="dora", password_hash=None, role=Role.MEMBER)
    await access.amend_user(user.id, Amendment(disabled=True))
    assert not await access.open_session(word(), user.id, password_hash=None, lasts=LASTS)


async def test_a_password_is_changed_by_who_knows_the_one_that_is_stored_now(access: AccessStore) -> None:
    user_id = await add(access)
    await access.amend_user(user_id, Amendment(password_hash=OTHER_HASH))
    with pytest.raises(KeyEnded):
        await access.amend_user(user_id, Amendment(password_hash=PASSWORD_HASH), known_hash=PASSWORD_HASH)
    credentials = await access.credentials("ann")
    assert credentials is not None
    assert credentials.password_hash == OTHER_HASH


async def test_a_key_that_has_ended_makes_no_token(access: AccessStore) -> None:
    user_id, other = await add(access), await add(access, "bob")
    ended, others = await open_session(access, user_id), await open_session(access, other)
    await access.end_keys(user_id)
    for asked_by in (ended, others, word()):
        with pytest.raises(KeyEnded):
            await access.add_token(
                uuid4(),
                user_id,
                name="ci",
                token_sha256=word(),
                scope=Scope.READ,
                lasts=None,
                most=100,
                asked_by=asked_by,
            )
    assert await access.keys(user_id) == []


async def test_a_token_that_is_made_while_the_keys_end_ends_with_them(access: AccessStore) -> None:
    """Whichever comes first: nothing is left that lets them in."""
    user_id = await add(access)
    for _ in range(20):
        session = await open_session(access, user_id)

        async def make(asked_by: bytes = session) -> None:
            with suppress(KeyEnded):
                await access.add_token(
                    uuid4(),
                    user_id,
                    name="ci",
                    token_sha256=word(),
                    scope=Scope.READ,
                    lasts=None,
                    most=100,
                    asked_by=asked_by,
                )

        await asyncio.gather(make(), access.end_keys(user_id), make())
        assert await access.keys(user_id) == []


async def test_keys_are_what_lets_somebody_in_now(access: AccessStore) -> None:
    user_id, other = await add(access), await add(access, "bob")
    session = await open_session(access, user_id)
    token_id, token = await make_token(access, user_id, LASTS, asked_by=session)
    await make_token(access, user_id, timedelta(0), asked_by=session)
    others = await open_session(access, other)
    first, second = await access.keys(user_id)
    assert (first.kind, first.name, first.scope, second.kind) == ("session", None, Scope.WRITE, "token")
    assert (second.id, second.name, second.scope, second.last_used_at) == (token_id, "ci", Scope.READ, None)
    assert first.expires_at is not None
    assert session.hex() not in first.id.hex
    users = await access.let_in([session, token, others, word()])
    assert {key: user.id for key, user in users.items()} == {
        session: user_id,
        token: user_id,
        others: other,
    }
    await access.end_keys(user_id)
    assert await access.keys(user_id) == []
    assert set(await access.let_in([session, token, others])) == {others}
    for asked in (access.keys, access.end_keys):
        with pytest.raises(UnknownUser):
            await asked(uuid4())


async def test_the_last_use_of_a_key_is_true_to_a_minute_and_no_write_per_use(
    world: World, aged: Aged
) -> None:
    access = world.access
    user_id = await add(access)
    session = await open_session(access, user_id)
    token = (await make_token(access, user_id, asked_by=session))[1]

    async def used() -> dict[str, datetime | None]:
        assert await access.token(token) is not None
        assert await who(access, session) is not None
        return {key.kind: key.last_used_at for key in await access.keys(user_id)}

    first = await used()
    await aged(timedelta(minutes=1))
    noted = await used()
    for kind in ("session", "token"):
        at, before = noted[kind], first[kind]
        assert at is not None
        assert before is not None
        assert at > before, kind
    assert await used() == noted, "what was noted just now is not written again"


async def test_a_change_of_role_is_seen_at_once_and_ends_no_session(access: AccessStore) -> None:
    user_id = await add(access)
    key = await open_session(access, user_id)
    await access.amend_user(user_id, Amendment(role=Role.ADMIN))
    person = await who(access, key)
    assert person is not None
    assert person.is_admin


# Tokens


async def make_token(
    access: AccessStore,
    user_id: UUID,
    lasts: timedelta | None = None,
    scope: Scope = Scope.READ,
    asked_by: bytes | None = None,
) -> tuple[UUID, bytes]:
    key, by = word(), asked_by or await open_session(access, user_id)
    made = await access.add_token(
        uuid4(), user_id, name="ci", token_sha256=key, scope=scope, lasts=lasts, most=100, asked_by=by
    )
    assert (made.expires_at is None) is (lasts is None)
    return made.id, key


@pytest.mark.parametrize("scope", Scope)
async def test_a_token_says_who_it_is_and_what_it_opens(access: AccessStore, scope: Scope) -> None:
    user_id = await add(access)
    _token_id, key = await make_token(access, user_id, scope=scope)
    person = await access.token(key)
    assert person is not None
    assert (person.id, person.scope, person.is_token) == (user_id, scope, True)
    assert await access.token(word()) is None
    (listed,) = await access.tokens(user_id)
    assert listed.last_used_at is not None


async def test_a_token_that_has_expired_or_whose_user_is_disabled_opens_nothing(access: AccessStore) -> None:
    user_id = await add(access)
    _expired_id, expired = await make_token(access, user_id, timedelta(0))
    token_id, live = await make_token(access, user_id, LASTS)
    assert await access.token(expired) is None
    person = await access.token(live)
    assert person is not None
    assert [person.expires_at] == [
        token.expires_at for token in await access.tokens(user_id) if token.id == token_id
    ]
    assert len(await access.tokens(user_id)) == 2
    await access.amend_user(user_id, Amendment(disabled=True))
    assert await access.token(live) is None


async def test_only_one_s_own_token_can_be_deleted(access: AccessStore) -> None:
    user_id, other = await add(access), await add(access, "bob")
    token_id, key = await make_token(access, user_id)
    with pytest.raises(UnknownToken):
        await access.delete_token(token_id, other)
    await access.delete_token(token_id, user_id)
    assert await access.token(key) is None
    with pytest.raises(UnknownToken):
        await access.delete_token(token_id, user_id)


# Tries to sign in

TWICE = Throttle(free=2, wait_s_max=60.0)
# The first wait is a second: on a slow machine it would be over before the next try.
A_MINUTE_LESS = timedelta(minutes=-1)


async def test_tries_beyond_the_free_ones_have_to_wait(access: AccessStore, aged: Aged) -> None:
    throttles = {f"account {uuid4()}": TWICE, f"address {uuid4()}": replace(TWICE, free=5)}
    assert [await access.count_try(throttles) for _ in range(2)] == [0.0, 0.0]
    await aged(A_MINUTE_LESS)
    assert 0 < await access.count_try(throttles) <= 60 + 1
    await access.forgive(list(throttles))
    assert await access.count_try(throttles) == 0.0


async def test_a_try_that_is_taken_back_was_none_and_earlier_ones_stay(
    access: AccessStore, aged: Aged
) -> None:
    throttles = {f"address {uuid4()}": TWICE}
    for _ in range(4):
        assert await access.count_try(throttles) == 0.0
        await access.take_back(list(throttles))
    assert [await access.count_try(throttles) for _ in range(2)] == [0.0, 0.0]
    await access.take_back(list(throttles))
    assert await access.count_try(throttles) == 0.0
    await aged(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0


async def test_a_hundred_tries_at_once_are_a_hundred_tries(access: AccessStore) -> None:
    throttles = {f"account {uuid4()}": Timeless(free=5, wait_s_max=60.0)}
    waits = await asyncio.gather(*(access.count_try(throttles) for _ in range(100)))
    assert sum(wait == 0.0 for wait in waits) == 5


async def test_failures_are_forgotten_after_a_while(access: AccessStore, aged: Aged) -> None:
    throttles = {f"account {uuid4()}": TWICE}
    for _ in range(2):
        await access.count_try(throttles)
    await aged(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0
    await aged(timedelta(seconds=1000) - A_MINUTE_LESS)
    assert await access.count_try(throttles) == 0.0
    assert await access.count_try(throttles) == 0.0
    await aged(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0


async def test_devices_are_signed_with_one_key_that_stays(world: World) -> None:
    first, second = await world.access.signing(), await world.access.signing()
    assert (len(first.key), first.key, first.now <= second.now) == (32, second.key, True)


@pytest.mark.parametrize("key", ["a\0b", "\ud800", "x" * 10_000])
async def test_whatever_the_key_it_is_counted(access: AccessStore, aged: Aged, key: str) -> None:
    throttles = {key: Throttle(free=1, wait_s_max=60.0)}
    assert await access.count_try(throttles) == 0.0
    await aged(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0


@pytest.fixture
def aged(world: World, monkeypatch: pytest.MonkeyPatch) -> Aged:
    """Let everything that is stored be so much older."""
    past = timedelta(0)

    async def in_memory(by: timedelta) -> None:
        nonlocal past
        past += by
        access = world.access
        assert isinstance(access, MemoryAccess)
        really = datetime.now

        monkeypatch.setattr(access, "_now", lambda: really().astimezone() + past)

    async def on_postgres(by: timedelta) -> None:
        assert isinstance(world, PostgresWorld)
        for table, columns in {
            "sessions": ("last_seen_at", "expires_at"),
            "api_tokens": ("last_used_at",),
            "login_failures": ("last_at",),
        }.items():
            older = ", ".join(f"{column} = {column} - $1::interval" for column in columns)
            await world.admin.execute(f"UPDATE {table} SET {older}", by)

    return in_memory if isinstance(world.access, MemoryAccess) else on_postgres
