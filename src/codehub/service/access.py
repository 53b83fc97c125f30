"""Signing in and keys: secrets in, persons out. The API, the dashboard and the command line ask here.

Every cache of users, such as the proxy's (`ports/proxy_lookups.py`), is refreshed when a hint names a user:
it is sent whenever a key of theirs ends, their role changes or they are disabled.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from codehub.core.access import (
    SESSION_LASTS,
    Person,
    Role,
    Scope,
    Throttle,
    User,
    login_throttles,
)
from codehub.core.ceilings import Ceilings
from codehub.core.devices import Device, read_device, written_device
from codehub.ports.access import AccessStore, Amendment, Key, KeyEnded, Token
from codehub.ports.authenticator import AuthenticatedUser, Authenticator, PasswordCredentials
from codehub.ports.hints import Hints
from codehub.ports.passwords import Passwords
from codehub.ports.system import Identity, Randomness
from codehub.service.password_queue import PasswordQueue

TOKEN_PREFIX = "cht_"  # noqa: S105  # how a token begins, not one
_KEY_LENGTH_MAX = 256


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The session's secret, for the cookie alone, and whose it is."""

    session: str
    user: User
    device: str
    """The browser's secret, by which it is known the next time."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """Too many failures: wait."""

    retry_after_s: float


@dataclass(frozen=True, slots=True)
class WrongPassword:
    """No such user, the wrong password, or disabled: the caller is not told which."""


class AccessService:
    def __init__(
        self,
        store: AccessStore,
        by_password: Authenticator[PasswordCredentials],
        passwords: Passwords,
        hints: Hints,
        *,
        randomness: Randomness,
        identity: Identity,
        tokens_max: int = Ceilings().tokens,  # frozen
    ) -> None:
        self._store = store
        self._by_password = by_password
        self._passwords = passwords
        self._hints = hints
        self._randomness = randomness
        self._identity = identity
        self._password_queue = PasswordQueue()
        self._device_key: bytes | None = None
        self.tokens_max = tokens_max

    # Who asks

    async def authenticate(self, cookie: str | None, bearer: str | None) -> Person | None:
        """Return who asks. With a bearer token the cookie is ignored, even if the token is not valid."""
        if bearer is not None:
            if not bearer.startswith(TOKEN_PREFIX) or len(bearer) > _KEY_LENGTH_MAX:
                return None
            return await self._store.use_token(sha256(bearer))
        if not cookie or len(cookie) > _KEY_LENGTH_MAX:
            return None
        return await self._store.use_session(sha256(cookie), lasts=SESSION_LASTS)

    # Sessions

    async def login(
        self, username: str, password: str, *, address: str, device: str | None
    ) -> SignedIn | Throttled | WrongPassword:
        """Open a session by password, with a new secret. `device`: the browser's secret, if it has one.

        Raises PasswordQueueFull.
        """
        sent_device = await self._read_device(device, username)
        with self._password_queue.enter(is_known=sent_device is not None):
            signing = await self._store.device_signing_key()
            known_device = (
                sent_device if sent_device is not None and sent_device.is_known(signing.now) else None
            )
            throttles = login_throttles(username, address, None if known_device is None else known_device.id)
            wait_s = await self._store.count_try(throttles)
            if wait_s > 0:
                return Throttled(wait_s)
            authenticated = await self._by_password.authenticate(PasswordCredentials(username, password))
        session = None if authenticated is None else await self._open_session(authenticated)
        if authenticated is None or session is None:
            return WrongPassword()
        await self._forgive(throttles)
        current_device = Device(
            self._identity.new_id() if known_device is None else known_device.id, signing.now
        )
        return SignedIn(session, authenticated.user, written_device(current_device, username, signing.key))

    async def _open_session(self, authenticated: AuthenticatedUser) -> str | None:
        """Return a new session's secret, however they signed in.

        None: their password was changed, or they were disabled, while it was looked at.
        """
        secret = self._randomness.token()
        is_open = await self._store.open_session(
            sha256(secret),
            authenticated.user.id,
            password_hash=authenticated.password_hash,
            lasts=SESSION_LASTS,
        )
        return secret if is_open else None

    async def _read_device(self, secret: str | None, username: str) -> Device | None:
        """Return which browser this is, if it has signed in to this account.

        The key never changes: it is read once.
        """
        if not secret or len(secret) > _KEY_LENGTH_MAX:
            return None
        if self._device_key is None:
            self._device_key = (await self._store.device_signing_key()).key
        return read_device(secret, username, self._device_key)

    async def logout(self, person: Person) -> None:
        """End this session. A token is not a session: it stays."""
        if not person.is_token:
            await self._store.close_session(person.key_sha256)
            await self._hints.send({person.id})

    async def change_password(
        self, person: Person, old: str, new: str, *, address: str, device: str | None
    ) -> Throttled | WrongPassword | None:
        """Change one's own password and end one's other sessions and tokens; None: it is done. Raises
        PasswordQueueFull.

        Tokens too: a password may be changed because somebody else was in, who could have made one to come
        back by.

        Whoever has stolen a session must not guess the password by it: a try counts as one to sign in does.
        """
        username = person.user.username
        sent_device = await self._read_device(device, username)
        with self._password_queue.enter(is_known=True):
            is_known = sent_device is not None and sent_device.is_known(
                (await self._store.device_signing_key()).now
            )
            throttles = login_throttles(
                username, address, sent_device.id if sent_device and is_known else None
            )
            wait_s = await self._store.count_try(throttles)
            if wait_s > 0:
                return Throttled(wait_s)
            authenticated = await self._by_password.authenticate(PasswordCredentials(username, old))
            if authenticated is None:
                return WrongPassword()
            change = Amendment(password_hash=await self._passwords.hash(new))
        try:
            await self._store.amend_user(
                person.id, change, keep_key=person.key_sha256, known_hash=authenticated.password_hash
            )
        except KeyEnded:
            return WrongPassword()  # somebody else has changed it meanwhile
        await self._forgive(throttles)
        await self._hints.send({person.id})
        return None

    async def _forgive(self, throttles: Mapping[str, Throttle]) -> None:
        """Forget this account's failures. Failures of other accounts from the same address stay."""
        await self._store.clear_failures(
            [key for key, throttle in throttles.items() if throttle.is_one_accounts]
        )
        await self._store.uncount_try(
            [key for key, throttle in throttles.items() if not throttle.is_one_accounts]
        )

    # Tokens

    async def make_token(
        self, person: Person, *, name: str, scope: Scope, lasts: timedelta | None
    ) -> tuple[Token, str]:
        """Return a new token and its secret, which nobody can be shown again.

        Raises TooManyTokens, or KeyEnded.
        """
        secret = TOKEN_PREFIX + self._randomness.token()
        token = await self._store.add_token(
            self._identity.new_id(),
            person.id,
            name=name,
            token_sha256=sha256(secret),
            scope=scope,
            lasts=lasts,
            tokens_max=self.tokens_max,
            key_sha256=person.key_sha256,
        )
        return token, secret

    async def tokens(self, person: Person) -> Sequence[Token]:
        return await self._store.tokens(person.id)

    async def delete_token(self, person: Person, token_id: UUID) -> None:
        """Raises UnknownToken."""
        await self._store.delete_token(token_id, person.id)
        await self._hints.send({person.id})

    # Users

    async def users(self) -> Sequence[User]:
        return await self._store.users()

    async def add_user(self, username: str, password: str, role: Role) -> User:
        """Raises UsernameTaken, or PasswordQueueFull."""
        return await self._store.add_user(
            self._identity.new_id(), username=username, password_hash=await self._hash(password), role=role
        )

    async def _hash(self, password: str) -> str:
        with self._password_queue.enter(is_known=True):
            return await self._passwords.hash(password)

    async def amend_user(
        self,
        user_id: UUID,
        *,
        password: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
    ) -> User:
        """Raises UnknownUser, LastAdmin, or PasswordQueueFull."""
        password_hash = None if password is None else await self._hash(password)
        user = await self._store.amend_user(user_id, Amendment(password_hash, role, disabled))
        await self._hints.send({user_id})
        return user

    async def keys(self, user_id: UUID) -> Sequence[Key]:
        """Return what lets somebody in now. Raises UnknownUser."""
        return await self._store.keys(user_id)

    async def end_keys(self, user_id: UUID) -> None:
        """End every session and token of somebody's. Raises UnknownUser."""
        await self._store.end_keys(user_id)
        await self._hints.send({user_id})

    async def users_by_keys(self, keys: Collection[bytes]) -> Mapping[bytes, User]:
        """Return whom these keys still let in, by their hashes."""
        return await self._store.users_by_keys(keys)

    async def user_named(self, username: str) -> User | None:
        credentials = await self._store.credentials(username)
        return None if credentials is None else credentials.user


def sha256(secret: str) -> bytes:
    """Return what is stored of a session's or a token's secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
