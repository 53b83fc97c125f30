"""A response's head: its bytes go in, its framing and the head for the client come out.

An untrusted server can't set what is the site's own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import httptools

from codehub.proxy.engine.heads import LINES_MAX
from codehub.proxy.engine.http_body import NO_BODY, Body, Chunked, Malformed, Sized, UntilClose
from codehub.proxy.engine.rules import Rules

_LENGTH = re.compile(rb"[0-9]{1,18}")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [1-9][0-9]{2}(?: [\t\x20-\x7e\x80-\xff]*)?")
_HOP_BY_HOP = frozenset(
    {b"connection", b"content-length", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding"}
    | {b"upgrade", b"proxy-authenticate", b"proxy-authorization"}
)
# What a server would say for the whole site, which it shares, or beyond its mount.
_OF_THE_SITE = frozenset(
    {b"clear-site-data", b"service-worker-allowed", b"strict-transport-security"}
    | {b"set-cookie2", b"set-login", b"secure-session-registration", b"sec-session-registration"}
    | {b"use-as-dictionary"}
    | {b"alt-svc", b"public-key-pins", b"x-request-id", b"accept-ch", b"expect-ct", b"nel", b"report-to"}
)
_LOOKED_AT = frozenset({b"set-cookie", b"location"})
_KINDS = dict.fromkeys(_HOP_BY_HOP, 0) | dict.fromkeys(_OF_THE_SITE | _LOOKED_AT, 1)
# What is true of the very bytes that the server sent.
_OF_THE_BYTES = re.compile(
    rb"(?:accept-ranges|content-digest|content-length|content-md5|digest|etag|last-modified|repr-digest|transfer-encoding):",
    re.IGNORECASE,
)
_NO_BODY = frozenset({204, 304})
_EVENT_STREAM = b"\r\ncontent-type: text/event-stream"
_OTHER_HOST = re.compile(rb"[/\\]\t*[/\\]")


@dataclass(frozen=True, slots=True)
class HeadChange:
    """Lines that one answer gets, and names that its server's lines may not have."""

    lines: Mapping[str, str]
    without: frozenset[bytes] = frozenset()
    """In lower case."""

    def apply(self, head: bytes) -> bytes:
        """Return a head as the client is given it so."""
        kept = [
            line for line in head.split(b"\r\n")[:-2] if line.partition(b":")[0].lower() not in self.without
        ]
        added = [f"{name}: {value}".encode("latin-1") for name, value in self.lines.items()]
        return b"\r\n".join((*kept, *added, b"", b""))


