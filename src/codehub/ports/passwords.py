"""Passwords: hashed slowly, and compared without telling how long it took to find out."""

from typing import Protocol


class Passwords(Protocol):
    async def hashed(self, password: str) -> str:
        """Return an argon2id hash, with its salt and parameters."""

    async def verified(self, password: str, password_hash: str | None) -> bool:
        """Whether this is the password. Takes as long if there is nothing to compare with."""
