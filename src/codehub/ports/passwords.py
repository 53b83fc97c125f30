"""Passwords: hashed slowly, and compared in constant time."""

from typing import Protocol


class Passwords(Protocol):
    async def hash(self, password: str) -> str:
        """Return an argon2id hash, with its salt and parameters."""

    async def verify(self, password: str, password_hash: str | None) -> bool:
        """Whether this is the password. Takes as long if there is nothing to compare with."""
