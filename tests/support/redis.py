"""A Redis server for tests, on a unix socket. Ends with the
block; can be stopped and started again within it.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError
from tests.support.patience import until

REDIS = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


class TestRedis:
    __test__ = False  # not a test, whatever its name begins with

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        options = (
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--save",
            "",
            "--dir",
            str(self.socket.parent),
        )
        self._process = await asyncio.create_subprocess_exec(
            "redis-server", *options, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
        )
        async with Redis.from_url(self.url) as client:
            await until(lambda: _answers(client))

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()
            self.socket.unlink(missing_ok=True)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def lose_connections(self) -> None:
        """End the connections of whoever listens."""
        async with Redis.from_url(self.url) as client:
            assert await client.client_kill_filter(_type="pubsub") == 1

    async def ping(self) -> None:
        async with Redis.from_url(self.url) as client:
            await client.ping()

    async def publish(self, payload: str) -> None:
        async with Redis.from_url(self.url) as client:
            await client.publish("wc:wake", payload)


@asynccontextmanager
async def running_redis() -> AsyncIterator[TestRedis]:
    with tempfile.TemporaryDirectory(prefix="codehub-redis-") as directory:
        server = TestRedis(Path(directory))
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


async def _answers(client: Redis) -> bool:
    try:
        return bool(await client.ping())
    except (RedisError, OSError):
        return False
