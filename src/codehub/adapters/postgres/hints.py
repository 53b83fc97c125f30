"""Hints by LISTEN/NOTIFY.

Ids go in after a commit and come out elsewhere; after a lost connection, "look at all" comes out.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import structlog

from codehub.adapters.hint_codec import EVERYBODY, decode, encode
from codehub.adapters.postgres.connect import ConnectArgs, Role, connect, report_outages
from codehub.adapters.postgres.sql import statements
from codehub.ports.hints import Hints
from codehub.ports.store import StoreUnavailable
from codehub.ports.system import Clock

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Connection, Pool

log = structlog.get_logger()

CHANNEL = "wc_wake"
PEOPLE_CHANNEL = "wc_people"  # ids of users whose keys have ended or changed
_RECONNECT_DELAY_S = 0.2
_RECONNECT_DELAY_S_MAX = 5.0
_HEARTBEAT_S = 30.0
_ANSWER_S = 5.0


class PostgresHints:
    """Sends through the pool of whoever wrote, listens on a connection of its own."""

    def __init__(
        self,
        pool: "Pool",
        connect_args: ConnectArgs,
        role: Role,
        *,
        clock: Clock,
        channel: str = CHANNEL,
    ) -> None:
        self._pool = pool
        self._connect_args = connect_args
        self._role = role
        self._clock = clock
        self._channel = channel
        self._excluding_own: set[_Listener] = set()

    async def send(self, workspace_ids: Collection[UUID]) -> None:
        if not workspace_ids:
            return
        try:
            async with report_outages(), self._pool.acquire() as connection:
                for listener in self._excluding_own:
                    listener.own[connection.get_server_pid()] += 1
                await connection.execute(
                    *statements()["notify"](channel=self._channel, payload=encode(workspace_ids))
                )
        except StoreUnavailable as error:
            log.warning("hint_not_sent", reason=str(error))

    def listen(self) -> AbstractAsyncContextManager[AsyncIterator[frozenset[UUID]]]:
        return self._listen(set())

    def of_others(self) -> Hints:
        """Return the same hints for a listener that does not need those which this process sends."""
        return _OfOthers(self)

    @asynccontextmanager
    async def _listen(self, listeners: "set[_Listener]") -> AsyncIterator[AsyncIterator[frozenset[UUID]]]:
        listener = _Listener(self._connect_args, self._role, self._clock, self._channel)
        listeners.add(listener)
        try:
            await listener.open()
            yield listener
        finally:
            listeners.discard(listener)
            listener.close()


class _OfOthers:
    def __init__(self, hints: PostgresHints) -> None:
        self._hints = hints

    async def send(self, workspace_ids: Collection[UUID]) -> None:
        await self._hints.send(workspace_ids)

    def listen(self) -> AbstractAsyncContextManager[AsyncIterator[frozenset[UUID]]]:
        return self._hints._listen(self._hints._excluding_own)  # noqa: SLF001  # two halves of one thing


class _Listener:
    """Hints that came in since they were last asked for, as one set.

    Reconnects when asked, so that it needs no task.
    """

    def __init__(self, connect_args: ConnectArgs, role: Role, clock: Clock, channel: str) -> None:
        self._channel = channel
        self._connect_args = connect_args
        self._role = role
        self._clock = clock
        self._connection: Connection | None = None
        self.pending: set[UUID] = set()
        """What came and nobody has taken yet."""
        self._look_at_all = False
        self._has_hints = asyncio.Event()
        self.own: Counter[int] = Counter()
        """The number of own hints still to arrive, by the connection that sent them. They are ignored."""

    def __aiter__(self) -> "_Listener":
        return self

    async def __anext__(self) -> frozenset[UUID]:
        while True:
            if self._connection is None or self._connection.is_closed():
                await self._reconnect()
            elif self._has_hints.is_set():
                return self._take()
            else:
                await self._wait()

    async def open(self) -> bool:
        """Listen from now on. If the server can't be reached, waiting for the next hint tries again."""
        try:
            connection = await connect(self._connect_args, self._role)
        except StoreUnavailable as error:
            log.warning("hints_unreachable", reason=str(error))
            return False
        connection.add_termination_listener(self._on_lost)
        try:
            async with report_outages():
                await connection.add_listener(self._channel, self._on_hint)
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, StoreUnavailable):  # cancelled, at an end
                raise
            log.warning("hints_unreachable", reason=str(error))
            return False
        self._connection = connection
        self.own.clear()
        return True

    def close(self) -> None:
        """Close the connection without waiting for a server that may not answer."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _reconnect(self) -> None:
        delay_s = _RECONNECT_DELAY_S
        while not await self.open():
            await self._clock.sleep(delay_s)
            delay_s = min(2 * delay_s, _RECONNECT_DELAY_S_MAX)
        self._look_at_all = True
        self._has_hints.set()

    async def _wait(self) -> None:
        """Wait for a hint. A peer that is gone without closing the connection is found by a query."""
        try:
            async with asyncio.timeout(_HEARTBEAT_S):
                await self._has_hints.wait()
        except TimeoutError:
            connection = self._connection
            try:
                if connection is not None:
                    await connection.execute("SELECT 1", timeout=_ANSWER_S)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                self.close()

    def _take(self) -> frozenset[UUID]:
        hints = EVERYBODY if self._look_at_all else frozenset(self.pending)
        self.pending.clear()
        self._look_at_all = False
        self._has_hints.clear()
        return hints

    def _on_hint(self, _connection: Any, pid: int, _channel: str, payload: object) -> None:
        if self.own[pid] > 0:
            self.own[pid] -= 1
            return
        ids = decode(str(payload))
        self._look_at_all = self._look_at_all or not ids
        self.pending.update(ids)
        self._has_hints.set()

    def _on_lost(self, _connection: Any) -> None:
        self._has_hints.set()
