"""Redis as it may be: a server that stands still takes everything and answers nothing, and whoever listens finds out."""

import asyncio
import signal

import pytest
from tests.support.patience import PATIENCE_S, until
from tests.support.redis import REDIS, running_redis

from codehub.adapters.redis import hints
from codehub.adapters.redis.hints import RedisHints
from codehub.adapters.system.machine import SystemClock

pytestmark = REDIS


async def test_a_server_that_stands_still_is_noticed_and_everything_looked_at_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hints, "_HEARTBEAT_S", 0.1)
    monkeypatch.setattr(hints, "_ANSWER_S", 0.5)
    async with running_redis() as server, asyncio.timeout(PATIENCE_S):
        on_redis = RedisHints(server.url, clock=SystemClock())
        async with on_redis.listen() as heard:
            hearing = asyncio.ensure_future(anext(heard))
            server.signal(signal.SIGSTOP)
            try:
                await until(lambda: heard._channel is None)  # type: ignore[attr-defined]
            finally:
                server.signal(signal.SIGCONT)
            assert await hearing == frozenset()
        await on_redis.close()
