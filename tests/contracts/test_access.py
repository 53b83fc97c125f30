"""The contract of access, for every adapter: people, sessions, tokens, tries to sign in, and who owns what."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.stores import PASSWORD_HASH, PostgresWorld, World
from tests.support.throttles import Timeless

from codehub.adapters.memory.access import MemoryAccess
from codehub.core.access import Person, Role, Scope, Throttle
from codehub.ports.access import AccessStore, Amendment, LastAdmin, UnknownToken, UnknownUser, UsernameTaken

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
    await access.open_session(key, user_id, lasts=lasts)
    return key


async def who(access: AccessStore, key: bytes) -> Person | None:
    return await access.session(key, lasts=LASTS)


# Users


async def test_a_user_is_found_by_name_whatever_its_case(access: AccessStore) -> None:
    user_id = await add(access, "Ann")
    found = await access.credentials("aNN")
    assert found is not None
    assert (found.user.id, found.user.username, found.user.role) == (user_id, "Ann", Role.MEMBER)
    assert (found.user.disabled, found.password_hash) == (False, PASSWORD_HASH)
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
    found = await access.credentials("ann")
    assert found is not None
    assert found.password_hash == PASSWORD_HASH
    await access.amend_user(user_id, Amendment(password_hash=OTHER_HASH))
    found = await access.credentials("ann")
    assert found is not None
    assert (found.password_hash, found.user.role) == (OTHER_HASH, Role.ADMIN)
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
async def test_a_new_password_and_disabling_end_sessions_but_the_one_to_keep(
    access: AccessStore, change: Amendment
) -> None:
    user_id, other = await add(access), await add(access, "bob")
    kept, ended, others = [await open_session(access, one) for one in (user_id, user_id, other)]
    await access.amend_user(user_id, change, keep_session=kept)
    assert await who(access, ended) is None
    assert (await who(access, kept) is None) is bool(change.disabled)
    assert await who(access, others) is not None


async def test_a_change_of_role_is_seen_at_once_and_ends_no_session(access: AccessStore) -> None:
    user_id = await add(access)
    key = await open_session(access, user_id)
    await access.amend_user(user_id, Amendment(role=Role.ADMIN))
    person = await who(access, key)
    assert person is not None
    assert person.is_admin


# Tokens


async def make_token(
    access: AccessStore, user_id: UUID, lasts: timedelta | None = None, scope: Scope = Scope.READ
) -> tuple[UUID, bytes]:
    key = word()
    made = await access.add_token(
        uuid4(), user_id, name="ci", token_sha256=key, scope=scope, lasts=lasts, most=100
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
    await access.amend_user(user_id, Amendment(disabled=False))
    assert await access.token(live) is not None


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
            "login_failures": ("last_at",),
        }.items():
            older = ", ".join(f"{column} = {column} - $1::interval" for column in columns)
            await world.admin.execute(f"UPDATE {table} SET {older}", by)

    return in_memory if isinstance(world.access, MemoryAccess) else on_postgres
