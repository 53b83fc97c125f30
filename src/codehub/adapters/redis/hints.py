"""Hints by Redis on channel `wc:wake`.

Ids go in, and come out elsewhere; after a lost connection, "look at all" comes out.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import structlog
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from codehub.adapters.hint_codec import EVERYBODY, decode, encode
from codehub.ports.system import Clock

log = structlog.get_logger()

CHANNEL = "wc:wake"
_RECONNECT_DELAY_S = 0.2
_RECONNECT_DELAY_S_MAX = 5.0
_FAILURES = (RedisError, OSError, TimeoutError)


class RedisHints:
    """An outage of Redis only costs time: lost hints are not sent again, and listeners look at all
    workspaces.
    """

    def __init__(self, url: str, *, clock: Clock, heartbeat_s: float = 30.0, answer_s: float = 5.0) -> None:
        """After `heartbeat_s` without a hint the server is asked
        whether it is there, and has `answer_s` to say so.
        """
        self._url = url
        self._clock = clock
        self._heartbeat_s, self._answer_s = heartbeat_s, answer_s
        self._sender = self._client()
        # Sends nothing, but raises an error for unknown options in the URL.
        self._sender.connection_pool.make_connection()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        await self._sender.aclose()

    async def send(self, workspace_ids: Collection[UUID]) -> None:
        if not workspace_ids:
            return
        try:
            async with asyncio.timeout(self._answer_s):
                await self._sender.publish(CHANNEL, encode(workspace_ids))
        except _FAILURES as error:
            log.warning("hint_not_sent", reason=str(error))

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[frozenset[UUID]]]:
        listener = _Listener(self._client(), self._clock, self._heartbeat_s, self._answer_s)
        try:
            await listener.open()
            yield listener
        finally:
            await listener.close()

    def _client(self) -> Redis:
        # It would reconnect by itself without reporting it, and hints would be missed.
        return Redis.from_url(self._url, retry=Retry(NoBackoff(), 0))


class _Listener:
    """Hints that came in since they were last asked for, as one set.

    Reconnects when asked, so that it needs no task.
    """

    def __init__(self, client: Redis, clock: Clock, heartbeat_s: float, answer_s: float) -> None:
        self._client = client
        self._clock = clock
        self._heartbeat_s, self._answer_s = heartbeat_s, answer_s
        self._channel: PubSub | None = None

    def __aiter__(self) -> "_Listener":
        return self

    async def __anext__(self) -> frozenset[UUID]:
        while True:
            if self._channel is None:
                await self._reconnect()
                return EVERYBODY
            try:
                if (hints := await self._next(self._channel)) is not None:
                    return hints
            except _FAILURES as error:
                log.warning("hints_lost", reason=str(error))
                await self._drop()

    async def open(self) -> bool:
        """Listen from now on. If the server can't be reached, waiting for the next hint tries again."""
        channel = self._client.pubsub()
        try:
            async with asyncio.timeout(self._answer_s):
                await channel.subscribe(CHANNEL)
                while (await channel.get_message(timeout=self._answer_s) or {}).get("type") != "subscribe":
                    pass
        except _FAILURES as error:
            log.warning("hints_unreachable", reason=str(error))
            await _close_channel(channel)
            return False
        self._channel = channel
        return True

    async def close(self) -> None:
        await self._drop()
        await self._client.aclose()

    async def _next(self, channel: PubSub) -> frozenset[UUID] | None:
        """Return the next hint and all that are there with it.

        A peer that is gone without closing the connection is found by a ping.
        """
        message = await channel.get_message(timeout=self._heartbeat_s)
        if message is None:
            async with asyncio.timeout(self._answer_s):
                await channel.ping()
                while message is None:
                    message = await channel.get_message(timeout=self._answer_s)
        hints = []
        while message is not None:
            if message["type"] == "message":
                hints.append(decode(message["data"].decode(errors="replace")))
            message = await channel.get_message(timeout=0)
        if not hints:
            return None
        return frozenset().union(*hints) if all(hints) else EVERYBODY

    async def _reconnect(self) -> None:
        delay_s = _RECONNECT_DELAY_S
        while not await self.open():
            await self._clock.sleep(delay_s)
            delay_s = min(2 * delay_s, _RECONNECT_DELAY_S_MAX)

    async def _drop(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await _close_channel(channel)


async def _close_channel(channel: PubSub) -> None:
    with suppress(*_FAILURES):
        await channel.aclose()  # type: ignore[no-untyped-call]
