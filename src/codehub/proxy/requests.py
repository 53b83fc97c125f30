"""A request's head: its bytes go in, what it asks for comes out, and the head for the next server. What could be read in two ways is refused.

httptools (llhttp) reads it; what llhttp lets pass and another server might read differently is refused here.
"""

import re
from typing import TYPE_CHECKING

import httptools

from codehub.ports.proxy_lookups import Credential
from codehub.proxy.cookies import TOKEN, foreign_cookies
from codehub.proxy.heads import HEAD_END, LINES_MAX, Refused
from codehub.proxy.http_body import NEVER_TRAILERS, NO_BODY, TIGHT, Body, Chunked, Sized, TooLarge
from codehub.web.bounds import BODY_BYTES_MAX
from codehub.web.cookies import SeveralSessions, session_name, session_word

if TYPE_CHECKING:
    from codehub.core.visit import Visit

_SESSION = session_name(secure=False)
HOST = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})|%00")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)
_PLAIN_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_LINE = re.compile(rb"([A-Z]{3,16}) (/[!-\"$-\[\]-~]*) HTTP/1\.1\r\n")
_TARGET = re.compile(rb"/[!-\"$-\[\]-~]*")
ID_START, ID_END = 3, 39
"""Where a workspace's id stands in a path: /w/{id}/…"""
_OPTIONS_MAX = 64
_COOKIES_MAX = 1024
_BLOCKS_MAX = 512
_BLOCK_BYTES_MAX = 4096
_METHODS = frozenset(
    b"GET HEAD POST PUT DELETE PATCH OPTIONS PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH".split()
)
_FOREIGN_METHODS = frozenset({b"CONNECT", b"TRACE", b"PRI"})
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
# Some servers take trailers for headers, so what ends here can't come after the body either.
_REFUSED_TRAILERS = NEVER_TRAILERS | _ENDS_HERE
# Whoever sends one of these asks for another. The API is told that, though not for whom: what is only for this machine is not for them.
_SAYS_FORWARDED = frozenset(
    name for name in _ENDS_HERE if name == b"forwarded" or name.startswith((b"x-forwarded-", b"x-real-"))
)
_PASSED_ON = b"X-Forwarded-By: unknown\r\n"
# Read here and passed on.
_NOTED = frozenset(
    b"accept accept-language expect origin purpose sec-fetch-dest sec-fetch-mode sec-fetch-site sec-purpose user-agent".split()
)
_ONCE = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"authorization", b"origin", b"expect"}
    | {b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site"}
)
_KINDS = dict.fromkeys(_ENDS_HERE, True) | dict.fromkeys(_NOTED, False)


