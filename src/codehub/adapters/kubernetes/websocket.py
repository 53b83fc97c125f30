"""A WebSocket to the API: messages go in and come out whole. Refuses
a server that does not speak the protocol asked for.

Only what Kubernetes needs of RFC 6455: binary messages, no extensions.
"""

import asyncio
import base64
import os
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

import httptools

from codehub.adapters.http import Tls, notice_silent_end, request_head
from codehub.ports.instances import TcpUpstream

_BUFFER_BYTES = 1 << 18
_MESSAGE_BYTES_MAX = 1 << 24
_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x2, 0x8, 0x9, 0xA
_LAST, _MASKED = 0x80, 0x80
_LENGTH_16, _LENGTH_64 = 126, 127
_LONG, _LONGER = struct.Struct(">H"), struct.Struct(">Q")


class NotUpgraded(Exception):
    """The server answers by HTTP instead, mostly a refusal."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"({status})")
        self.status = status
        self.body = body


class WebSocket:
    """An open connection. One reads while another writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._unread = bytearray()
        self._message = bytearray()

    async def receive(self) -> bytes | None:
        """Return the next message; None when the server has closed in good order. Raises OSError for a cut.

        A caller that is cancelled loses nothing of it.
        """
        while True:
            while (frame := self._take_frame()) is not None:
                first, payload = frame
                kind = first & 0x0F
                if kind == _CLOSE:
                    return None
                if kind == _PING:
                    await self._send(_PONG, payload)
                elif kind in (_BINARY, _CONTINUATION) and (message := self._add(first, payload)) is not None:
                    return message
            part = await self._reader.read(_BUFFER_BYTES)
            if not part:
                raise ConnectionError("it hung up")
            self._unread += part

    async def send(self, message: bytes) -> None:
        """Return when the connection takes more. Raises OSError for a cut."""
        await self._send(_BINARY, message)

    def abort(self) -> None:
        """Cut it: whoever reads or writes is told."""
        self._writer.transport.abort()

    async def _send(self, kind: int, payload: bytes) -> None:
        mask = os.urandom(4)
        self._writer.write(_head(kind, len(payload)) + mask + _apply_mask(payload, mask))
        await self._writer.drain()

    def _add(self, first: int, payload: bytes) -> bytes | None:
        """Return a message that this frame completes."""
        self._message += payload
        if len(self._message) > _MESSAGE_BYTES_MAX:
            raise ConnectionError("it sends a message that is too long")
        if not first & _LAST:
            return None
        message, self._message = bytes(self._message), bytearray()
        return message

    def _take_frame(self) -> tuple[int, bytes] | None:
        """Return the next frame if all of it is there: its first byte and its payload."""
        unread, begin = self._unread, 2
        if len(unread) < begin:
            return None
        first, length = unread[0], unread[1]
        extended = {_LENGTH_16: _LONG, _LENGTH_64: _LONGER}.get(length)
        if extended is not None:
            if len(unread) < begin + extended.size:
                return None
            (length,) = extended.unpack_from(unread, begin)
            begin += extended.size
        elif length & _MASKED:
            raise ConnectionError("it sends what is no frame")
        if length > _MESSAGE_BYTES_MAX:
            raise ConnectionError("it sends a message that is too long")
        if len(unread) < begin + length:
            return None
        payload = bytes(unread[begin : begin + length])
        del unread[: begin + length]
        return first, payload


@asynccontextmanager
async def connect(
    upstream: TcpUpstream,
    tls: Tls,
    target: str,
    *,
    host: str,
    protocol: str,
    headers: Mapping[str, str],
    within_s: float,
) -> AsyncIterator[WebSocket]:
    """Yield an open connection. Raises NotUpgraded, or OSError."""
    async with asyncio.timeout(within_s):
        reader, writer = await asyncio.open_connection(
            upstream.host,
            upstream.port,
            ssl=tls.context,
            server_hostname=tls.server_name,
            limit=_BUFFER_BYTES,
        )
    try:
        notice_silent_end(writer.transport)
        async with asyncio.timeout(within_s):
            await _upgrade(reader, writer, target, host, protocol, headers)
        yield WebSocket(reader, writer)
    finally:
        writer.transport.abort()


async def _upgrade(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: str,
    host: str,
    protocol: str,
    headers: Mapping[str, str],
) -> None:
    asked = {
        **headers,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": protocol,
    }
    writer.write(request_head("GET", target, host, asked))
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    try:
        parser.feed_data(await reader.readuntil(b"\r\n\r\n"))
        while not answer.is_complete:
            part = await reader.read(_BUFFER_BYTES)
            if not part:
                break
            parser.feed_data(part)
    except httptools.HttpParserUpgrade:
        pass
    except (httptools.HttpParserError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ConnectionError(f"its answer can't be read: {error}") from None
    if parser.get_status_code() != HTTPStatus.SWITCHING_PROTOCOLS:
        raise NotUpgraded(parser.get_status_code(), bytes(answer.body))
    if answer.protocol != protocol:
        raise ConnectionError(f"it speaks {answer.protocol or 'another protocol'}, not {protocol}")


class _Answer:
    """What a server answers to an upgrade."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.protocol = ""
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"sec-websocket-protocol":
            self.protocol = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


def _head(kind: int, length: int) -> bytes:
    if length < _LENGTH_16:
        return struct.pack(">BB", _LAST | kind, _MASKED | length)
    if length < 1 << 16:
        return struct.pack(">BBH", _LAST | kind, _MASKED | _LENGTH_16, length)
    return struct.pack(">BBQ", _LAST | kind, _MASKED | _LENGTH_64, length)


def _apply_mask(payload: bytes, mask: bytes) -> bytes:
    """XOR as one large number: a loop over the bytes would cost a hundred times as much."""
    length = len(payload)
    repeated = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")
