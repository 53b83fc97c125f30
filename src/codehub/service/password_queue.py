"""How many may be waiting for a password to be looked at: who comes beyond that is told to come back, and costs nothing more."""

from collections.abc import Iterator
from contextlib import contextmanager

STRANGERS_MAX = 64
ALL_MAX = 96
"""The rest is for who is known: a crowd of strangers keeps none of them out."""


class PasswordQueueFull(Exception):
    """Too many passwords wait to be looked at."""

    retry_after_s = 2

    def __init__(self) -> None:
        super().__init__("Too many people are signing in right now.")


class PasswordQueue:
    def __init__(self) -> None:
        self._inside = 0

    @contextmanager
    def place(self, *, is_known: bool) -> Iterator[None]:
        """Raises Crowded."""
        if self._inside >= (ALL_MAX if is_known else STRANGERS_MAX):
            raise PasswordQueueFull
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