class HeaderBlock:
    """What the lines after the request line say. It depends on their bytes alone, so equal bytes are read once."""

    __slots__ = (
        "_lines",
        "_repeated",
        "chunked",
        "credential",
        "fields",
        "has_several_sessions",
        "host",
        "is_http_1_0",
        "keeps_alive",
        "length",
        "method",
        "request_id",
        "target",
        "to_api",
        "to_workspace",
        "upgrade",
        "visits",
    )

    def __init__(self, raw: bytes, session: str, *, is_http_1_0: bool) -> None:
        """Read a whole head, from its first byte to the empty line that ends it. `session` is the cookie that says who asks. Raises Refused."""
        self._lines: list[bytes] = []
        self._repeated: bytes | None = None
        self.fields: dict[bytes, bytes] = {}
        self.visits: dict[bytes, Visit] = {}
        """What kind of visit it is, by method, once somebody has asked."""
        self.is_http_1_0 = is_http_1_0
        self.target = b""
        breaks = raw.count(b"\r\n")
        if breaks > LINES_MAX:
            raise Refused(431, "more headers than anybody needs")
        if raw.count(b"\n") != breaks or raw.count(b"\r") != breaks or b"\r\n " in raw or b"\r\n\t" in raw:
            raise Refused(400, "a line that is not ended by CRLF, or is folded")
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            raise Refused(400, "not HTTP/1.1") from error
        if self._repeated is not None:
            raise Refused(400, f"more than one {self._repeated.decode()}")
        self.method = parser.get_method()
        self.host = self._read_host()
        self.length, self.chunked = self._read_framing()
        nominated = self._read_connection()
        self.has_several_sessions = False
        """Then it says nothing of who asks, whatever else it shows."""
        self.credential = self._read_credential(session)
        given = self.fields.get(b"x-request-id")
        self.request_id = given if given is not None and _PLAIN_ID.fullmatch(given) else None
        if (expected := self.fields.get(b"expect")) is not None and expected.lower() != b"100-continue":
            raise Refused(417, "an expectation that is not known here")
        self._write(nominated)

    def on_url(self, url: bytes) -> None:
        self.target = url

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        value = value.rstrip(b" \t")
        ends_here = _KINDS.get(lower)
        if ends_here is None:
            # Servers that grew up with CGI read X_Forwarded_For as X-Forwarded-For.
            if b"_" not in lower or lower.replace(b"_", b"-") not in _ENDS_HERE:
                self._lines += (name, value)
            return
        known = self.fields.get(lower)
        if known is not None:
            if lower in _ONCE:
                self._repeated = lower
            self.fields[lower] = known + (b"; " if lower == b"cookie" else b", ") + value
        else:
            self.fields[lower] = value
        if not ends_here:
            self._lines += (name, value)

    def _read_host(self) -> bytes:
        host = self.fields.get(b"host")
        if host is None and self.is_http_1_0:
            return b"localhost"
        if host is None or not HOST.fullmatch(host):
            raise Refused(400, "no Host")
        return host

    def _read_framing(self) -> tuple[int, bool]:
        length = self.fields.get(b"content-length")
        coding = self.fields.get(b"transfer-encoding")
        if coding is not None:
            if length is not None or self.is_http_1_0:
                raise Refused(400, "two framings")
            if coding.lower() != b"chunked":
                raise Refused(501, "a transfer coding that is not known here")
            return 0, True
        if length is None:
            return 0, False
        if not _LENGTH.fullmatch(length):
            raise Refused(400, "a length that is no number")
        return int(length), False

    def _read_connection(self) -> frozenset[bytes]:
        """Note what becomes of the connection, and return which headers belong to it alone."""
        self.keeps_alive = not self.is_http_1_0
        self.upgrade: bytes | None = None
        named = self.fields.get(b"connection")
        if named is None:
            return frozenset()
        if named.count(b",") >= _OPTIONS_MAX:
            raise Refused(431, "more options of a connection than there are")
        options = frozenset(option.strip().lower() for option in named.split(b","))
        self.keeps_alive = self.keeps_alive and b"close" not in options
        wanted = self.fields.get(b"upgrade", b"")
        # h2c and the like are ignored, as RFC 9110 allows; whatever HTTP/1.0 wants is, as it says (7.8).
        if b"upgrade" in options and wanted.lower() == b"websocket" and not (self.length or self.chunked):
            self.upgrade = None if self.is_http_1_0 else wanted
        return options - {b"close", b"keep-alive", b"upgrade", b""}

    def _read_credential(self, session: str) -> Credential | None:
        cookies = self.fields.get(b"cookie", b"")
        if cookies.count(b";") >= _COOKIES_MAX:
            raise Refused(431, "more cookies than a browser keeps")
        try:
            word = session_word(cookies.decode("latin-1"), session)
        except SeveralSessions:
            self.has_several_sessions = True
            return None
        return self._read_bearer() or (Credential("session", word.encode("latin-1")) if word else None)

    def _read_bearer(self) -> Credential | None:
        scheme, _, token = self.fields.get(b"authorization", b"").partition(b" ")
        return Credential("token", token.strip()) if scheme.lower() == b"bearer" else None

    def _write(self, nominated: frozenset[bytes]) -> None:
        """Make the lines for the next server. A workspace gets nothing that says who asks; to the API that is its business."""
        both: list[bytes] = [b"Host: ", self.host, b"\r\n"]
        api: list[bytes] = []
        for name, value in zip(self._lines[::2], self._lines[1::2], strict=True):
            if name.lower() not in nominated:
                lines = api if b"cht_" in value and TOKEN.search(value) else both
                lines += (name, b": ", value, b"\r\n")
        if self.chunked:
            both.append(b"Transfer-Encoding: chunked\r\n")
        elif b"content-length" in self.fields:
            both.append(b"Content-Length: %d\r\n" % self.length)
        cookie = self.fields.get(b"cookie")
        authorization = self.fields.get(b"authorization")
        if not _SAYS_FORWARDED.isdisjoint(self.fields):
            api.append(_PASSED_ON)
        if authorization is not None:
            api += (b"Authorization: ", authorization, b"\r\n")
        foreign = None
        if cookie is not None:
            api += (b"Cookie: ", cookie, b"\r\n")
            foreign = foreign_cookies(cookie)
        self.to_api = b"".join(both + api)
        self.to_workspace = b"".join(both) + (b"Cookie: %b\r\n" % foreign if foreign else b"")
        self._lines = []


