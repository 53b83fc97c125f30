"""The contract of access, keys: all that lets somebody in, sessions and tokens, listed and ended together."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from tests.support.access import LASTS, Age, add_user, make_token, new_key, open_session, person_of

from codehub.core.access import Scope
from codehub.ports.access import AccessStore, KeyEnded, UnknownUser


async def test_a_key_that_has_ended_makes_no_token(access: AccessStore) -> None:
    user_id, other = await add_user(access), await add_user(access, "bob")
    ended, others = await open_session(access, user_id), await open_session(access, other)
    await access.end_keys(user_id)
    for key_sha256 in (ended, others, new_key()):
        with pytest.raises(KeyEnded):
            await access.add_token(
                uuid4(),
                user_id,
                name="ci",
                token_sha256=new_key(),
                scope=Scope.READ,
                lasts=None,
                tokens_max=100,
                key_sha256=key_sha256,
            )
    assert await access.keys(user_id) == []


async def test_a_token_that_is_made_while_the_keys_end_ends_with_them(access: AccessStore) -> None:
    """Whichever comes first: nothing is left that lets them in."""
    user_id = await add_user(access)
    for _ in range(20):
        session = await open_session(access, user_id)

        async def make(key_sha256: bytes = session) -> None:
            with suppress(KeyEnded):
                await access.add_token(
                    uuid4(),
                    user_id,
                    name="ci",
                    token_sha256=new_key(),
                    scope=Scope.READ,
                    lasts=None,
                    tokens_max=100,
                    key_sha256=key_sha256,
                )

        await asyncio.gather(make(), access.end_keys(user_id), make())
        assert await access.keys(user_id) == []


async def test_keys_are_what_lets_somebody_in_now(access: AccessStore) -> None:
    user_id, other = await add_user(access), await add_user(access, "bob")
    session = await open_session(access, user_id)
    token_id, token = await make_token(access, user_id, LASTS, key_sha256=session)
    await make_token(access, user_id, timedelta(0), key_sha256=session)
    others = await open_session(access, other)
    first, second = await access.keys(user_id)
    assert (first.kind, first.name, first.scope, second.kind) == ("session", None, Scope.WRITE, "token")
    assert (second.id, second.name, second.scope, second.last_used_at) == (token_id, "ci", Scope.READ, None)
    assert first.expires_at is not None
    assert session.hex() not in first.id.hex
    users = await access.users_by_keys([session, token, others, new_key()])
    assert {key: user.id for key, user in users.items()} == {
        session: user_id,
        token: user_id,
        others: other,
    }
    await access.end_keys(user_id)
    assert await access.keys(user_id) == []
    assert set(await access.users_by_keys([session, token, others])) == {others}
    for asked in (access.keys, access.end_keys):
        with pytest.raises(UnknownUser):
            await asked(uuid4())


async def test_the_last_use_of_a_key_is_true_to_a_minute_and_no_write_per_use(
    access: AccessStore, age: Age
) -> None:
    user_id = await add_user(access)
    session = await open_session(access, user_id)
    token = (await make_token(access, user_id, key_sha256=session))[1]

    async def used() -> dict[str, datetime | None]:
        assert await access.use_token(token) is not None
        assert await person_of(access, session) is not None
        return {key.kind: key.last_used_at for key in await access.keys(user_id)}

    first = await used()
    await age(timedelta(minutes=1))
    noted = await used()
    for kind in ("session", "token"):
        at, before = noted[kind], first[kind]
        assert at is not None
        assert before is not None
        assert at > before, kind
    assert await used() == noted, "what was noted just now is not written again"
