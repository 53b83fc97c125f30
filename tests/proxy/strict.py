"""A reader of HTTP/1.1 that knows one reading of a message and no other.
Bytes go in, messages come out; it shares nothing with the proxy.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TEXT = rb"[\t\x20-\x7e\x80-\xff]*"
_REQUEST_LINE = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/(1\.[01])")
_STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9][0-9])(?: " + _TEXT + rb")?")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):(" + _TEXT + rb")")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;" + _TEXT + rb")?")
_DIGITS = re.compile(rb"[0-9]+")
_HOST = re.compile(rb"[A-Za-z0-9.:\[\]_~-]+")
_WITHOUT_CONTENT = (b"204", b"304")
_NEVER_TRAILERS = frozenset(b"content-length transfer-encoding host cookie set-cookie authorization".split())
Fields = tuple[tuple[bytes, bytes], ...]


class Wrong(Exception):
    """This is no message, or two servers might take it for two. Holds what there is of its content."""

    def __init__(self, why: str, content: bytes = b"") -> None:
        super().__init__(why)
        self.content = content


class Short(Exception):
    """The bytes end before the message does. Holds what there is of its content."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__()
        self.content = content


@dataclass(frozen=True, slots=True)
class Head:
    start: tuple[bytes, ...]
    """Method, target and version; or version and status."""
    fields: Fields
    """Names in lower case."""
    end: int

    def all(self, name: bytes) -> list[bytes]:
        return [value for known, value in self.fields if known == name]

    def options(self, name: bytes) -> set[bytes]:
        return {option.strip().lower() for value in self.all(name) for option in value.split(b",")}


@dataclass(frozen=True, slots=True)
class Message:
    head: Head
    content: bytes
    trailers: Fields
    end: int


@dataclass(frozen=True, slots=True)
class Response:
    interim: Sequence[bytes]
    """The statuses of those that came before."""
    message: Message
    ends_with_connection: bool


def request_head_at(data: bytes, at: int) -> Head:
    """Raises Wrong and Short."""
    head = _head_at(data, at, _REQUEST_LINE)
    hosts = head.all(b"host")
    if len(hosts) > 1 or (not hosts and head.start[2] == b"1.1"):
        raise Wrong("not one Host")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise Wrong("a Host that is none")
    _length(head)
    return head


def request_at(data: bytes, at: int) -> Message:
    head = request_head_at(data, at)
    return _body(head, data, _length(head) or 0)


def response_at(data: bytes, method: bytes, *, is_over: bool) -> Response:
    """Read the response to such a request. `is_over`: its connection has ended, and nothing was lost."""
    at = 0
    interim: list[bytes] = []
    while True:
        head = _head_at(data, at, _STATUS_LINE)
        status = head.start[1]
        if status == b"101" or not status.startswith(b"1"):
            break
        interim.append(status)
        at = head.end
    length = _length(head)
    if method == b"HEAD" or status in _WITHOUT_CONTENT or status == b"101":
        return Response(interim, Message(head, b"", (), head.end), ends_with_connection=False)
    if length is not None or head.all(b"transfer-encoding"):
        return Response(interim, _body(head, data, length or 0), ends_with_connection=False)
    if not is_over:
        raise Short(data[head.end :])
    return Response(interim, Message(head, data[head.end :], (), len(data)), ends_with_connection=True)


def skip_empty_lines(data: bytes, at: int) -> int:
    while data.startswith(b"\r\n", at):
        at += 2
    return at


def _head_at(data: bytes, at: int, first: re.Pattern[bytes]) -> Head:
    end = data.find(b"\r\n\r\n", at)
    if end < 0:
        raise Short
    start, *lines = data[at:end].split(b"\r\n")
    match = first.fullmatch(start)
    if match is None:
        raise Wrong(f"no first line: {start!r}")
    return Head(match.groups(), tuple(map(_field, lines)), end + 4)


def _field(line: bytes, content: bytes = b"") -> tuple[bytes, bytes]:
    match = _FIELD.fullmatch(line)
    if match is None:
        raise Wrong(f"no field: {line!r}", content)
    return match[1].lower(), match[2].strip(b" \t")


def _length(head: Head) -> int | None:
    lengths, codings = head.all(b"content-length"), head.all(b"transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise Wrong("more than one framing")
    if codings and (codings[0].lower() != b"chunked" or b"1.0" in head.start):
        raise Wrong("a coding that nobody asked for")
    if lengths and not _DIGITS.fullmatch(lengths[0]):
        raise Wrong("a length that is no number")
    return int(lengths[0]) if lengths else None


def _body(head: Head, data: bytes, length: int) -> Message:
    if head.all(b"transfer-encoding"):
        return _chunks(head, data)
    end = head.end + length
    if len(data) < end:
        raise Short(data[head.end :])
    return Message(head, data[head.end : end], (), end)


def _chunks(head: Head, data: bytes) -> Message:
    at = head.end
    content = b""
    while True:
        line, at = _line(data, at, content)
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise Wrong(f"no chunk's size: {line!r}", content)
        size = int(match[1], 16)
        if size == 0:
            break
        content += data[at : at + size]
        at += size
        if len(data) < at + 2:
            raise Short(content)
        if data[at : at + 2] != b"\r\n":
            raise Wrong("a chunk that does not end where it says", content)
        at += 2
    trailers: list[tuple[bytes, bytes]] = []
    while True:
        line, at = _line(data, at, content)
        if not line:
            return Message(head, content, tuple(trailers), at)
        trailers.append(_field(line, content))
        if trailers[-1][0] in _NEVER_TRAILERS:
            raise Wrong("a trailer that frames or signs in", content)


def _line(data: bytes, at: int, content: bytes) -> tuple[bytes, int]:
    end = data.find(b"\n", at)
    if end < 0:
        raise Short(content)
    if end == at or data[end - 1 : end] != b"\r":
        raise Wrong("a line that ends without CR", content)
    return data[at : end - 1], end + 1
