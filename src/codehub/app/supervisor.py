"""Roles: what `codehub up` runs side by side.

One that dies is started again, later each time, and the log says so.
"""

from collections.abc import Awaitable, Callable

import structlog

from codehub.engine.system import System

log = structlog.get_logger()

_PAUSE_S_MIN = 0.5
_PAUSE_S_MAX = 30.0
_HEALTHY_S = 60.0


async def supervise(role: str, work: Callable[[], Awaitable[None]], system: System) -> None:
    """Run the role until it is cancelled or returns. After any exception it is started again."""
    pause_s = _PAUSE_S_MIN
    while True:
        began_at = system.clock.monotonic()
        try:
            await work()
        except Exception as error:
            lasted_s = system.clock.monotonic() - began_at
            if lasted_s >= _HEALTHY_S:
                pause_s = _PAUSE_S_MIN
            log.exception(
                "role_died",
                role=role,
                reason=str(error) or type(error).__name__,
                lasted_s=round(lasted_s, 1),
                again_in_s=pause_s,
            )
            await system.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
            log.info("role_started_again", role=role)
        else:
            return
