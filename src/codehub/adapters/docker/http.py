"""HTTP to the Docker engine: whole answers over connections that are kept, or an answer as it comes. Raises OSError where it can't be asked.

Of our own, over httptools: a start asks a dozen small questions, and each cost a general client twice as much.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar, cast
from urllib.parse import urlsplit

import httptools

DEFAULT_URL = "unix:///var/run/docker.sock"
_KEPT_MAX = 8
_LINE_BYTES_MAX = 1 << 20
P = TypeVar("P", bound=asyncio.Protocol)


def mark_of(installation: str) -> str:
    """Return the name of the volume that marks an engine as an installation's."""
    return f"codehub-{installation}"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


class DockerHttp:
    """A pool of connections to one engine of this machine: unix:// or tcp://."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._kept: list[_Connection] = []

    def close(self) -> None:
        while self._kept:
            self._kept.pop().hang_up()

    async def ask(self, method: str, target: str, body: bytes) -> Answer:
        """Ask one thing. A kept connection that the engine has ended meanwhile is replaced, if asking twice changes nothing."""
        question = _request(method, target, body)
        while self._kept:
            kept = self._kept.pop()
            if not kept.is_open:
                continue
            try:
                return await self._asked(kept, question)
            except _NotHeard:
                if method != "GET":
                    raise
        _, connection = await self._connect(_Connection)
        return await self._asked(connection, question)

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
        """Ask one thing over a connection of its own, and yield the status and the body as it comes, however long that takes."""
        transport, connection = await self._connect(_Stream)
        try:
            transport.write(_request(method, target, b"", headers))
            yield await connection.answered, connection.body
        finally:
            transport.abort()

    async def _asked(self, connection: "_Connection", question: bytes) -> Answer:
        try:
            answer = await connection.ask(question)
        except BaseException:
            connection.hang_up()  # what still comes would be taken for the next answer
            raise
        if connection.is_open and len(self._kept) < _KEPT_MAX:
            self._kept.append(connection)
        else:
            connection.hang_up()
        return answer

    async def _connect(self, kind: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        parts = urlsplit(self._url)
        if parts.scheme == "unix":
            transport, protocol = await loop.create_unix_connection(kind, parts.path)
        elif parts.scheme in ("tcp", "http") and parts.hostname is not None:
            transport, protocol = await loop.create_connection(kind, parts.hostname, parts.port or 2375)
        else:
            raise OSError("it is no unix:// or tcp:// address of this machine")
        return transport, protocol


def _request(method: str, target: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [
        f"{method} /{target} HTTP/1.1",
        "Host: docker",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _NotHeard(ConnectionError):
    """The connection ended before any of the answer came."""


class _Connection(asyncio.Protocol):
    """One question at a time."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._parts: list[bytes] = []
        self._has_begun = False

    async def ask(self, question: bytes) -> Answer:
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._parts.clear()
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
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"its answer can't be read: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        kind = ConnectionError if self._has_begun else _NotHeard
        self._fail(kind(str(exc or "it hung up")))

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        self.is_open = self.is_open and self._parser.should_keep_alive()
        self._parser = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(Answer(status, b"".join(self._parts)))

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)


class _Stream(asyncio.Protocol):
    """One answer as it comes. The reader slows the engine down where nobody takes it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[int] = loop.create_future()
        self.body = asyncio.StreamReader(limit=_LINE_BYTES_MAX, loop=loop)
        self._parser = httptools.HttpResponseParser(self)
        self._says_its_end = False
        self._is_complete = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.body.set_transport(transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"its answer can't be read: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_complete and (exc is not None or self._says_its_end):
            self._fail(ConnectionError(str(exc or "it hung up")))
        elif not self.answered.done():
            self._fail(ConnectionError("it hung up"))
        self.body.feed_eof()

    def on_header(self, name: bytes, value: bytes) -> None:
        del value
        self._says_its_end |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= HTTPStatus.OK and not self.answered.done():
            self.answered.set_result(status)

    def on_body(self, body: bytes) -> None:
        self.body.feed_data(body)

    def on_message_complete(self) -> None:
        self._is_complete = True
        self.body.feed_eof()

    def _fail(self, error: Exception) -> None:
        if self.answered.done():
            self.body.set_exception(error)
        else:
            self.answered.set_exception(error)
