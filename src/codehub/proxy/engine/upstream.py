"""A connection to a server: a request goes out on it, its response comes back, and it waits for the next."""

import asyncio
import os
from typing import Protocol, cast

from codehub.proxy.engine.heads import HEAD_END
from codehub.proxy.engine.http_body import NO_BODY, Body, Chunked, Malformed, UntilClose
from codehub.proxy.engine.insertions import EditedBody, edited_body
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.responses import ResponseHead
from codehub.proxy.engine.targets import Idle, Target
from codehub.proxy.engine.tunnel import Tunnel, WatchedTunnel, Write

_IDLE_MAX = 64
_HEAD_BYTES_MAX = 65_536
_INTERIMS_MAX = 100
_JOIN_BYTES_MAX = 16_384
_LAST_BYTES_MAX = 1 << 20
_HEADS_MAX = 64
_REMEMBERED_BYTES_MAX = 4096
_WAITS, _HEAD, _BODY, _TUNNEL, _HALF_A_TUNNEL = range(5)


class Client(Protocol):
    """The client's connection, as far as a connection to a server knows it."""

    head: RequestHead
    request_id: bytes
    target: Target | None

    @property
    def write(self) -> Write: ...

    def writelines(self, parts: tuple[bytes | memoryview, ...], /) -> None: ...

    def half_close(self) -> None: ...

    def response_begins(self, *, ends_with_connection: bool) -> bool: ...

    def response_done(self, upstream: "UpstreamConnection", *, reusable: bool) -> None: ...

    def upstream_lost(self, *, may_retry: bool) -> None: ...

    def upstream_failed(self, reason: str) -> None: ...

    def upstream_takes(self, *, more: bool) -> None: ...

    def tunnel_begins(self, head: bytes, rest: bytes) -> Write: ...

    def tunnel_closed(self) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """One connection, which serves one client's request at a time."""

    __slots__ = (
        "_body",
        "_buffer",
        "_ended_in_order",
        "_idle",
        "_interims",
        "_is_busy",
        "_is_event_stream",
        "_is_paused",
        "_keeps_alive",
        "_saw_bytes",
        "_searched",
        "_spoke_first",
        "_state",
        "_was_used",
        "client",
        "sweeps",
        "transport",
        "write",
    )

    def __init__(self, idle: "Idle[UpstreamConnection]") -> None:
        self._idle = idle
        self._state = _WAITS
        self._buffer = b""
        self._searched = 0  # so much of the buffer is a head that has no end yet
        self._interims = 0
        self._body: Body | EditedBody = NO_BODY
        self._is_busy = False  # what has come is not all read yet
        self._is_event_stream = False
        self._is_paused = False  # the client takes nothing more for now
        self._ended_in_order = False
        self._keeps_alive = True
        self._saw_bytes = False
        self._spoke_first = False
        self._was_used = False
        self.client: Client | None = None
        self.sweeps = 0

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()

    def begin(self, client: Client, raw: bytes) -> None:
        """Send a request's head, and as much of its body as is there, for this client."""
        self.client = client
        self._state = _HEAD
        self._interims = 0
        self._saw_bytes = False
        self.write(raw)

    def catch_up(self) -> None:
        """Read what its server sent before it was asked: one that has no time says so, and leaves."""
        if self._buffer and self.is_open:
            self.data_received(b"")

    def write_eof(self) -> None:
        if self.is_open:
            self.transport.write_eof()

    def half_ends(self) -> bool:
        """Note that one direction of the tunnel is at its end, and return whether the other is not.

        If it is, both connections end.
        """
        if self._state == _TUNNEL:
            self._state = _HALF_A_TUNNEL
            return True
        client, self.client = self.client, None
        self.transport.close()
        if client is not None:
            client.tunnel_closed()
        return False

    def pause(self) -> None:
        self._is_paused = True
        self._read_on()

    def resume(self) -> None:
        self._is_paused = False
        self._read_on()

    def _read_on(self) -> None:
        if self.is_open and (self._is_paused or self._is_busy):
            self.transport.pause_reading()
        elif self.is_open:
            self.transport.resume_reading()

    def release(self) -> None:
        """Wait for the next request, or end."""
        if len(self._idle) < _IDLE_MAX and self.is_open:
            self.sweeps = 0
            self._idle.append(self)
        else:
            self.close()

    def close(self) -> None:
        """End it: nothing that is still under way on it counts any more."""
        self.client = None
        self.transport.abort()

    def end_of_events(self) -> bytes | None:
        """Return what ends the response in order, if it is a stream of events; None if it can't be ended
        now.
        """
        if self._state != _BODY or not self._is_event_stream:
            return None
        if type(self._body) is not Chunked:
            return b"" if type(self._body) is UntilClose else None
        if self._buffer or not self._body.is_between_chunks:
            return None
        return b"0\r\n\r\n" if self._body.is_as_it_came else b""

    def is_between_frames(self) -> bool:
        """Whether the tunnel can be ended here, as far as can be told since this was asked first."""
        tunnel = self.transport.get_protocol()
        if isinstance(tunnel, WatchedTunnel):
            return tunnel.is_between_frames
        if isinstance(tunnel, Tunnel):
            self.transport.set_protocol(WatchedTunnel(tunnel))
        return False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.write = self.transport.write

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None and not self._was_used:  # whoever it was opened for asks in a moment
            self._spoke_first = True
            self._buffer += data
        elif client is None:  # a server that speaks unasked
            self._forget()
            self.close()
        else:
            try:
                if self._state == _BODY:
                    self._relay(client, self._buffer + data if self._buffer else data)
                else:
                    self._saw_bytes = True
                    self._read_head(client, self._buffer + data if self._buffer else data)
            except Malformed as error:
                self.close()
                client.upstream_failed(str(error))

    def eof_received(self) -> bool:
        client = self.client
        if client is not None and self._state >= _TUNNEL:
            client.half_close()
            return self.half_ends()
        if client is not None and self._state == _BODY and type(self._body) is UntilClose:
            self.client = None
            client.response_done(self, reusable=False)
        elif client is not None:
            self.transport.abort()  # whatever is still to be sent to it, no answer will come
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self.client is not None and self._state < _TUNNEL and not self._was_used:
            self._read_last_bytes(was_reset=isinstance(error, ConnectionResetError))
        client, self.client = self.client, None
        if client is None:
            self._forget()
        elif self._state >= _TUNNEL:
            client.tunnel_closed()
        else:
            client.upstream_lost(may_retry=self._was_used and not self._saw_bytes)

    def pause_writing(self) -> None:
        if self.client is not None:
            self.client.upstream_takes(more=False)

    def resume_writing(self) -> None:
        if self.client is not None:
            self.client.upstream_takes(more=True)

    # Responses.

    def _read_last_bytes(self, *, was_reset: bool) -> None:
        """Take what came before the connection broke: a server may answer and close before it reads.

        The write that failed may have been quicker than reading, and the socket is open until this returns.
        What is taken is bounded: a server on a unix socket that merely refuses to be written to could go on
        answering for ever.
        """
        socket = self.transport.get_extra_info("socket").fileno()
        last = part = b""
        try:
            while len(last) < _LAST_BYTES_MAX and (part := os.read(socket, _LAST_BYTES_MAX)):
                last += part
            self._ended_in_order = not part and not was_reset
        except OSError:  # it was reset, or has no end yet
            pass
        if last or self._buffer:
            self.data_received(last)
        if self._ended_in_order:
            self.eof_received()

    def _read_head(self, client: Client, data: bytes) -> None:
        request, target = client.head, client.target
        assert target is not None
        start, searched, self._searched = 0, self._searched, 0
        while True:
            end = data.find(HEAD_END, max(start, searched - len(HEAD_END) + 1)) + len(HEAD_END)
            is_there = end >= len(HEAD_END)
            if (end if is_there else len(data)) - start > _HEAD_BYTES_MAX:
                raise Malformed("a head without an end")
            if not is_there:
                self._buffer = data[start:]
                self._searched = len(self._buffer)
                return
            raw = data[start:end]
            head = target.heads.get(raw) or _read_new(target, raw, request)
            if not head.is_interim:
                break
            self._interims += 1
            if self._interims > _INTERIMS_MAX:
                raise Malformed("more interim answers than anybody needs")
            if not request.block.is_http_1_0:
                client.write(head.to_client(None, closes=False))
            start = end
        self._buffer = b""
        if head.status == 101:  # noqa: PLR2004
            self._switch(client, head, data[end:])
            return
        self._begin_body(client, head, data, end)

    def _begin_body(self, client: Client, head: ResponseHead, data: bytes, start: int) -> None:
        request, target = client.head, client.target
        assert target is not None
        decodes = request.block.is_http_1_0
        body: Body | EditedBody | None = edited_body(request, head)
        is_edited = body is not None
        body = self._body = body or head.body(to_head=request.method == b"HEAD", decodes=decodes)
        self._state = _BODY
        self._is_event_stream = head.is_event_stream
        if not head.keeps_alive:
            target.is_leaving = True
        # One that spoke before it was asked may answer once more when it reads what it was asked.
        self._keeps_alive = head.keeps_alive and not self._spoke_first
        stop = self._take(data, start)
        if not body.done and not self.is_open and not (type(body) is UntilClose and self._ended_in_order):
            raise Malformed("half an answer")
        closes = client.response_begins(ends_with_connection=type(body) is UntilClose)
        request_id = None if target.mount is None else client.request_id
        if is_edited:
            first = head.to_client_edited(request_id, closes=closes)
        else:
            first = head.to_client(request_id, closes=closes, decodes=decodes)
        if request.answer_change is not None:
            first = request.answer_change.apply(first)
        if stop <= _JOIN_BYTES_MAX or is_edited or (type(body) is Chunked and not body.is_as_it_came):
            client.write(first + _passed_on(body, data, start, stop))
        else:
            client.writelines((first, memoryview(data)[start:stop]))
        self._continue(client, data[stop:])

    def _relay(self, client: Client, data: bytes) -> None:
        stop = self._take(data, 0)
        client.write(_passed_on(self._body, data, 0, stop))
        self._continue(client, data[stop:])

    def _relay_more(self) -> None:
        """Go on with what has come: somebody else's turn was between."""
        self._is_busy = False
        if self.client is not None and self.is_open:
            self.data_received(b"")
        self._read_on()

    def _take(self, data: bytes, start: int) -> int:
        """Return how far the body's part of it was read by now: so far at once, but all of what came last."""
        stop = self._body.take(data, start)
        while self._body.has_more and not self.is_open:
            stop = self._body.take(data, stop)
        return stop

    def _continue(self, client: Client, rest: bytes) -> None:
        """End the exchange if the body has ended, or keep the part of it that is not all there."""
        if not self._body.done:
            self._buffer = rest
            if self._body.has_more:
                self._is_busy = True
                self._read_on()
                asyncio.get_running_loop().call_soon(self._relay_more)
            return
        self._buffer = b""
        self.client = None
        self._state = _WAITS
        self._was_used = True
        client.response_done(self, reusable=self._keeps_alive and not rest)

    def _switch(self, client: Client, head: ResponseHead, rest: bytes) -> None:
        wanted = client.head.upgrade
        if wanted is None or head.upgrade.lower() != wanted.lower():
            raise Malformed("a switch of protocols that was not asked for")
        self._state = _TUNNEL
        write_down = client.tunnel_begins(head.to_client(client.request_id, closes=False), rest)
        self.transport.set_protocol(Tunnel(self, write_down))

    def _forget(self) -> None:
        if self in self._idle:
            self._idle.remove(self)


def _passed_on(body: Body | EditedBody, data: bytes, start: int, stop: int) -> bytes:
    """Return what the client is given of the body's part that was just taken."""
    if type(body) is Chunked or type(body) is EditedBody:
        return body.passed_on(data, start, stop)
    return data if not start and stop == len(data) else data[start:stop]


def _read_new(target: Target, raw: bytes, request: RequestHead) -> ResponseHead:
    head = ResponseHead(raw, target.mount, request.rules, strips=target.strips)
    if len(raw) <= _REMEMBERED_BYTES_MAX:  # a server chooses them, and every target remembers its own
        if len(target.heads) >= _HEADS_MAX:
            target.heads.clear()
        target.heads[raw] = head
    return head
