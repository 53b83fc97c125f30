"""argon2id in threads, a few at a time: many sign-ins at once wait, and do not use up the
machine's memory.
"""

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from codehub.adapters.threads import in_thread

_AT_ONCE = 2


class Argon2Passwords:
    """OWASP's parameters unless told otherwise: 19 MB, two rounds."""

    def __init__(self, *, memory_kb: int = 19_456, rounds: int = 2) -> None:
        self._hasher = PasswordHasher(time_cost=rounds, memory_cost=memory_kb, parallelism=1)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._dummy_hash = self._hasher.hash("nobody has this password")

    async def hash(self, password: str) -> str:
        async with self._slots:
            return await in_thread(self._hasher.hash, password)

    async def verify(self, password: str, password_hash: str | None) -> bool:
        async with self._slots:
            is_right = await in_thread(self._verify, password, password_hash or self._dummy_hash)
        return is_right and password_hash is not None

    def _verify(self, password: str, password_hash: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False
