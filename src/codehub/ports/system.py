"""The machine as ports: time, randomness, identity and tasks.

Nothing outside an adapter may reach for the real ones.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from uuid import UUID


class Clock(Protocol):
    """Waiting and measuring. What *decides* something asks the database's time instead (spec §5)."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Return after at least this long."""


class Randomness(Protocol):
    def fraction(self) -> float:
        """Return a number in [0, 1), for jitter."""

    def token(self) -> str:
        """Return an unguessable word of at least 256 bits that is safe in a header, a cookie and a shell."""


class Identity(Protocol):
    def new_id(self) -> UUID:
        """Return an id nobody can guess; later ids sort after earlier ones."""


class Task(Protocol):
    """Something under way. Whoever spawned it waits for it or cancels it."""

    def cancel(self) -> object: ...

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def add_done_callback(self, callback: Callable[[Any], object]) -> None: ...


class Tasks(Protocol):
    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> Task:
        """Start `work` beside the caller."""

    async def cancel_all(self) -> None:
        """Cancel what is still under way and wait until all of it has ended."""
