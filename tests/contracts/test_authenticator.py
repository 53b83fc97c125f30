"""Signing in by password, on every store: who is let in, and who is refused without a word on why."""

from uuid import uuid4

import pytest
from tests.support.stores import World

from codehub.adapters.password_authenticator import PasswordAuthenticator
from codehub.adapters.system.passwords import Argon2Passwords
from codehub.core.access import Role
from codehub.ports.access import Amendment
from codehub.ports.authenticator import AuthenticatedUser, Authenticator, PasswordCredentials

PASSWORD = "correct horse"


@pytest.fixture
async def by_password(world: World) -> Authenticator[PasswordCredentials]:
    """ann has a password, bob too but is disabled, dora has none."""
    passwords = Argon2Passwords(memory_kb=64, rounds=1)
    password_hash = await passwords.hash(PASSWORD)
    for name, stored in (("ann", password_hash), ("bob", password_hash), ("dora", None)):
        user = await world.access.add_user(uuid4(), username=name, password_hash=stored, role=Role.MEMBER)
        if name == "bob":
            await world.access.amend_user(user.id, Amendment(disabled=True))
    return PasswordAuthenticator(world.access, passwords)


@pytest.mark.parametrize("name", ["ann", "ANN"])
async def test_the_right_password_says_who_it_is_and_what_showed_it(
    world: World, by_password: Authenticator[PasswordCredentials], name: str
) -> None:
    stored = await world.access.credentials("ann")
    assert stored is not None
    authenticated = await by_password.authenticate(PasswordCredentials(name, PASSWORD))
    assert authenticated == AuthenticatedUser(stored.user, stored.password_hash)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", "wrong"),
        ("ann", ""),
        ("bob", PASSWORD),
        ("dora", PASSWORD),
        ("dora", ""),
        ("dora", "nobody has this password"),
        ("nobody", PASSWORD),
        ("nobody", "nobody has this password"),
        ("a\0nn", PASSWORD),
        ("me", PASSWORD),
    ],
)
async def test_everybody_else_is_refused(
    by_password: Authenticator[PasswordCredentials], name: str, password: str
) -> None:
    assert await by_password.authenticate(PasswordCredentials(name, password)) is None
