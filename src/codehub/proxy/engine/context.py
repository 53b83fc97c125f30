"""What all connections of one process share: the policy, the limits, the pool and the time."""

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from codehub.proxy.engine.block_cache import BlockCache
from codehub.proxy.engine.forwarded import Sender
from codehub.proxy.engine.http_body import Malformed, TooLarge
from codehub.proxy.engine.pool import Pool
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.rules import Rules
from codehub.proxy.engine.runtime import Clock, Randomness, Tasks
from codehub.proxy.engine.targets import Answer, Target

Networks = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]
AddressOf = Callable[[tuple[str, int], tuple[str, int]], str | None]


class Gate(Protocol):
    """The policy: who may go where."""

    def admit(self, head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        """Decide at once if that can be done from memory; else return what to wait for."""

    async def find_again(self, head: RequestHead, target: Target) -> Target | Answer:
        """Look anew for a target that could not be reached."""


class Answers(Protocol):
    """The policy's own answers to what the engine finds out."""

    def unreadable_request(self, status: int, reason: str) -> Answer: ...

    def body_too_large(self) -> Answer: ...

    def timed_out(self) -> Answer: ...

    def undecided(self) -> Answer:
        """The gate failed, or took back what it said."""

    def unreachable(self) -> Answer:
        """Connecting failed, not for the server's sake."""

    def not_listening(self, target: Target) -> Answer:
        """The server was looked for again, and nothing listens there."""

    def no_response(self) -> Answer:
        """The server closed the connection before it answered."""

    def unreadable_response(self, reason: str) -> Answer: ...


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


class Context:
    def __init__(
        self,
        gate: Gate,
        *,
        rules: Rules,
        answers: Answers,
        clock: Clock,
        tasks: Tasks,
        randomness: Randomness,
        limits: EdgeLimits = DEFAULT_LIMITS,
        proto: bytes = b"http",
        trusted_proxies: Networks = (),
        address_of: AddressOf = lambda _peer, _ours: None,
        connections: set[Any] | None = None,
    ) -> None:
        """`address_of` says of a peer which address to take for its own, if not that.

        `connections` is where the open ones are kept.
        """
        self.gate = gate
        self.answers = answers
        self.clock = clock
        self.tasks = tasks
        self.limits = limits
        self.pool = Pool()
        self.blocks = BlockCache(rules)
        self.connections: set[Any] = set() if connections is None else connections
        self.is_leaving = False
        """Whether every connection ends after its response."""
        self.now = clock.monotonic()
        """The time of the last tick: what is late is late by at most one of them."""
        self._proto = proto
        self._trusted = trusted_proxies
        self._address_of = address_of
        self._ids = randomness.token()[:12].replace("-", "x").replace("_", "y").encode() + b"-"
        self._requests = 0

    def new_request_id(self) -> bytes:
        self._requests += 1
        return self._ids + str(self._requests).encode()

    def refuse_body(self, malformed: Malformed) -> Answer:
        if isinstance(malformed, TooLarge):
            return self.answers.body_too_large()
        return self.answers.unreadable_request(400, str(malformed))

    def sender(self, peer: object, ours: object = None) -> Sender:
        """Return who is at the other end of a connection, by the addresses of both."""
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
