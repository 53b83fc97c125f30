"""Signing in by password: a name and a password in, whose they are out.

Takes as long for nobody, and for a user without a password.
"""

from codehub.core.access import is_username
from codehub.ports.access import AccessStore
from codehub.ports.authenticator import AuthenticatedUser, PasswordCredentials
from codehub.ports.passwords import Passwords


class PasswordAuthenticator:
    def __init__(self, store: AccessStore, passwords: Passwords) -> None:
        self._store = store
        self._passwords = passwords

    async def authenticate(self, credentials: PasswordCredentials) -> AuthenticatedUser | None:
        username = credentials.username
        # The database compares names in its own lower case. What can't be a name must not find a user whose
        # failures are counted under another spelling.
        stored = await self._store.credentials(username) if is_username(username) else None
        password_hash = None if stored is None else stored.password_hash
        is_right = await self._passwords.verify(credentials.password, password_hash)
        if stored is None or not is_right or stored.user.disabled:
            return None
        return AuthenticatedUser(stored.user, password_hash)
