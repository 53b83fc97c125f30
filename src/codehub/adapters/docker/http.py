"""Plain questions go in, the engine's whole answers come out, over connections that are kept. Raises OSError where it can't be asked.

Not by aiohttp: a start asks a dozen small questions, and each cost it twice as much.
"""

import asyncio
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

DEFAULT_URL = "unix:///var/run/docker.sock"
_KEPT_MAX = 8


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
        question = (
            f"{method} /{target} HTTP/1.1\r\nHost: docker\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        while self._kept:
            kept = self._kept.pop()
            if not kept.is_open:
                continue
            try:
                return await self._asked(kept, question)
            except _NotHeard:
                if method != "GET":
                    raise
        return await self._asked(await self._connected(), question)

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

    async def _connected(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        parts = urlsplit(self._url)
        if parts.scheme == "unix":
            _, made = await loop.create_unix_connection(_Connection, parts.path)
        elif parts.scheme in ("tcp", "http") and parts.hostname is not None:
            _, made = await loop.create_connection(_Connection, parts.hostname, parts.port or 2375)
        else:
            raise OSError("it is no unix:// or tcp:// address of this machine")
        return made


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
