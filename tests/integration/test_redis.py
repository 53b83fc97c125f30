"""Redis as it may be: a server that stands still takes everything
and answers nothing, and whoever listens finds out.
"""

import asyncio
import signal

from structlog.testing import capture_logs
from tests.support.patience import PATIENCE_S, until
from tests.support.redis import REDIS, running_redis

from codehub.adapters.redis.hints import RedisHints
from codehub.adapters.system.machine import SystemClock

pytestmark = REDIS


async def test_a_server_that_stands_still_is_noticed_and_everything_looked_at_afterwards() -> None:
    async with running_redis() as server, asyncio.timeout(PATIENCE_S):
        hints = RedisHints(server.url, clock=SystemClock(), heartbeat_s=0.1, answer_s=0.5)
        async with hints.listen() as listener:
            next_hint = asyncio.ensure_future(anext(listener))
            with capture_logs() as lines:
                server.signal(signal.SIGSTOP)
                try:
                    await until(lambda: "hints_lost" in [line["event"] for line in lines])
                finally:
                    server.signal(signal.SIGCONT)
            assert await next_hint == frozenset()
        await hints.close()
