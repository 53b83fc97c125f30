"""The contract of access, tokens: what one opens, how long, and for whom."""

from datetime import timedelta

import pytest
from tests.support.access import LASTS, add_user, make_token, new_key

from codehub.core.access import Scope
from codehub.ports.access import AccessStore, Amendment, UnknownToken


@pytest.mark.parametrize("scope", Scope)
async def test_a_token_says_who_it_is_and_what_it_opens(access: AccessStore, scope: Scope) -> None:
    user_id = await add_user(access)
    _token_id, key = await make_token(access, user_id, scope=scope)
    person = await access.use_token(key)
    assert person is not None
    assert (person.id, person.scope, person.is_token) == (user_id, scope, True)
    assert await access.use_token(new_key()) is None
    (listed,) = await access.tokens(user_id)
    assert listed.last_used_at is not None


async def test_a_token_that_has_expired_or_whose_user_is_disabled_opens_nothing(access: AccessStore) -> None:
    user_id = await add_user(access)
    _expired_id, expired = await make_token(access, user_id, timedelta(0))
    token_id, live = await make_token(access, user_id, LASTS)
    assert await access.use_token(expired) is None
    person = await access.use_token(live)
    assert person is not None
    assert [person.expires_at] == [
        token.expires_at for token in await access.tokens(user_id) if token.id == token_id
    ]
    assert len(await access.tokens(user_id)) == 2
    await access.amend_user(user_id, Amendment(disabled=True))
    assert await access.use_token(live) is None


async def test_only_one_s_own_token_can_be_deleted(access: AccessStore) -> None:
    user_id, other = await add_user(access), await add_user(access, "bob")
    token_id, key = await make_token(access, user_id)
    with pytest.raises(UnknownToken):
        await access.delete_token(token_id, other)
    await access.delete_token(token_id, user_id)
    assert await access.use_token(key) is None
    with pytest.raises(UnknownToken):
        await access.delete_token(token_id, user_id)
