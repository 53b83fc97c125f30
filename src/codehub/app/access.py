"""Access wired: the service that guards doors, the first admin, and what `codehub user` does beside a codehub that may run."""

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
    stored: ApiStores,
    system: System,
    *,
    tokens_max: int = Ceilings().tokens,  # frozen
) -> AccessService:
    passwords = Argon2Passwords()
    return AccessService(
        stored.access,
        PasswordAuthenticator(stored.access, passwords),
        passwords,
        stored.people_hints,
        randomness=system.randomness,
        identity=system.identity,
        tokens_max=tokens_max,
    )


async def first_admin(settings: Settings, access: AccessService, system: System) -> str | None:
    """Make `admin` if there is nobody yet, and return the password if it was made here: it is shown once."""
    if await access.users():
        return None
    given = settings.initial_admin_password
    password = system.randomness.token()[:20] if given is None else given.get_secret_value()
    try:
        await access.add_user(ADMIN, password, Role.ADMIN)
    except UsernameTaken:
        return None  # another process was first
    return password if given is None else None


async def list_users(settings: Settings, system: System) -> list[User]:
    async with database_beside(settings, system) as connect_args, api_stores(connect_args, system) as stored:
        return list(await make_access(stored, system).users())


async def add_user(settings: Settings, system: System, username: str, password: str, role: Role) -> User:
    async with database_beside(settings, system) as connect_args, api_stores(connect_args, system) as stored:
        return await make_access(stored, system).add_user(username, password, role)


async def amend_user(
    settings: Settings,
    system: System,
    username: str,
    *,
    password: str | None = None,
    disabled: bool | None = None,
) -> User:
    async with database_beside(settings, system) as connect_args, api_stores(connect_args, system) as stored:
        access = make_access(stored, system)
        user = await _named(access, username)
        return await access.amend_user(user.id, password=password, disabled=disabled)


async def keys(settings: Settings, system: System, username: str, *, end: bool) -> Sequence[Key]:
    """Return what lets a user in, and end it if that is asked for."""
    async with database_beside(settings, system) as connect_args, api_stores(connect_args, system) as stored:
        access = make_access(stored, system)
        user = await _named(access, username)
        found = await access.keys(user.id)
        if end:
            await access.end_keys(user.id)
        return found


async def _named(access: AccessService, username: str) -> User:
    user = await access.user_named(username) if is_username(username) else None
    if user is None:
        raise UnknownUser(username)
    return user
