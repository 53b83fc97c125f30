"""The edge of one process: connections go in, and each is served by the gate's word. Holds what they share."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import structlog

from codehub.ports.system import Clock, Randomness, Tasks
from codehub.proxy.client import ClientConnection
from codehub.proxy.forwarded import Sender
from codehub.proxy.requests import HeaderBlock, RequestHead
from codehub.proxy.targets import Answer, Target
from codehub.proxy.upstream import Pool
from codehub.web.cookies import session_name

log = structlog.get_logger()

_BACKLOG = 4096
_TICK_S = 0.5


class Gate(Protocol):
    """Who may go where."""

    def admit(self, head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        """Say at once if that can be said from memory; else return what to wait for."""

    async def find_again(self, head: RequestHead, target: Target) -> Target | Answer:
        """Look anew for a target that could not be reached."""


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """How much, and for how long."""

    head_bytes_max: int = 32_768
    head_s_max: float = 10.0
    idle_s_max: float = 75.0
    body_silence_s_max: float = 60.0
    stall_s_max: float = 60.0
    """A client that takes nothing of its response for that long is gone."""
    half_closed_s_max: float = 10.0
    linger_silence_s_max: float = 2.0
    linger_s_max: float = 30.0
    """Less than an idle connection may last: who sends on drop by drop wins nothing."""
    linger_bytes_max: int = 1 << 26
    ahead_bytes_max: int = 65_536
    """Of requests that were sent before the last one was answered."""


DEFAULT_LIMITS = EdgeLimits()
Networks = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]

AddressOf = Callable[[tuple[str, int], tuple[str, int]], str | None]


class Edge:
    def __init__(
        self,
        gate: Gate,
        *,
        clock: Clock,
        tasks: Tasks,
        randomness: Randomness,
        limits: EdgeLimits = DEFAULT_LIMITS,
        proto: bytes = b"http",
        trusted_proxies: Networks = (),
        address_of: AddressOf = lambda _peer, _ours: None,
        connections: set[ClientConnection] | None = None,
    ) -> None:
        """`address_of` says of a peer which address to take for its own, if not that. `connections`: where the open ones are kept."""
        self.gate = gate
        self.clock = clock
        self.tasks = tasks
        self.limits = limits
        self.pool = Pool()
        self.blocks: dict[bytes, HeaderBlock] = {}
        self.connections: set[ClientConnection] = set() if connections is None else connections
        self.now = clock.monotonic()
        """The time of the last tick: what is late is late by at most one of them."""
        self.session = session_name(secure=proto == b"https")
        """The cookie that says who asks."""
        self._proto = proto
        self._trusted = trusted_proxies
        self._address_of = address_of
        self._ids = randomness.token()[:12].replace("-", "x").replace("_", "y").encode() + b"-"
        self._requests = 0

    def new_request_id(self) -> bytes:
        self._requests += 1
        return self._ids + str(self._requests).encode()

    def sender(self, peer: object, ours: object = None) -> Sender:
        """Return who that is."""
        if not isinstance(peer, tuple):
            return Sender(b"127.0.0.1", is_trusted=False, proto=self._proto)
        text = str(peer[0]).partition("%")[0]
        if isinstance(ours, tuple):
            text = self._address_of((text, int(peer[1])), (str(ours[0]), int(ours[1]))) or text
        address = ipaddress.ip_address(text)
        mapped = getattr(address, "ipv4_mapped", None)
        address = mapped or address
        is_trusted = any(address in network for network in self._trusted)
        return Sender(str(address).encode(), is_trusted=is_trusted, proto=self._proto)

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve connections of this listener; at the end all of them are closed."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientConnection(self), sock=listener, backlog=_BACKLOG)
        ticking = self.tasks.spawn(self._tick(), name="edge-tick")
        try:
            yield
        finally:
            ticking.cancel()
            server.close()
            for connection in list(self.connections):
                connection.abort()
            self.pool.close()

    def sweep(self) -> None:
        """End what is over time, and what may no longer be open."""
        self.now = now = self.clock.monotonic()
        for connection in list(self.connections):
            if connection.deadline <= now:
                connection.expire()
            elif connection.target is not None and not connection.target.alive:
                connection.revoke()
        self.pool.sweep()

    async def _tick(self) -> None:
        while True:
            await self.clock.sleep(_TICK_S)
            try:
                self.sweep()
            except Exception:
                log.exception("sweep_failed")


def targets_in_use(connections: Collection[ClientConnection]) -> set[Target]:
    """Return where connections lead right now."""
    return {connection.target for connection in connections if connection.target is not None}
