"""Waits for the database while codehub starts: repeats a query until the database answers."""

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
    """Repeat the query while the database is down, for a while. It must be safe to repeat."""
    deadline = system.clock.monotonic() + _AWAY_S_MAX
    while True:
        try:
            return await ask()
        except StoreUnavailable as error:
            if system.clock.monotonic() >= deadline:
                raise
            log.warning("database_awaited", reason=str(error))
            await system.clock.sleep(_PAUSE_S)
