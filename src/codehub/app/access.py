"""Wires the access service, makes the first admin, and does what `codehub user` asks beside a running
codehub.
"""

from collections.abc import Sequence

from codehub.adapters.password_authenticator import PasswordAuthenticator
from codehub.adapters.system.passwords import Argon2Passwords
from codehub.app.database import ApiStores, api_stores, database_beside
from codehub.core.access import Role, User, is_username
from codehub.core.ceilings import Ceilings
from codehub.engine.system import System
from codehub.ports.access import Key, UnknownUser, UsernameTaken
from codehub.service.access import AccessService
from codehub.settings import Settings

ADMIN = "admin"


def make_access(
    all_stores: ApiStores,
    system: System,
    *,
    tokens_max: int = Ceilings().tokens,  # frozen
) -> AccessService:
    passwords = Argon2Passwords()
    return AccessService(
        all_stores.access,
        PasswordAuthenticator(all_stores.access, passwords),
        passwords,
        all_stores.people_hints,
        randomness=system.randomness,
        identity=system.identity,
        tokens_max=tokens_max,
    )


async def first_admin(settings: Settings, access: AccessService, system: System) -> str | None:
    """Make `admin` if there is nobody yet, and return the password if it was made here: it is shown once."""
    if await access.users():
        return None
    initial_password = settings.initial_admin_password
    password = (
        system.randomness.token()[:20] if initial_password is None else initial_password.get_secret_value()
    )
    try:
        await access.add_user(ADMIN, password, Role.ADMIN)
    except UsernameTaken:
        return None  # another process was first
    return password if initial_password is None else None


async def list_users(settings: Settings, system: System) -> list[User]:
    async with (
        database_beside(settings, system) as connect_args,
        api_stores(connect_args, system) as all_stores,
    ):
        return list(await make_access(all_stores, system).users())


async def add_user(settings: Settings, system: System, username: str, password: str, role: Role) -> User:
    async with (
        database_beside(settings, system) as connect_args,
        api_stores(connect_args, system) as all_stores,
    ):
        return await make_access(all_stores, system).add_user(username, password, role)


async def amend_user(
    settings: Settings,
    system: System,
    username: str,
    *,
    password: str | None = None,
    disabled: bool | None = None,
) -> User:
    async with (
        database_beside(settings, system) as connect_args,
        api_stores(connect_args, system) as all_stores,
    ):
        access = make_access(all_stores, system)
        user = await _require_user(access, username)
        return await access.amend_user(user.id, password=password, disabled=disabled)


async def keys(settings: Settings, system: System, username: str, *, end: bool) -> Sequence[Key]:
    """Return what lets a user in, and end it if that is asked for."""
    async with (
        database_beside(settings, system) as connect_args,
        api_stores(connect_args, system) as all_stores,
    ):
        access = make_access(all_stores, system)
        user = await _require_user(access, username)
        user_keys = await access.keys(user.id)
        if end:
            await access.end_keys(user.id)
        return user_keys


async def _require_user(access: AccessService, username: str) -> User:
    user = await access.user_named(username) if is_username(username) else None
    if user is None:
        raise UnknownUser(username)
    return user
