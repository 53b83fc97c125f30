"""Where a request goes: to a server, as a Target, or nowhere, with an Answer of our own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from codehub.proxy.engine.forwarded import Sender
from codehub.proxy.engine.insertions import Inserter
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.runtime import Address
from codehub.proxy.engine.tunnel import Write

if TYPE_CHECKING:
    from codehub.proxy.engine.responses import ResponseHead

T = TypeVar("T")


class Idle(list[T]):
    """The connections to one server that wait for a request, the last used at the end."""

    __slots__ = ("__weakref__",)


class SocketMonitor(Protocol):
    """What counts the traffic of one tunnel: a `write` goes in, one that counts comes out."""

    def count_up(self, write: Write) -> Write: ...

    def count_down(self, write: Write) -> Write: ...

    def close(self) -> None: ...


def count_traffic(monitor: SocketMonitor | None, write_up: Write, write_down: Write) -> tuple[Write, Write]:
    """Return what takes the bytes of a tunnel's two ends, and counts them if somebody does."""
    if monitor is None:
        return write_up, write_down
    return monitor.count_up(write_up), monitor.count_down(write_down)


class Monitor(Protocol):
    """What is told of the traffic to one target."""

    def note_request(self, head: RequestHead) -> None: ...

    def open_socket(self, head: RequestHead) -> SocketMonitor | None:
        """Return what counts a tunnel's traffic; None if nobody does."""


class Target:
    """A server that this request may reach. `alive` turns False when its connections must end."""

    __slots__ = (
        "address",
        "alive",
        "has_twin",
        "heads",
        "idle",
        "inserter",
        "is_leaving",
        "monitor",
        "mount",
        "mount_line",
        "strips",
    )

    def __init__(
        self,
        address: Address,
        *,
        mount: bytes | None = None,
        strips: bool = False,
        monitor: Monitor | None = None,
        inserter: Inserter | None = None,
        has_twin: bool = False,
    ) -> None:
        self.address = address
        self.mount = mount
        """Where an untrusted server is mounted, without the slash, empty if the whole origin is its own;
        None: it is trusted with credentials.
        """
        self.mount_line = b"X-Forwarded-Prefix: %b\r\n" % mount if mount else b""
        self.strips = strips
        self.monitor = monitor
        self.inserter = inserter
        self.has_twin = has_twin
        """Whether another server answers the same requests."""
        self.is_leaving = False
        """Whether it has ended a connection with its answer, as a server does that is about to end itself."""
        self.alive = True
        self.idle: Idle[Any] | None = None
        self.heads: dict[bytes, ResponseHead] = {}
        """The heads that it answered with lately, as they were read."""

    def request_head(self, head: RequestHead, sender: Sender, request_id: bytes) -> bytes:
        """Return a request's head as this server is given it.

        An untrusted one gets nothing that says who asks, and its path without the mount if it wants that.
        """
        block, sender_lines = head.block, sender.lines(head.block)
        insertion = head.insertion = None if self.inserter is None else self.inserter.choose(head)
        if self.mount is None:
            return head.to_upstream(head.target, block.to_trusted, self.mount_line, sender_lines, request_id)
        path = head.target[len(self.mount) :] if self.strips else head.target
        path = head.rules.secrets.without_tokens(path)
        lines = block.to_untrusted if insertion is None else block.for_whole_content
        return head.to_upstream(path, lines, self.mount_line, sender_lines, request_id)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of our own."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False
    cookies: Sequence[str] = ()

    def to_client(self, request_id: bytes, *, to_head: bool, closes: bool) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        if self.body:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Set-Cookie: {cookie}" for cookie in self.cookies]
        lines += [f"Content-Length: {len(self.body)}", f"X-Request-Id: {request_id.decode()}"]
        if closes or self.closes:
            lines.append("Connection: close")
        head = "\r\n".join((*lines, "", "")).encode("ascii")
        return head if to_head else head + self.body
