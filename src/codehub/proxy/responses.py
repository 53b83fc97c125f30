"""A response's head: its bytes go in, its framing and the head for the client come out. A workspace can't set what is codehub's."""

import re

import httptools

from codehub.proxy.framing import Body, Chunked, Malformed, Sized, UntilClose

_LENGTH = re.compile(rb"[0-9]{1,18}")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [1-9][0-9]{2}(?: [\t\x20-\x7e\x80-\xff]*)?")
_OUR_COOKIES = b"codehub_"
_HOP_BY_HOP = frozenset(
    {b"connection", b"content-length", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding"}
    | {b"upgrade", b"proxy-authenticate", b"proxy-authorization"}
)
# What a workspace would say for the whole site, which it shares.
_OURS = frozenset(
    {b"clear-site-data", b"service-worker-allowed", b"strict-transport-security", b"x-codehub-page"}
    | {b"alt-svc", b"public-key-pins", b"x-request-id"}
)
_LOOKED_AT = frozenset({b"set-cookie", b"location"})
_KINDS = dict.fromkeys(_HOP_BY_HOP, 0) | dict.fromkeys(_OURS, 1) | dict.fromkeys(_LOOKED_AT, 2)
_NO_BODY = frozenset({204, 304})


class ResponseHead:
    """One response. `prefix` is where the workspace is mounted; None if it is the API's."""

    __slots__ = ("_fields", "_lines", "_prefix", "_strips", "body", "keeps_alive", "status", "status_line")

    def __init__(self, raw: bytes, prefix: bytes | None, *, strips: bool = False) -> None:
        """Read a head, up to the empty line that ends it. Raises Malformed."""
        self._lines: list[bytes] = []
        self._fields: dict[bytes, bytes] = {}
        self._prefix = prefix
        self._strips = strips
        self.body: Body = Sized(0)
        self.status_line = raw[: raw.find(b"\r\n")]
        breaks = raw.count(b"\r\n")
        if (
            not _STATUS_LINE.fullmatch(self.status_line)
            or raw.count(b"\n") != breaks
            or raw.count(b"\r") != breaks
        ):
            raise Malformed("no response")
        parser = httptools.HttpResponseParser(self)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            raise Malformed("no response") from error
        self.status = parser.get_status_code()
        named = self._fields.get(b"connection")
        self.keeps_alive = self.status_line.startswith(b"HTTP/1.1") and (
            named is None or b"close" not in named.lower()
        )
        if named is not None:
            self._end_nominated(named)

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        kind = _KINDS.get(lower)
        if kind is None:
            self._lines += (name, b": ", value, b"\r\n")
        elif kind == 0:
            if lower in self._fields:
                value = self._fields[lower] + b", " + value
            self._fields[lower] = value
        elif self._prefix is None:
            self._lines += (name, b": ", value, b"\r\n")
        elif lower == b"set-cookie":
            if not value.strip().lower().startswith(_OUR_COOKIES):
                self._lines += (name, b": ", value, b"\r\n")
        elif lower == b"location":
            self._lines += (name, b": ", self._mounted(value), b"\r\n")
        elif lower == b"service-worker-allowed":
            self._lines += (name, b": ", self._prefix, b"/\r\n")

    @property
    def is_interim(self) -> bool:
        return self.status < 200 and self.status != 101  # noqa: PLR2004  # 1xx, but for the switch of protocols

    @property
    def upgrade(self) -> bytes:
        return self._fields.get(b"upgrade", b"")

    def frame(self, *, to_head: bool, decodes: bool) -> None:
        """Say where its body ends. Raises Malformed if that can't be said in one way."""
        length = self._fields.get(b"content-length")
        coding = self._fields.get(b"transfer-encoding")
        if (length is not None and coding is not None) or (
            length is not None and not _LENGTH.fullmatch(length)
        ):
            raise Malformed("a response with two framings, or a length that is no number")
        if to_head or self.status in _NO_BODY or self.is_interim:
            self.body = Sized(0)
        elif coding is not None:
            if coding.lower() != b"chunked":
                raise Malformed("a transfer coding that is not known here")
            self.body = Chunked(decodes=decodes)
        elif length is not None:
            self.body = Sized(int(length))
        else:
            self.body = UntilClose()
            self.keeps_alive = False

    def to_client(self, request_id: bytes | None, *, closes: bool) -> bytes:
        """Return the head as the client is given it."""
        framing = b""
        body = self.body
        length = self._fields.get(b"content-length")
        if type(body) is Chunked:
            if body.content is None:
                framing = b"Transfer-Encoding: chunked\r\n"
        elif length is not None and self.status != 204 and not self.is_interim:  # noqa: PLR2004
            framing = b"Content-Length: " + length + b"\r\n"
        elif b"transfer-encoding" in self._fields and self.status not in _NO_BODY:
            framing = b"Transfer-Encoding: chunked\r\n"  # of a HEAD: what a GET would have
        if self.status == 101:  # noqa: PLR2004
            framing = b"Connection: Upgrade\r\nUpgrade: " + self.upgrade + b"\r\n"
        elif closes:
            framing += b"Connection: close\r\n"
        if request_id is not None:
            framing += b"X-Request-Id: " + request_id + b"\r\n"
        return b"".join((b"HTTP/1.1", self.status_line[8:], b"\r\n", *self._lines, framing, b"\r\n"))

    def _mounted(self, location: bytes) -> bytes:
        """Bring a path of the workspace's own back under where it is mounted."""
        assert self._prefix is not None
        is_its_own = location.startswith(b"/") and not location.startswith(
            (b"//", b"/\\", self._prefix + b"/")
        )
        return self._prefix + location if self._strips and is_its_own else location

    def _end_nominated(self, named: bytes) -> None:
        nominated = {option.strip().lower() for option in named.split(b",")} - {b"close", b"keep-alive"}
        if nominated:
            kept: list[bytes] = []
            for at in range(0, len(self._lines), 4):
                if self._lines[at].lower() not in nominated:
                    kept += self._lines[at : at + 4]
            self._lines = kept
