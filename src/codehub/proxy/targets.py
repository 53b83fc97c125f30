"""Where a request goes: to a server, as a Target, or nowhere, with an Answer of our own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from codehub.ports.instances import Upstream
from codehub.proxy.cookies import without_tokens
from codehub.proxy.requests import RequestHead

if TYPE_CHECKING:
    from codehub.proxy.forwarded import Sender
    from codehub.proxy.responses import ResponseHead
    from codehub.proxy.upstream import Idle


# What takes the bytes of one end of a tunnel.
Write = Callable[[bytes], None]


class Ear(Protocol):
    """What listens to one WebSocket: a `write` goes in, and comes out as one that is also heard, or as it is where nobody listens."""

    def going_up(self, write: Write) -> Write: ...

    def going_down(self, write: Write) -> Write: ...

    def closed(self) -> None: ...


class Watch(Protocol):
    """What is told of the traffic of one workspace."""

    def requested(self, head: RequestHead) -> None: ...

    def opened(self, head: RequestHead) -> Ear | None: ...


class Target:
    """A server that this request may reach. `alive` turns False when its connections must end."""

    __slots__ = ("alive", "heads", "idle", "mounted", "prefix", "strips", "upstream", "watch")

    def __init__(
        self,
        upstream: Upstream,
        *,
        prefix: bytes | None = None,
        strips: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self.upstream = upstream
        self.prefix = prefix
        """Where the workspace is mounted, without the slash; None for the API."""
        self.mounted = b"" if prefix is None else b"X-Forwarded-Prefix: %b\r\n" % prefix
        self.strips = strips
        self.watch = watch
        self.alive = True
        self.idle: Idle | None = None
        self.heads: dict[bytes, ResponseHead] = {}
        """The heads that it answered with lately, as they were read."""

    def asked(self, head: RequestHead, sender: "Sender", request_id: bytes) -> bytes:
        """Return a request's head as this server is given it: a workspace without what says who asks, and without its prefix if it wants that."""
        said = sender.lines(head.block)
        if self.prefix is None:
            return head.to_upstream(head.target, head.block.to_api, self.mounted, said, request_id)
        path = head.target[len(self.prefix) :] if self.strips else head.target
        if b"cht_" in path:
            path = without_tokens(path)
        return head.to_upstream(path, head.block.to_workspace, self.mounted, said, request_id)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of our own."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False

    def to_client(self, request_id: bytes, *, to_head: bool, closes: bool) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        if self.body:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Content-Length: {len(self.body)}", f"X-Request-Id: {request_id.decode()}"]
        if closes or self.closes:
            lines.append("Connection: close")
        head = "\r\n".join((*lines, "", "")).encode("ascii")
        return head if to_head else head + self.body