class ResponseHead:
    """One response's head. It depends on its bytes alone, so equal bytes are read once."""

    __slots__ = (
        "_fields",
        "_framed",
        "_lines",
        "_mount",
        "_rules",
        "_start",
        "_strips",
        "chunked",
        "is_event_stream",
        "is_interim",
        "keeps_alive",
        "length",
        "status",
        "upgrade",
    )

    def __init__(self, raw: bytes, mount: bytes | None, rules: Rules, *, strips: bool = False) -> None:
        """Read a head, up to the empty line that ends it. Raises Malformed.

        `mount`: where the server is mounted, without the slash, empty if the whole origin is its own, None if
        it is trusted.
        """
        self._lines: list[bytes] = []
        self._fields: dict[bytes, bytes] = {}
        self._mount = mount
        self._rules = rules
        self._strips = strips
        line = raw[: raw.find(b"\r\n")]
        breaks = raw.count(b"\r\n")
        if breaks > LINES_MAX:
            raise Malformed("more headers than anybody needs")
        if not _STATUS_LINE.fullmatch(line) or raw.count(b"\n") != breaks or raw.count(b"\r") != breaks:
            raise Malformed("no response")
        parser = httptools.HttpResponseParser(self)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            raise Malformed("no response") from error
        self.status = parser.get_status_code()
        # All of 1xx but the switch.
        self.is_interim = self.status < 200 and self.status != 101  # noqa: PLR2004
        self.upgrade = self._fields.get(b"upgrade", b"")
        named = self._fields.get(b"connection", b"").lower()
        self.keeps_alive = line.startswith(b"HTTP/1.1") and b"close" not in named
        self.length, self.chunked = self._read_framing(is_http_1_0=line.startswith(b"HTTP/1.0"))
        self._end_nominated(named)
        start = b"".join((b"HTTP/1.1", line[8:], b"\r\n", *self._lines))
        self.is_event_stream = _EVENT_STREAM in start.lower()
        self._framed = start + self._framing()
        self._start = start if self.chunked else self._framed
        self._lines = []

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        value = value.rstrip(b" \t")
        kind = _KINDS.get(lower)
        if kind == 0:
            if lower in self._fields:
                value = self._fields[lower] + b", " + value
            self._fields[lower] = value
        elif self._mount is None or (kind is None and lower not in self._rules.own_responses):
            self._lines += (name, b": ", value, b"\r\n")
        elif lower == b"set-cookie":
            if not self._rules.secrets.is_own_cookie(value):
                self._lines += (name, b": ", _kept_cookie(value, self._mount), b"\r\n")
        elif lower == b"location":
            self._lines += (name, b": ", self._mount_location(value), b"\r\n")

    def body(self, *, to_head: bool, decodes: bool) -> Body:
        """Return where its body ends."""
        if to_head or self.status in _NO_BODY or self.is_interim:
            return NO_BODY
        if self.chunked:
            return Chunked(decodes=decodes, is_secret=self._rules.secrets.has_token)
        return UntilClose() if self.length is None else Sized(self.length)

    def to_client(self, request_id: bytes | None, *, closes: bool, decodes: bool = False) -> bytes:
        """Return the head as the client is given it."""
        return _end_head(self._start if decodes else self._framed, request_id, closes=closes)

    def to_client_edited(self, request_id: bytes | None, *, closes: bool) -> bytes:
        """Return the head as the client is given it with another body, in chunks."""
        lines = (line for line in self._framed.split(b"\r\n")[:-1] if not _OF_THE_BYTES.match(line))
        start = b"\r\n".join((*lines, b"Transfer-Encoding: chunked", b""))
        return _end_head(start, request_id, closes=closes)

    def values(self, name: bytes) -> list[bytes]:
        """Return what the client is told under this name, in lower case, line by line."""
        lines = (line.partition(b":") for line in self._framed.split(b"\r\n")[1:])
        return [value.strip() for field, _, value in lines if field.lower() == name]

    def _framing(self) -> bytes:
        if self.status == 101:  # noqa: PLR2004
            return b"Connection: Upgrade\r\nUpgrade: " + self.upgrade + b"\r\n"
        if self.is_interim:  # it has no body, so nothing ends one (RFC 9110, 8.6)
            return b""
        if self.length is not None and self.status != 204:  # noqa: PLR2004
            return b"Content-Length: %d\r\n" % self.length
        if self.chunked and self.status not in _NO_BODY:
            return b"Transfer-Encoding: chunked\r\n"
        return b""

    def _read_framing(self, *, is_http_1_0: bool) -> tuple[int | None, bool]:
        length = self._fields.get(b"content-length")
        coding = self._fields.get(b"transfer-encoding")
        if coding is not None:
            if length is not None or coding.lower() != b"chunked" or is_http_1_0:
                raise Malformed("two framings, or one that is not known here")
            return None, True
        if length is not None and not _LENGTH.fullmatch(length):
            raise Malformed("a length that is no number")
        return (None if length is None else int(length)), False

    def _mount_location(self, location: bytes) -> bytes:
        """Bring a path of the server's own back under where it is mounted.

        What a browser would take for another host too.
        """
        mount = self._mount
        assert mount is not None
        if _OTHER_HOST.match(location):
            return mount + (b"" if location.startswith(b"/") else b"/") + location
        is_its_own = location.startswith(b"/") and not location.startswith(mount + b"/")
        return mount + location if self._strips and is_its_own else location

    def _end_nominated(self, named: bytes) -> None:
        nominated = {option.strip() for option in named.split(b",")} - {b"close", b"keep-alive", b""}
        if not nominated:
            return
        kept: list[bytes] = []
        line: list[bytes] = []
        for part in self._lines:
            line.append(part)
            if part == b"\r\n":
                kept += line if line[0].lower() not in nominated else ()
                line = []
        self._lines = kept


def _end_head(start: bytes, request_id: bytes | None, *, closes: bool) -> bytes:
    if closes:
        start += b"Connection: close\r\n"
    if request_id is None:
        return start + b"\r\n"
    return start + b"X-Request-Id: " + request_id + b"\r\n\r\n"


def _kept_cookie(cookie: bytes, mount: bytes) -> bytes:
    """Return a server's cookie as one that is sent to it alone: below its mount, and to this very host."""
    first, *attributes = (part.strip() for part in cookie.split(b";"))
    kept = [first]
    for attribute in attributes:
        name, _, value = (part.strip() for part in attribute.partition(b"="))
        if name.lower() == b"domain":
            continue
        is_outside = value.startswith(b"/") and value != mount and not value.startswith(mount + b"/")
        kept.append(b"Path=" + mount + value if name.lower() == b"path" and is_outside else attribute)
    return b"; ".join(kept)
