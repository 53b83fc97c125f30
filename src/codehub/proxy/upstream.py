"""The connections to workspaces and to the API: a request's bytes go out on one, its response comes back, and it waits for the next."""

import asyncio
from typing import TYPE_CHECKING, cast

from codehub.ports.instances import TcpUpstream, Upstream
from codehub.ports.system import Clock
from codehub.proxy.framing import Body, Chunked, Malformed, Sized, UntilClose
from codehub.proxy.responses import ResponseHead

if TYPE_CHECKING:
    from codehub.proxy.client import ClientConnection

_IDLE_PER_UPSTREAM_MAX = 64
_IDLE_S_MAX = 4.0  # Node and uvicorn close theirs after 5
_CONNECT_S_MAX = 5.0
_HEAD_BYTES_MAX = 65_536
_JOIN_BYTES_MAX = 16_384
_IDLE, _HEAD, _BODY, _TUNNEL = range(4)


class Pool:
    """Idle connections by upstream."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._idle: dict[Upstream, list[UpstreamConnection]] = {}

    def take(self, upstream: Upstream) -> "UpstreamConnection | None":
        """Return a connection that was used just now, if there is one."""
        idle = self._idle.get(upstream)
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    async def connect(self, upstream: Upstream) -> "UpstreamConnection":
        """Return a new connection. Raises OSError, TimeoutError included."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_S_MAX):
            if isinstance(upstream, TcpUpstream):
                _, protocol = await loop.create_connection(
                    lambda: UpstreamConnection(self, upstream), upstream.host, upstream.port
                )
            else:
                _, protocol = await loop.create_unix_connection(
                    lambda: UpstreamConnection(self, upstream), str(upstream.path)
                )
        return protocol

    def release(self, connection: "UpstreamConnection") -> None:
        """Keep a connection for the next request, or close it."""
        idle = self._idle.setdefault(connection.upstream, [])
        if len(idle) >= _IDLE_PER_UPSTREAM_MAX or not connection.is_open:
            connection.close()
            return
        connection.idle_since = self._clock.monotonic()
        idle.append(connection)

    def forget(self, connection: "UpstreamConnection") -> None:
        idle = self._idle.get(connection.upstream)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def sweep(self, now: float) -> None:
        """Close what has waited for longer than servers do."""
        for upstream, idle in list(self._idle.items()):
            for connection in [one for one in idle if now - one.idle_since > _IDLE_S_MAX]:
                idle.remove(connection)
                connection.close()
            if not idle:
                del self._idle[upstream]

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()


class UpstreamConnection(asyncio.Protocol):
    """One connection, which serves one client's request at a time."""

    __slots__ = (
        "_body",
        "_buffer",
        "_head",
        "_pool",
        "_saw_bytes",
        "_state",
        "_transport",
        "client",
        "idle_since",
        "upstream",
        "was_used",
    )

    def __init__(self, pool: Pool, upstream: Upstream) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._state = _IDLE
        self._buffer = b""
        self._head: ResponseHead | None = None
        self._body: Body = Sized(0)
        self._saw_bytes = False
        self.upstream = upstream
        self.client: ClientConnection | None = None
        self.was_used = False
        self.idle_since = 0.0

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, client: "ClientConnection", raw: bytes) -> None:
        """Send a request's head, and as much of its body as is there, for this client."""
        self.client = client
        self._state = _HEAD
        self._saw_bytes = False
        self.write(raw)

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def write_eof(self) -> None:
        if self.is_open:
            assert self._transport is not None
            self._transport.write_eof()

    def pause(self) -> None:
        if self.is_open:
            assert self._transport is not None
            self._transport.pause_reading()

    def resume(self) -> None:
        if self.is_open:
            assert self._transport is not None
            self._transport.resume_reading()

    def close(self) -> None:
        """End it: nothing that is still under way on it counts any more."""
        self.client = None
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None:  # a server that speaks unasked
            self._pool.forget(self)
            self.close()
            return
        if self._state == _TUNNEL:
            client.tunnel_down(data)
        else:
            try:
                if self._state == _BODY:
                    self._relay(client, b"", data, 0, self._body.take(data, 0))
                else:
                    self._saw_bytes = True
                    self._read_head(client, self._buffer + data if self._buffer else data)
            except Malformed as error:
                self._fail(client, str(error))

    def eof_received(self) -> bool:
        client = self.client
        if client is None:
            return False
        if self._state == _TUNNEL:
            client.tunnel_eof()
            return True
        if self._state == _BODY and type(self._body) is UntilClose:
            self.client = None
            client.response_done(self, reusable=False)
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        client, self.client = self.client, None
        if client is None:
            self._pool.forget(self)
        elif self._state == _TUNNEL:
            client.tunnel_closed()
        else:
            client.upstream_lost(may_retry=self.was_used and not self._saw_bytes)

    def pause_writing(self) -> None:
        if self.client is not None:
            self.client.pause_for_upstream()

    def resume_writing(self) -> None:
        if self.client is not None:
            self.client.resume_for_upstream()

    # Responses.

    def _read_head(self, client: "ClientConnection", data: bytes) -> None:
        request, target = client.head, client.target
        assert target is not None
        while True:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:  # noqa: PLR2004  # not found
                if len(data) > _HEAD_BYTES_MAX:
                    raise Malformed("a head without an end")
                self._buffer = data
                return
            head = ResponseHead(data[:end], target.prefix, strips=target.strips)
            if not head.is_interim:
                break
            if not request.is_http_1_0:
                client.write(head.to_client(None, closes=False))
            data = data[end:]
            if not data:
                self._buffer = b""
                return
        self._buffer = b""
        if head.status == 101:  # noqa: PLR2004
            self._switch(client, head, data[end:])
            return
        head.frame(to_head=request.method == b"HEAD", decodes=request.is_http_1_0)
        self._head, self._body = head, head.body
        stop = head.body.take(data, end)
        self._state = _BODY
        closes = client.response_begins(ends_with_connection=type(head.body) is UntilClose)
        raw = head.to_client(None if target.prefix is None else client.request_id, closes=closes)
        if len(data) > _JOIN_BYTES_MAX:
            client.write(raw)
            raw = b""
        self._relay(client, raw, data, end, stop)

    def _relay(self, client: "ClientConnection", head: bytes, data: bytes, start: int, stop: int) -> None:
        """Send the client a head, if there is one, and what of `data` belongs to the body."""
        body = self._body
        if type(body) is Chunked and body.content is not None:
            client.write(head + b"".join(body.content))
            body.content.clear()
        elif start == 0 and stop == len(data):
            client.write(data)
        elif head:
            client.write(head + data[start:stop])
        else:
            client.write(memoryview(data)[start:stop])
        if body.done:
            assert self._head is not None
            reusable = self._head.keeps_alive and stop == len(data)
            self.client = None
            self._state = _IDLE
            self._head = None
            self.was_used = True
            client.response_done(self, reusable=reusable)

    def _switch(self, client: "ClientConnection", head: ResponseHead, rest: bytes) -> None:
        wanted = client.head.upgrade
        if wanted is None or head.upgrade.lower() != wanted.lower():
            raise Malformed("a switch of protocols that was not asked for")
        self._state = _TUNNEL
        client.tunnel_begins(head.to_client(client.request_id, closes=False))
        if rest:
            client.tunnel_down(rest)

    def _fail(self, client: "ClientConnection", why: str) -> None:
        self.close()
        client.upstream_failed(why)
