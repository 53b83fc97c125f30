"""A request's head: its bytes go in, what it asks for comes out, and the head for the next server. What could be read in two ways is refused.

httptools (llhttp) reads it; what llhttp lets pass and another server might read differently is refused here.
"""

import re
from dataclasses import dataclass

import httptools

from codehub.proxy.framing import Body, Chunked, Sized

SESSION_COOKIE = b"codehub_session"
_OUR_COOKIES = b"codehub_"
_TOKEN = re.compile(rb"(?<![A-Za-z0-9])cht_[A-Za-z0-9_-]{8,}")

_HOST = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})|%00")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)
_PLAIN_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_FOREIGN_METHODS = frozenset({b"CONNECT", b"TRACE", b"PRI"})
_SAFE_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_REPEATABLE_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"})

# Read here and made anew, or ended here: hop-by-hop (RFC 9110, 7.6.1), and whatever says who asks and through whom.
_ENDS_HERE = frozenset(
    {
        b"authorization",
        b"connection",
        b"content-length",
        b"cookie",
        b"forwarded",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"sec-websocket-extensions",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
        b"x-request-id",
    }
)
# Read here and passed on.
_NOTED = frozenset(
    {
        b"accept",
        b"accept-language",
        b"expect",
        b"origin",
        b"purpose",
        b"sec-fetch-dest",
        b"sec-fetch-mode",
        b"sec-fetch-site",
        b"sec-purpose",
        b"user-agent",
    }
)
_ONCE = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"authorization", b"origin", b"expect"}
    | {b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site"}
)
_KINDS = dict.fromkeys(_ENDS_HERE, True) | dict.fromkeys(_NOTED, False)


