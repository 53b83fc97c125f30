"""Limits how many requests wait for a password check: any more are refused at once."""

from collections.abc import Iterator
from contextlib import contextmanager

STRANGERS_MAX = 64
ALL_MAX = 96
"""The rest is for browsers that are known: no number of strangers keeps them out."""


class PasswordQueueFull(Exception):
    """Too many passwords wait to be compared."""

    retry_after_s = 2


class PasswordQueue:
    def __init__(self) -> None:
        self._waiting_count = 0

    @contextmanager
    def enter(self, *, is_known: bool) -> Iterator[None]:
        """Raises PasswordQueueFull."""
        if self._waiting_count >= (ALL_MAX if is_known else STRANGERS_MAX):
            raise PasswordQueueFull
        self._waiting_count += 1
        try:
            yield
        finally:
            self._waiting_count -= 1
