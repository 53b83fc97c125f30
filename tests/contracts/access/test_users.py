"""The contract of access, users: found by name, amended, and never without an admin."""

import asyncio
from uuid import uuid4

import pytest
from tests.support.access import OTHER_HASH, add_user
from tests.support.stores import PASSWORD_HASH

from codehub.core.access import Role
from codehub.ports.access import AccessStore, Amendment, LastAdmin, UnknownUser, UsernameTaken


async def test_a_user_is_found_by_name_whatever_its_case(access: AccessStore) -> None:
    user_id = await add_user(access, "Ann")
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
    await add_user(access, "ann")
    with pytest.raises(UsernameTaken):
        await add_user(access, "ANN")


async def test_what_is_not_named_stays(access: AccessStore) -> None:
    user_id = await add_user(access)
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
    first, second = await add_user(access, "one", Role.ADMIN), await add_user(access, "two", Role.ADMIN)
    outcomes = await asyncio.gather(
        access.amend_user(first, change), access.amend_user(second, change), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["LastAdmin", "User"]
    left = [user for user in await access.users() if user.role is Role.ADMIN and not user.disabled]
    assert len(left) == 1
    with pytest.raises(LastAdmin):
        await access.amend_user(left[0].id, change)