class Refused(Exception):
    """A request that is answered with this status and goes nowhere; its connection is closed."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Sender:
    """Who is at the other end of a connection, and whether what it says of others counts."""

    address: bytes
    is_trusted: bool = False
    proto: bytes = b"http"


class RequestHead:
    """One connection's request heads, one after another: `read` replaces the last one."""

    __slots__ = (
        "_fields",
        "_lines",
        "_nominated",
        "_parser",
        "_repeated",
        "_session",
        "body",
        "host",
        "is_http_1_0",
        "keeps_alive",
        "method",
        "target",
        "to_workspace",
        "upgrade",
    )

    def __init__(self) -> None:
        self._parser: httptools.HttpRequestParser | None = None
        self._lines: list[bytes] = []
        self._fields: dict[bytes, bytes] = {}
        self._session: bytes | None = None
        self._repeated: bytes | None = None
        self._nominated: frozenset[bytes] = frozenset()
        self.method = b""
        self.target = b""
        self.host = b""
        self.body: Body = Sized(0)
        self.is_http_1_0 = False
        self.keeps_alive = True
        self.to_workspace = False
        self.upgrade: bytes | None = None

    def read(self, raw: bytes) -> None:
        """Read a head, from its first byte to the empty line that ends it. Raises Refused."""
        self._lines = []
        self._fields = {}
        self._session = self._repeated = None
        self._nominated = frozenset()
        self.upgrade = None
        line = raw[: raw.find(b"\r\n")]
        if not line.endswith((b" HTTP/1.1", b" HTTP/1.0")):
            is_other = re.search(rb" HTTP/[0-9]", line)
            raise Refused(*((505, "only HTTP/1.1 is spoken here") if is_other else (400, "no request line")))
        if line.count(b" ") != 2:  # noqa: PLR2004  # between method, target and version
            raise Refused(400, "no request line")
        breaks = raw.count(b"\r\n")
        if raw.count(b"\n") != breaks or raw.count(b"\r") != breaks or b"\r\n " in raw or b"\r\n\t" in raw:
            raise Refused(400, "a line that is not ended by CRLF, or is folded")
        parser = self._parser
        if parser is None:
            parser = httptools.HttpRequestParser(self)
        self._parser = (
            None  # a parser that failed, or waits for a body that it will not be given, is of no more use
        )
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            reusable = False
        except httptools.HttpParserError as error:
            raise Refused(400, "not HTTP/1.1") from error
        else:
            reusable = True
        if self._repeated is not None:
            raise Refused(400, f"more than one {self._repeated.decode()}")
        self.method = parser.get_method()
        self.is_http_1_0 = line.endswith(b"0")
        self._check_target()
        self._check_host()
        self._frame()
        self._connection()
        if reusable and self.keeps_alive and self.body.done:
            self._parser = parser

    def on_url(self, url: bytes) -> None:
        self.target = url
        self.to_workspace = url.startswith(b"/w/")

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        ends_here = _KINDS.get(lower)
        if ends_here is None:
            if b"cht_" in value and self.to_workspace and _TOKEN.search(value):
                return
            self._lines += (name, b": ", value, b"\r\n")
            return
        known = self._fields.get(lower)
        if known is not None:
            if lower in _ONCE:
                self._repeated = lower
            value = known + (b"; " if lower == b"cookie" else b", ") + value
        elif not ends_here:
            self._lines += (name, b": ", value, b"\r\n")
        self._fields[lower] = value

    def field(self, name: bytes) -> bytes:
        """Return a header that is read here, by its name in lower case; empty if there is none."""
        return self._fields.get(name, b"")

    @property
    def session(self) -> bytes | None:
        """The last session cookie: one that was tossed in for a longer path comes before ours."""
        return self._session

    @property
    def bearer(self) -> bytes | None:
        scheme, _, token = self._fields.get(b"authorization", b"").partition(b" ")
        return token.strip() if scheme.lower() == b"bearer" else None

    @property
    def request_id(self) -> bytes | None:
        given = self._fields.get(b"x-request-id")
        return given if given is not None and _PLAIN_ID.fullmatch(given) else None

    @property
    def is_safe(self) -> bool:
        """Whether its method changes nothing."""
        return self.method in _SAFE_METHODS

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be sent again when a pooled connection turns out to be dead."""
        return self.method in _REPEATABLE_METHODS and type(self.body) is Sized and self.body.done

    def to_api(self, sender: Sender, request_id: bytes) -> bytes:
        """Return the head as the API is given it: who asks is its business."""
        credentials = [
            line
            for name in (b"Cookie", b"Authorization")
            if (value := self._fields.get(name.lower()))
            for line in (name, b": ", value, b"\r\n")
        ]
        return self._head(self.target, sender, request_id, b"", credentials)

    def to_workspace_at(
        self, path: bytes, sender: Sender, request_id: bytes, prefix: bytes, *, extensions: bool
    ) -> bytes:
        """Return the head as a workspace is given it: without anything that says who asks. `prefix` is where it is mounted."""
        lines: list[bytes] = []
        cookie = self._fields.get(b"cookie")
        if cookie and (rest := _foreign_cookies(cookie)):
            lines += (b"Cookie: ", rest, b"\r\n")
        if extensions and (offered := self._fields.get(b"sec-websocket-extensions")):
            lines += (b"Sec-WebSocket-Extensions: ", offered, b"\r\n")
        return self._head(path, sender, request_id, b"X-Forwarded-Prefix: " + prefix + b"\r\n", lines)

    def _head(
        self, path: bytes, sender: Sender, request_id: bytes, prefix: bytes, more: list[bytes]
    ) -> bytes:
        address, proto, host = sender.address, sender.proto, self.host
        if sender.is_trusted:
            fields = self._fields
            if before := fields.get(b"x-forwarded-for"):
                address = before + b", " + address
            if (given := fields.get(b"x-forwarded-proto")) in (b"http", b"https"):
                proto = given
            if (named := fields.get(b"x-forwarded-host")) and _HOST.fullmatch(named):
                host = named
        body = self.body
        if type(body) is Chunked:
            framing: bytes = b"Transfer-Encoding: chunked\r\n"
        elif b"content-length" in self._fields:
            framing = b"Content-Length: %b\r\n" % self._fields[b"content-length"]
        else:
            framing = b""
        if self.upgrade is not None:
            framing += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % self.upgrade
        lines = self._lines if not self._nominated else _without(self._lines, self._nominated)
        return b"".join(
            (
                self.method,
                b" ",
                path,
                b" HTTP/1.1\r\nHost: ",
                self.host,
                b"\r\n",
                *lines,
                *more,
                framing,
                prefix,
                b"X-Forwarded-For: ",
                address,
                b"\r\nX-Forwarded-Host: ",
                host,
                b"\r\nX-Forwarded-Proto: ",
                proto,
                b"\r\nX-Request-Id: ",
                request_id,
                b"\r\n\r\n",
            )
        )

    def _check_target(self) -> None:
        if self.method in _FOREIGN_METHODS:
            raise Refused(405, "this method is not for here")
        target = self.target
        if not target.startswith(b"/"):
            absolute = _ABSOLUTE.fullmatch(target)
            if absolute is None or absolute[1] != self._fields.get(b"host"):
                raise Refused(400, "a target that is not of this server")
            target = self.target = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
            self.to_workspace = target.startswith(b"/w/")
        if b"#" in target or b"\\" in target or not target.isascii():
            raise Refused(400, "a target with a character that can't be in it")
        path = target.partition(b"?")[0]
        if b"%" in path and _BAD_ESCAPE.search(path):
            raise Refused(400, "a path that is badly escaped")
        if b"/." in path or b"%2" in path:
            segments = path.lower().replace(b"%2e", b".").replace(b"%2f", b"/").split(b"/")
            if b".." in segments or b"." in segments:
                raise Refused(400, "a path with dot segments")

    def _check_host(self) -> None:
        host = self._fields.get(b"host")
        if host is None:
            if not self.is_http_1_0:
                raise Refused(400, "no Host")
            host = b"localhost"
        elif not _HOST.fullmatch(host):
            raise Refused(400, "no Host")
        self.host = host

    def _frame(self) -> None:
        fields = self._fields
        length = fields.get(b"content-length")
        coding = fields.get(b"transfer-encoding")
        if coding is not None:
            if length is not None or self.is_http_1_0:
                raise Refused(400, "two framings")
            if coding.lower() != b"chunked":
                raise Refused(501, "a transfer coding that is not known here")
            self.body = Chunked()
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise Refused(400, "a length that is no number")
            self.body = Sized(int(length))
        else:
            self.body = Sized(0)

    def _connection(self) -> None:
        fields = self._fields
        named = fields.get(b"connection")
        self.keeps_alive = not self.is_http_1_0
        if named is not None:
            options = frozenset(option.strip().lower() for option in named.split(b","))
            self.keeps_alive = self.keeps_alive and b"close" not in options
            if b"upgrade" in options and not self.is_http_1_0:
                self.upgrade = self._fields.get(b"upgrade")
            self._nominated = options - {b"close", b"keep-alive", b"upgrade", b""}
        if (
            self.upgrade is not None and (self.upgrade.lower() != b"websocket" or self.method != b"GET")
        ) or not (self.upgrade is None or self.body.done):
            self.upgrade = None  # h2c and the like are ignored, as RFC 9110 allows
        expected = fields.get(b"expect")
        if expected is not None and expected.lower() != b"100-continue":
            raise Refused(417, "an expectation that is not known here")
        cookie = fields.get(b"cookie")
        if cookie is not None and SESSION_COOKIE in cookie:
            for pair in cookie.split(b";"):
                name, _, value = pair.partition(b"=")
                if name.strip() == SESSION_COOKIE:
                    self._session = value.strip()


def _foreign_cookies(cookie: bytes) -> bytes:
    """Return the cookies that are not ours, as they came."""
    if _OUR_COOKIES not in cookie.lower():
        return cookie
    kept = [pair.strip() for pair in cookie.split(b";") if not pair.strip().lower().startswith(_OUR_COOKIES)]
    return b"; ".join(kept)


def _without(lines: list[bytes], nominated: frozenset[bytes]) -> list[bytes]:
    kept: list[bytes] = []
    for at in range(0, len(lines), 4):
        if lines[at].lower() not in nominated:
            kept += lines[at : at + 4]
    return kept
