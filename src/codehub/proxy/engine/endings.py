"""How one client's connection ends: its exchange, or all of it; what was begun is answered, closed or cut."""

import asyncio
import math
from typing import TYPE_CHECKING

from codehub.proxy.engine.context import Context
from codehub.proxy.engine.forwarded import Sender
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer, SocketMonitor, Target
from codehub.proxy.engine.transport import ClientTransport
from codehub.proxy.engine.websocket import GOING_AWAY

if TYPE_CHECKING:
    from codehub.proxy.engine.runtime import Task
    from codehub.proxy.engine.upstream import UpstreamConnection

# What it waits for. At the gate it is a connection too; lingering, it reads what nobody wants.
HEAD, GATE, BODY, RESPONSE, TUNNEL, LINGER = range(6)


class Exchange(ClientTransport):
    """The exchange that a connection is in, and every way out of it."""

    __slots__ = (
        "_closes",
        "_context",
        "_is_repeated",
        "_is_websocket",
        "_lingered",
        "_lingers_until",
        "_monitor",
        "_part",
        "_raw",
        "_responds",
        "_searched",
        "_sender",
        "_state",
        "_task",
        "deadline",
        "head",
        "is_stuck",
        "request_id",
        "target",
        "upstream",
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context.limits.ahead_bytes_max)
        self._context = context
        self._sender = Sender(b"")
        self._state = HEAD
        self._part = b""
        self._raw = b""
        self._searched = 0  # so much of the buffer is a head that has no end yet
        self._task: Task | None = None
        self.upstream: UpstreamConnection | None = None
        self._closes = False  # after this response
        self._responds = False  # something of this response was sent
        self._is_repeated = False  # it was asked for twice
        self._is_websocket = False
        self._lingered = 0
        self._lingers_until = math.inf
        self._monitor: SocketMonitor | None = None
        self.is_stuck = False  # the client takes nothing more for now
        self.deadline = math.inf
        self.head = RequestHead(context.blocks)
        self.request_id = b""
        self.target: Target | None = None

    def expire(self) -> None:
        """Its time is up."""
        if self._state == HEAD and self._buffer:
            self._refuse(self._context.answers.timed_out())
        elif self._state == BODY:
            self._give_up(self._context.answers.timed_out())
        else:
            self.abort()

    def revoke(self) -> None:
        """Whoever this is may no longer be here, or the workspace is gone."""
        if self._state in (BODY, RESPONSE, TUNNEL):
            self.abort()

    def leave(self) -> None:
        """Begin nothing new: end now if nothing is under way, else after it.

        A stream of events has no end of its own, and its reader comes back to another process: it ends as
        soon as it can in order.
        """
        self._closes = True
        if self._state == HEAD and not self._buffer:
            self._leave()
        elif self._state == RESPONSE and self.upstream is not None:
            last = self.upstream.end_of_events()
            if last is not None:
                self.write(last)
                self._drop_upstream()
                self._end_exchange()

    def end(self) -> None:
        """There is no more time: say so, if it can be said, and end. Asked again and
        again until it has ended: a WebSocket ends between two frames.
        """
        if self._state == TUNNEL and self._is_websocket and self.upstream is not None:
            if self.upstream.is_between_frames():
                self._end_websocket()
        elif self._state == GATE:
            if self._task is not None:
                self._task.cancel()
                self._task = None
            self._give_up(self._context.answers.undecided())
        elif self._state in (BODY, RESPONSE):
            self._give_up(self._context.answers.no_response())
        elif self._state != LINGER:
            self.abort()

    def _end_websocket(self) -> None:
        """Tell the client that its server goes away, and read until it has closed, too."""
        assert self.transport is not None
        self.write(GOING_AWAY)
        self._drop_upstream()
        self.transport.set_protocol(self)
        self._begin_lingering()

    def _answer(self, answer: Answer) -> None:
        if self._is_over:
            return
        self._closes = self._closes or answer.closes or not self.head.body.done or self._context.is_leaving
        self._responds = True
        to_head = self.head.method == b"HEAD"
        self.write(answer.to_client(self.request_id, to_head=to_head, closes=self._closes))
        self._end_exchange()

    def _give_up(self, answer: Answer) -> None:
        """Let go of the upstream and say why, or cut what was begun."""
        self._drop_upstream()
        if self._responds:
            self.abort()
        else:
            self._answer(answer)

    def _refuse(self, answer: Answer) -> None:
        """Answer what can't be read on from: the connection ends with it."""
        self._closes = True
        self.write(answer.to_client(self._context.new_request_id(), to_head=False, closes=True))
        self._buffer = b"unread"
        self._end_exchange()

    def _end_exchange(self) -> None:
        self.target = None
        self._raw = b""
        if self._closes:
            if self.head.body.done and not self._buffer and self._reads:
                self._leave()
            else:
                self._begin_lingering()
            return
        self._state = HEAD
        self._responds = False
        self.deadline = self._context.now + self._context.limits.idle_s_max
        if not self._reads:
            self._read_on()
        if self._buffer:
            asyncio.get_running_loop().call_soon(self._read_rest)

    def _read_rest(self) -> None:
        """Go on with what has come."""
        raise NotImplementedError

    def _leave(self) -> None:
        """End it once the client has taken what was written, if it does."""
        self._state = LINGER
        self.deadline = self._context.now + self._context.limits.stall_s_max
        self._close()

    def _begin_lingering(self) -> None:
        """Let the client read the answer: closing with its bytes unread would reset the connection.

        Many read nothing before they have sent everything: this lasts while something comes, but not for
        ever.
        """
        self._state = LINGER
        self._buffer = b""
        self._lingers_until = self._context.now + self._context.limits.linger_s_max
        self.deadline = self._patience()
        self.half_close()
        self._read_on()

    def _patience(self) -> float:
        """Return until when a client may be silent."""
        limits = self._context.limits
        if self.is_stuck:
            return self._context.now + limits.stall_s_max
        if self._state == HEAD:
            return self._context.now + (limits.head_s_max if self._buffer else limits.idle_s_max)
        if self._state == LINGER:
            return min(self._context.now + limits.linger_silence_s_max, self._lingers_until)
        is_late = self._state == BODY and not self._held  # if nothing comes
        return self._context.now + limits.body_silence_s_max if is_late else math.inf

    def _drop_upstream(self) -> None:
        upstream, self.upstream = self.upstream, None
        self._held = False
        if upstream is not None:
            upstream.close()
