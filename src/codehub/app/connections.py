"""HTTP connections with limits: a request's head must be complete soon, and of limited size (security 18)."""

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_BYTES_MAX = 65_536
HEAD_S_MAX = 20.0


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's, with a limit on heads, and a way for the application to abort a connection whose client
    reads nothing.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: TimerHandle | None = None
        self._head_bytes = 0
        self._is_in_head = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if self._head_timer is None and (cycle is None or cycle.response_complete):
            self._await_head()
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self.send_400_response("The request's head is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self.scope["extensions"] = {"codehub.abort": {"abort": self._abort}}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header.

        Trailers are ignored, though uvicorn would add them: only the head identifies the sender (security 5).
        """
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _abort(self) -> None:
        """Abort the connection.

        Its cycle is told first: otherwise uvicorn logs the unfinished answer as an error.
        """
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S_MAX, self._too_slow)

    def _end_head(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.abort()
