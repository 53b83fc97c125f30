"""Waiting for the database while codehub starts: something to ask it goes in, its answer comes out, though it had to be started again."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from codehub.engine.system import System
from codehub.ports.store import StoreUnavailable

log = structlog.get_logger()
T = TypeVar("T")

_PAUSE_S = 0.5
_AWAY_S_MAX = 60.0


async def until_reachable(ask: Callable[[], Awaitable[T]], system: System) -> T:
    """Ask, and again while the database is away: whoever looks after it starts it again. What is asked twice must do no harm."""
    deadline = system.clock.monotonic() + _AWAY_S_MAX
    while True:
        try:
            return await ask()
        except StoreUnavailable as error:
            if system.clock.monotonic() >= deadline:
                raise
            log.warning("database_awaited", reason=str(error))
            await system.clock.sleep(_PAUSE_S)
