"""HTTP on the event loop: whole answers over connections that are kept,
an answer as it comes, or its status alone. Raises OSError.

Of our own, over httptools: a start asks Docker a dozen small questions, and each cost a
general client three times as much at least (docs/adr/0032-two-http-clients.md).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar, cast

import httptools

from codehub.ports.instances import UnixUpstream, Upstream

_KEPT_MAX = 8
_LINE_BYTES_MAX = 1 << 20
_HEAD_BYTES_MAX = 1 << 16
_ENDS = (b"content-length", b"transfer-encoding")
_JSON = {"Content-Type": "application/json"}
# A server that is gone without a word is noticed after half a minute, whatever is asked of it.
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By lower-case name."""


@dataclass(frozen=True, slots=True)
class Tls:
    """What secures a connection, and the name that the server's certificate must bear."""

    context: ssl.SSLContext
    server_name: str


class HttpPool:
    """A pool of connections to one server, which is called `host`."""

    def __init__(
        self, upstream: Upstream, *, host: str, tls: Tls | None = None, kept_max: int = _KEPT_MAX
    ) -> None:
        self._upstream = upstream
        self._host = host
        self._tls = tls
        self._kept_max = kept_max
        self._kept: list[_Whole] = []

    def close(self) -> None:
        while self._kept:
            self._kept.pop().hang_up()

    async def ask(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] = _JSON
    ) -> Answer:
        """Ask one thing. A kept connection that the server has ended
        meanwhile is replaced, if asking twice changes nothing.
        """
        headers = {**headers, "Content-Length": str(len(body))}
        question = request_head(method, target, self._host, headers) + body
        while self._kept:
            kept = self._kept.pop()
            if not kept.is_open:
                continue
            try:
                return await self._ask_or_close(kept, question)
            except _NotHeard:
                if method != "GET":
                    raise
        _, connection = await _connect(self._upstream, _Whole, self._tls)
        return await self._ask_or_close(connection, question)

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
        """Ask one thing over a connection of its own, and yield the
        status and the body as it comes, however long that takes.
        """
        transport, connection = await _connect(self._upstream, _Stream, self._tls)
        try:
            transport.write(request_head(method, target, self._host, {"Content-Length": "0", **headers}))
            yield await connection.answered, connection.body
        finally:
            transport.abort()

    async def _ask_or_close(self, connection: "_Whole", question: bytes) -> Answer:
        try:
            answer = await connection.ask(question)
        except BaseException:
            connection.hang_up()  # what still comes would be taken for the next answer
            raise
        if connection.is_open and len(self._kept) < self._kept_max:
            self._kept.append(connection)
        else:
            connection.hang_up()
        return answer


async def ask_status(upstream: Upstream, target: str, *, host: str) -> int:
    """Return the status of an answer whose rest is not read, however long it may be."""
    transport, connection = await _connect(upstream, _Status)
    try:
        transport.write(request_head("GET", target, host, {"Connection": "close"}))
        return await connection.answered
    finally:
        transport.abort()


P = TypeVar("P", bound=asyncio.Protocol)


async def _connect(
    upstream: Upstream, kind: Callable[[], P], tls: Tls | None = None
) -> tuple[asyncio.Transport, P]:
    loop = asyncio.get_running_loop()
    if isinstance(upstream, UnixUpstream):
        return await loop.create_unix_connection(kind, str(upstream.path))
    if tls is None:
        return await loop.create_connection(kind, upstream.host, upstream.port)
    transport, protocol = await loop.create_connection(
        kind, upstream.host, upstream.port, ssl=tls.context, server_hostname=tls.server_name
    )
    notice_silent_end(transport)
    return transport, protocol


def notice_silent_end(transport: asyncio.BaseTransport) -> None:
    """Have the system ask the other side from time to time whether it is still there."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def request_head(method: str, target: str, host: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


class _NotHeard(ConnectionError):
    """The connection ended before any of the answer came."""


class _Reader(asyncio.Protocol):
    """Reads answers. What becomes of their parts, the others say."""

    _parser: httptools.HttpResponseParser | None = None

    def data_received(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"its answer can't be read: {error}"))

    def _fail(self, error: ConnectionError) -> None:
        raise NotImplementedError


class _Whole(_Reader):
    """One question at a time, and its whole answer. One that has no
    length, and ends with the connection, counts as half of one.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._has_begun = False

    async def ask(self, question: bytes) -> Answer:
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._parts.clear()
        self._headers = {}
        self._has_begun = False
        self._transport.write(question)
        return await self._answered

    def hang_up(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.hang_up()  # an answer that nobody asked for
            return
        self._has_begun = True
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        kind = ConnectionError if self._has_begun else _NotHeard
        self._fail(kind(str(exc or "it hung up")))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        self.is_open = self.is_open and self._parser.should_keep_alive()
        self._parser = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(Answer(status, b"".join(self._parts), self._headers))

    def _fail(self, error: ConnectionError) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)


class _Status(_Reader):
    """The status of an answer. Hundreds are asked at once, and nobody has bounded what they say."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._heard_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._heard_bytes += len(data)
        if self._heard_bytes > _HEAD_BYTES_MAX and not self.answered.done():
            self._fail(ConnectionError("its answer does not begin"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionError(str(exc or "it hung up")))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status >= HTTPStatus.OK and not self.answered.done():
            self.answered.set_result(status)

    def _fail(self, error: ConnectionError) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)


class _Stream(_Status):
    """One answer as it comes. The reader slows the server down where nobody takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
        self._says_its_end = False
        self._is_complete = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.body.set_transport(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_complete and (exc is not None or self._says_its_end):
            self._fail(ConnectionError(str(exc or "it hung up")))
        elif not self.answered.done():
            self._fail(ConnectionError("it hung up"))
        self.body.feed_eof()

    def on_header(self, name: bytes, value: bytes) -> None:
        del value
        self._says_its_end |= name.lower() in _ENDS

    def on_body(self, body: bytes) -> None:
        self.body.feed_data(body)

    def on_message_complete(self) -> None:
        self._is_complete = True
        self.body.feed_eof()

    def _fail(self, error: ConnectionError) -> None:
        if self.answered.done():
            self.body.set_exception(error)
        else:
            self.answered.set_exception(error)
