"""One client's connection: nothing of a request goes anywhere before it was parsed and admitted."""

import asyncio
import math
from collections.abc import Awaitable

from codehub.proxy.engine.connect import await_decision, connect
from codehub.proxy.engine.endings import BODY, GATE, HEAD, LINGER, RESPONSE, TUNNEL, Exchange
from codehub.proxy.engine.heads import Refused, find_head
from codehub.proxy.engine.http_body import Malformed
from codehub.proxy.engine.requests import NO_HEAD
from codehub.proxy.engine.targets import Answer, Target, count_traffic
from codehub.proxy.engine.tunnel import Tunnel, Write
from codehub.proxy.engine.upstream import UpstreamConnection


class ClientConnection(Exchange):
    __slots__ = ()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._sender = self._context.sender(
            transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        )
        self._context.connections.add(self)
        self.deadline = self._context.now + self._context.limits.head_s_max

    def connection_lost(self, _error: Exception | None) -> None:
        self._context.connections.discard(self)
        if self._task is not None:
            self._task.cancel()
        self._drop_upstream()
        self._state = LINGER
        if self._monitor is not None:
            self._monitor.close()

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state == HEAD:
            self._next(self._buffer + data if self._buffer else data)
        elif state == BODY:
            self._send_body(self._buffer + data if self._buffer else data)
        elif state == LINGER:
            self._lingered += len(data)
            if self._lingered > self._context.limits.linger_bytes_max:
                self.abort()
            elif not self.is_stuck:
                self.deadline = self._patience()
        else:
            self._buffer += data
            self._read_on()

    def eof_received(self) -> bool:
        if self._state == TUNNEL:
            assert self.upstream is not None
            self.upstream.write_eof()
            return self.upstream.half_ends()
        if self._state == RESPONSE or (self._state == GATE and self.head.body.done):
            # It may wait for its response; one that has gone away is not waited for long.
            self._closes = True
            if not self._responds:
                self.deadline = self._context.now + self._context.limits.half_closed_s_max
            return True
        return False

    def pause_writing(self) -> None:
        self.is_stuck = True
        self.deadline = self._patience()
        if self.upstream is not None:
            self.upstream.pause()

    def resume_writing(self) -> None:
        self.is_stuck = False
        self._lingers_until = self._context.now + self._context.limits.linger_s_max  # if it does
        self.deadline = self._patience()
        if self.upstream is not None:
            self.upstream.resume()

    # Requests.

    def _next(self, data: bytes) -> None:
        """Read the next head, if it is all there, and do as the gate says."""
        head = self.head
        searched, self._searched = self._searched, 0
        try:
            data, end = find_head(data, self._context.limits.head_bytes_max, searched)
            if not end:
                if data and not self._buffer:
                    self.deadline = self._context.now + self._context.limits.head_s_max
                self._buffer, self._searched = data, len(data)
                return
            head.read(data[:end])
            self.request_id = head.request_id = head.block.request_id or self._context.new_request_id()
            stop = end if head.body.done else head.take_body(data, end)
        except Refused as refused:
            self._refuse(self._context.answers.unreadable_request(refused.status, str(refused)))
            return
        except Malformed as malformed:
            self._answer(self._context.refuse_body(malformed))
            return
        self._part = head.passed_on(data, end, stop)
        self._buffer = data[stop:]
        if self._buffer or not self._reads:
            self._read_on()
        self._closes = not head.block.keeps_alive or self._context.is_leaving
        self._responds = self._is_repeated = False
        if not self.is_stuck:
            self.deadline = math.inf
        decision = self._context.gate.admit(head)
        if isinstance(decision, Target):
            self._forward(decision)
        elif isinstance(decision, Answer):
            self._answer(decision)
        else:
            self._state = GATE
            self._task = self._context.tasks.spawn(self._wait_for(decision), name="gate")

    async def _wait_for(self, pending: Awaitable[Target | Answer]) -> None:
        decision = await await_decision(self._context, pending)
        self._task = None
        if isinstance(decision, Target):
            self._forward(decision)
        else:
            self._answer(decision)

    def _forward(self, target: Target) -> None:
        head = self.head
        self.target = target
        if target.monitor is not None:
            target.monitor.note_request(head)
        self._raw = target.request_head(head, self._sender, self.request_id)
        idle = target.idle
        if idle is None:
            idle = target.idle = self._context.pool.idle(target.address)
        while idle and head.is_repeatable:
            upstream = idle.pop()
            if upstream.is_open:
                self._send(upstream)
                return
        self._state = GATE
        self._task = self._context.tasks.spawn(self._connect(target), name="connect")

    async def _connect(self, target: Target) -> None:
        self.target, upstream = await connect(self._context, self.head, target)
        self._task = None
        if isinstance(upstream, Answer):
            self._answer(upstream)
        else:
            self._send(upstream)
            upstream.catch_up()

    def _send(self, upstream: UpstreamConnection) -> None:
        if self._is_over:
            upstream.close()
            return
        self.upstream = upstream
        if self.is_stuck:
            upstream.pause()
        upstream.begin(self, self._raw + self._part if self._part else self._raw)
        self._part = b""
        self._state = RESPONSE if self.head.body.done else BODY
        if self._state == RESPONSE:
            return
        self.deadline = self._patience()
        if self._buffer:
            self._read_rest()
        self._read_on()

    def _send_body(self, data: bytes) -> None:
        body = self.head.body
        try:
            stop = body.take(data, 0)
        except Malformed as malformed:
            self._give_up(self._context.refuse_body(malformed))
            return
        upstream = self.upstream
        assert upstream is not None
        upstream.write(self.head.passed_on(data, 0, stop))
        self._buffer = data[stop:]
        if body.done:
            self._state = RESPONSE
        elif body.has_more:
            self._later(self._read_rest)
        self.deadline = self._patience()

    # What the upstream connection tells.

    def response_begins(self, *, ends_with_connection: bool) -> bool:
        """Return whether the connection is closed after it: an answer to half a request ends it."""
        self._responds = True
        if self._state == RESPONSE and not self.is_stuck:
            self.deadline = math.inf
        self._closes = self._closes or ends_with_connection or self._state == BODY or self._context.is_leaving
        return self._closes

    def response_done(self, upstream: UpstreamConnection, *, reusable: bool) -> None:
        self.upstream, self._held = None, False
        if self.is_stuck:
            upstream.resume()
        if reusable and self._state == RESPONSE:
            upstream.release()
        else:
            upstream.close()
        self._end_exchange()

    def upstream_lost(self, *, may_retry: bool) -> None:
        """It closed too early. A pooled one may have been stale, or another server can answer what is safe to
        ask twice: then it is asked again, once.
        """
        target, head = self.target, self.head
        is_for_twin = target is not None and target.has_twin and head.is_safe and not self._is_repeated
        if target is not None and not self._responds and (is_for_twin or (may_retry and head.is_repeatable)):
            self._is_repeated = self._is_repeated or not may_retry
            self._drop_upstream()
            self._state = GATE
            self._task = self._context.tasks.spawn(self._connect(target), name="connect")
        else:
            self._give_up(self._context.answers.no_response())

    def upstream_failed(self, reason: str) -> None:
        self._give_up(self._context.answers.unreadable_response(reason))

    def upstream_takes(self, *, more: bool) -> None:
        self._held = not more
        self.deadline = self._patience()
        self._read_on()

    def tunnel_begins(self, head: bytes, rest: bytes) -> Write:
        """Answer the upgrade and turn into an end of a tunnel. Returns what takes the other end's bytes."""
        upstream = self.upstream
        assert upstream is not None
        assert self.transport is not None
        self._responds = True
        self._state = TUNNEL
        self._raw = b""
        self._is_websocket = (self.head.upgrade or b"").lower() == b"websocket"
        if self.target is not None and self.target.monitor is not None:
            self._monitor = self.target.monitor.open_socket(self.head)
        self.head = NO_HEAD  # an idle tunnel holds no more than it must
        write_up, write_down = count_traffic(self._monitor, upstream.write, self.write)
        self.write(head)
        if rest:
            write_down(rest)
        waiting, self._buffer = self._buffer, b""
        if waiting:
            write_up(waiting)
        self.transport.set_protocol(Tunnel(self, write_up))
        self._read_on()
        return write_down

    def tunnel_closed(self) -> None:
        self.upstream = None
        self._leave()

    def _read_rest(self) -> None:
        """Go on with what has come: somebody else's turn was between."""
        if self._state in (HEAD, BODY) and self._buffer:
            data, self._buffer = self._buffer, b""
            (self._next if self._state == HEAD else self._send_body)(data)
