"""The contract of access, sessions: opened by the password
that is stored now, prolonged by use, ended with it.
"""

from datetime import timedelta
from uuid import uuid4

import pytest
from tests.support.access import (
    LASTS,
    OTHER_HASH,
    Age,
    add_user,
    make_token,
    new_key,
    open_session,
    person_of,
)
from tests.support.stores import PASSWORD_HASH

from codehub.core.access import Role, Scope
from codehub.ports.access import AccessStore, Amendment, KeyEnded


async def test_a_session_says_who_it_is_until_it_is_closed(access: AccessStore) -> None:
    user_id = await add_user(access)
    key = await open_session(access, user_id)
    person = await person_of(access, key)
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
    assert await person_of(access, key) is None
    assert await person_of(access, new_key()) is None


async def test_a_session_that_is_over_opens_nothing(access: AccessStore) -> None:
    user_id = await add_user(access)
    assert await person_of(access, await open_session(access, user_id, timedelta(0))) is None


async def test_use_prolongs_a_session(access: AccessStore, age: Age) -> None:
    key = await open_session(access, await add_user(access))
    await age(timedelta(hours=20))
    assert await person_of(access, key) is not None
    await age(timedelta(hours=20))
    assert await person_of(access, key) is not None
    await age(timedelta(hours=25))
    assert await person_of(access, key) is None


@pytest.mark.parametrize("change", [Amendment(password_hash=OTHER_HASH), Amendment(disabled=True)])
async def test_a_new_password_and_disabling_end_sessions_and_tokens_but_the_key_to_keep(
    access: AccessStore, change: Amendment
) -> None:
    user_id, other = await add_user(access), await add_user(access, "bob")
    kept, ended, others = [await open_session(access, owner_id) for owner_id in (user_id, user_id, other)]
    tokens = [(await make_token(access, owner_id))[1] for owner_id in (user_id, other)]
    await access.amend_user(user_id, change, keep_key=kept)
    assert await person_of(access, ended) is None
    assert (await person_of(access, kept) is None) is bool(change.disabled)
    assert await person_of(access, others) is not None
    assert [await access.use_token(key) is None for key in tokens] == [True, False]
    if change.disabled:
        await access.amend_user(user_id, Amendment(disabled=False))
    assert await access.use_token(tokens[0]) is None, "what has ended comes back by nothing"
    kept_token = (await make_token(access, other))[1]
    await access.amend_user(other, Amendment(password_hash=OTHER_HASH), keep_key=kept_token)
    assert (await access.use_token(kept_token) is None, await person_of(access, others)) == (False, None)


async def test_no_session_is_opened_by_a_password_that_was_changed_while_it_was_looked_at(
    access: AccessStore,
) -> None:
    user_id = await add_user(access)
    await access.amend_user(user_id, Amendment(password_hash=OTHER_HASH))
    key = new_key()
    assert not await access.open_session(key, user_id, password_hash=PASSWORD_HASH, lasts=LASTS)
    assert await person_of(access, key) is None
    await access.amend_user(user_id, Amendment(disabled=True))
    assert not await access.open_session(key, user_id, password_hash=OTHER_HASH, lasts=LASTS)


async def test_a_user_without_a_password_has_sessions_and_can_be_given_one(access: AccessStore) -> None:
    user = await access.add_user(uuid4(), username="dora", password_hash=None, role=Role.MEMBER)
    credentials = await access.credentials("dora")
    assert credentials is not None
    assert credentials.password_hash is None
    key = new_key()
    assert not await access.open_session(key, user.id, password_hash=PASSWORD_HASH, lasts=LASTS)
    assert await access.open_session(key, user.id, password_hash=None, lasts=LASTS)
    assert (await access.amend_user(user.id, Amendment(role=Role.ADMIN))).role is Role.ADMIN
    await access.amend_user(user.id, Amendment(password_hash=PASSWORD_HASH))
    assert await person_of(access, key) is None, "a new password ends what was open"
    assert await access.open_session(key, user.id, password_hash=PASSWORD_HASH, lasts=LASTS)
    await add_user(access, "eve", Role.ADMIN)
    await access.amend_user(user.id, Amendment(disabled=True))
    assert not await access.open_session(new_key(), user.id, password_hash=None, lasts=LASTS)


async def test_who_was_disabled_before_they_had_a_password_opens_no_session(access: AccessStore) -> None:
    user = await access.add_user(uuid4(), username="dora", password_hash=None, role=Role.MEMBER)
    await access.amend_user(user.id, Amendment(disabled=True))
    assert not await access.open_session(new_key(), user.id, password_hash=None, lasts=LASTS)


async def test_a_password_is_changed_by_who_knows_the_one_that_is_stored_now(access: AccessStore) -> None:
    user_id = await add_user(access)
    await access.amend_user(user_id, Amendment(password_hash=OTHER_HASH))
    with pytest.raises(KeyEnded):
        await access.amend_user(user_id, Amendment(password_hash=PASSWORD_HASH), known_hash=PASSWORD_HASH)
    credentials = await access.credentials("ann")
    assert credentials is not None
    assert credentials.password_hash == OTHER_HASH


async def test_a_change_of_role_is_seen_at_once_and_ends_no_session(access: AccessStore) -> None:
    user_id = await add_user(access)
    key = await open_session(access, user_id)
    await access.amend_user(user_id, Amendment(role=Role.ADMIN))
    person = await person_of(access, key)
    assert person is not None
    assert person.is_admin
