"""Signing in: credentials in, the identity that they prove or a refusal out.

Each way to sign in is one adapter.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from codehub.core.access import User

CredentialsT_contra = TypeVar("CredentialsT_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class PasswordCredentials:
    """What the password adapter reads. Another way to sign in brings a type of its own."""

    username: str
    password: str


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """Who somebody is, and what showed it."""

    user: User
    password_hash: str | None
    """The hash that the password was compared with: a session opens only while it is still the user's.

    None: no password was asked for, so none can have changed meanwhile.
    """


class Authenticator(Protocol[CredentialsT_contra]):
    async def authenticate(self, credentials: CredentialsT_contra) -> AuthenticatedUser | None:
        """Return whose credentials these are. None: refused, and why is nobody's business.

        Raises StoreUnavailable.
        """
