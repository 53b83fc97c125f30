"""Looking again and again at what is known: what can't be looked at now is believed for a while."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog

from codehub.ports.store import StoreUnavailable

log = structlog.get_logger()


async def follow(event: asyncio.Event, look: Callable[[], Awaitable[None]]) -> None:
    """Look whenever this is set, until cancelled."""
    while True:
        await event.wait()
        event.clear()
        with log_outage():
            await look()


@contextmanager
def log_outage() -> Iterator[None]:
    """Go on with what is known, if it can't be looked at."""
    try:
        yield
    except StoreUnavailable as error:
        log.warning("route_cache_not_refreshed", reason=str(error))
    except Exception:
        log.exception("route_cache_failed")