class RequestHead:
    """One connection's request heads, one after another: `read` replaces the last one."""

    __slots__ = (
        "_blocks",
        "_raw",
        "_session",
        "block",
        "body",
        "method",
        "request_id",
        "target",
        "to_workspace",
        "upgrade",
    )

    def __init__(self, blocks: dict[bytes, HeaderBlock] | None = None, session: str = _SESSION) -> None:
        """`blocks` are those that were read lately, by their bytes; shared by all connections. `session` is the cookie that counts."""
        self._blocks = blocks if blocks is not None else {}
        self._session = session
        self._raw = b""
        self.block = _NO_BLOCK
        self.method = b""
        self.target = b""
        self.request_id = b""
        """Who asked for it says; else whoever read it gives it one."""
        self.body: Body = NO_BODY
        self.to_workspace = False
        self.upgrade: bytes | None = None

    def read(self, raw: bytes) -> None:
        """Read a head, from its first byte to the empty line that ends it. Raises Refused."""
        if raw == self._raw and self.body is NO_BODY:  # once more the same
            return
        self._raw = b""
        line = _LINE.match(raw)
        if line is None:
            self._read_uncommon(raw)
            return
        rest = raw[line.end() :]
        block = self._blocks.get(rest)
        if block is None:
            block = HeaderBlock(raw, self._session, is_http_1_0=False)
            if len(self._blocks) >= _BLOCKS_MAX:
                self._blocks.clear()
            if len(rest) <= _BLOCK_BYTES_MAX:
                self._blocks[rest] = block
        self._take(block, *line.groups())
        self._raw = raw

    def _read_uncommon(self, raw: bytes) -> None:
        """Read what is not a plain path of HTTP/1.1."""
        line = raw[: raw.find(b"\r\n")]
        if not line.endswith((b" HTTP/1.1", b" HTTP/1.0")):
            is_other = re.search(rb" HTTP/[0-9]", line)
            raise Refused(*((505, "only HTTP/1.1 is spoken here") if is_other else (400, "no request line")))
        if line.count(b" ") != 2:  # noqa: PLR2004  # between method, target and version
            raise Refused(400, "no request line")
        block = HeaderBlock(raw, self._session, is_http_1_0=line.endswith(b"0"))
        if block.method in _FOREIGN_METHODS:
            raise Refused(405, "this method is not for here")
        target = block.target
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is not None:
            if absolute[1] != block.fields.get(b"host"):
                raise Refused(400, "a target that is not of this server")
            target = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
        if not _TARGET.fullmatch(target):
            raise Refused(400, "a target that is not of this server, or with a character that can't be in it")
        self._take(block, block.method, target)

    def _take(self, block: HeaderBlock, method: bytes, target: bytes) -> None:
        if method not in _METHODS:
            raise Refused(405 if method in _FOREIGN_METHODS else 400, "this method is not for here")
        if b"%" in target or b"/." in target:
            _check_path(target.partition(b"?")[0])
        self.block = block
        self.method = method
        self.target = target
        self.to_workspace = target.startswith(b"/w/")
        self.upgrade = block.upgrade if method == b"GET" else None
        if not block.chunked:
            self.body = Sized(block.length) if block.length else NO_BODY
        elif self.to_workspace:
            self.body = Chunked(refused=_REFUSED_TRAILERS)
        else:
            # uvicorn is one of those servers, and the API has no use for any. Nor for what else is between chunks: it gets ours.
            self.body = Chunked(refused=None, reframes=True, content_bytes_max=BODY_BYTES_MAX, framing=TIGHT)

    def take_body(self, data: bytes, start: int) -> int:
        """Return where the body's part of `data`, which begins at `start`, ends. Raises Malformed; what the API would not take is TooLarge."""
        if self.block.length > BODY_BYTES_MAX and not self.to_workspace:
            raise TooLarge("the body is too large")
        return self.body.take(data, start)

    def passed_on(self, data: bytes, start: int, stop: int) -> bytes:
        """Return what the next server is given of the body's part that was just taken."""
        if type(self.body) is Chunked:
            return self.body.passed_on(data, start, stop)
        return data if not start and stop == len(data) else data[start:stop]

    def field(self, name: bytes) -> bytes:
        """Return a header that is read here, by its name in lower case; empty if there is none."""
        return self.block.fields.get(name, b"")

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be sent again when a pooled connection turns out to be dead."""
        return self.body is NO_BODY and self.method in _REPEATABLE_METHODS and self.upgrade is None

    def to_upstream(self, path: bytes, lines: bytes, prefix: bytes, said: bytes, request_id: bytes) -> bytes:
        """Return the head as the next server is given it.

        `lines` are the block's for it, `prefix` says where it is mounted, `said` who asks."""
        if self.upgrade is not None:
            prefix += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % self.upgrade
        return b"".join(
            (
                self.method,
                b" ",
                path,
                b" HTTP/1.1\r\n",
                lines,
                prefix,
                said,
                b"X-Request-Id: ",
                request_id,
                HEAD_END,
            )
        )


def _check_path(path: bytes) -> None:
    if b"%" in path and _BAD_ESCAPE.search(path):
        raise Refused(400, "a path that is badly escaped")
    segments = path.lower().replace(b"%2e", b".").replace(b"%2f", b"/").split(b"/")
    if b".." in segments or b"." in segments:
        raise Refused(400, "a path with dot segments")


_NO_BLOCK = HeaderBlock(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n", _SESSION, is_http_1_0=False)
