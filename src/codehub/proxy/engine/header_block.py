"""The lines after a request's first: their bytes go in, what they say and those for the next server come out.

httptools (llhttp) reads them. What it lets pass and another server might read differently is refused.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import httptools

from codehub.proxy.engine.heads import LINES_MAX, UNDERSCORE, Refused
from codehub.proxy.engine.rules import ENDS_HERE, Rules

HOST = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_OPTIONS_MAX = 64
COOKIES_MAX = 1024
# Whoever sends one of these asks for another. A trusted server is told that, though not for whom: what is
# only for this machine is not for them.
_SAYS_FORWARDED = frozenset(
    name for name in ENDS_HERE if name == b"forwarded" or name.startswith((b"x-forwarded-", b"x-real-"))
)
# What makes an answer something else than the whole content.
_OF_A_PART = re.compile(
    rb"(?:accept-encoding|available-dictionary|dictionary-id|if-modified-since|if-none-match|if-range|range):",
    re.IGNORECASE,
)
_PASSED_ON = b"X-Forwarded-By: unknown\r\n"


# Who asks, as the rules say it, and the lines of cookies and the like that are not the site's own.
Shown = tuple[Any, bytes]


class ProxyFields:
    """The headers that are read here. What they say depends on their lines alone."""

    __slots__ = ("fields", "foreign_lines", "host", "host_line", "identity", "keeps_alive", "request_id")

    def __init__(self, fields: dict[bytes, bytes], shown: Shown, *, keeps_alive: bool) -> None:
        self.fields = fields
        """By their names in lower case."""
        self.host = host = fields.get(b"host", b"localhost")  # HTTP/1.0 may name none
        self.host_line = b"Host: " + host + b"\r\n"
        self.keeps_alive = keeps_alive
        self.request_id = _read_request_id(fields[b"x-request-id"]) if b"x-request-id" in fields else None
        self.identity, self.foreign_lines = shown
        """The lines are for a server that may not know who asks."""


class HeaderBlock:
    """What the lines after the first say. It depends on their bytes alone, so equal bytes are read once."""

    __slots__ = (
        "_derived",
        "_lines",
        "_noted",
        "_to_trusted",
        "_token_lines",
        "chunked",
        "fields",
        "host",
        "identity",
        "is_http_1_0",
        "keeps_alive",
        "length",
        "request_id",
        "to_untrusted",
        "upgrade",
    )

    def __init__(self, proxy_fields: ProxyFields, lines: bytes) -> None:
        """`lines` are those that every server is given, without Host and cookies. No body, no upgrade."""
        self.fields = proxy_fields.fields
        self.host = proxy_fields.host
        self.identity = proxy_fields.identity
        self.keeps_alive = proxy_fields.keeps_alive
        self.request_id = proxy_fields.request_id
        self.length = 0
        self.chunked = False
        self.upgrade: bytes | None = None
        self.is_http_1_0 = False
        self._noted: dict[bytes, bytes] | None = None
        self._derived: dict[Any, Any] | None = None
        self._to_trusted: bytes | None = None
        self._lines = lines = proxy_fields.host_line + lines
        self._token_lines = b""
        self.to_untrusted = lines + proxy_fields.foreign_lines
        """Nothing in it says who asks."""

    @property
    def to_trusted(self) -> bytes:
        """The lines for a server that may know who asks."""
        if self._to_trusted is None:
            self._to_trusted = b"".join((self._lines, self._token_lines, *self._credential_lines()))
        return self._to_trusted

    @property
    def for_whole_content(self) -> bytes:
        """The lines for a server that may not know who asks, and is to answer with all of it, as it is."""
        lines = (line for line in self.to_untrusted.split(b"\r\n")[:-1] if not _OF_A_PART.match(line))
        return b"\r\n".join((*lines, b"Accept-Encoding: identity", b""))

    def _credential_lines(self) -> Iterator[bytes]:
        if not _SAYS_FORWARDED.isdisjoint(self.fields):
            yield _PASSED_ON
        for name in (b"Authorization", b"Cookie"):
            if (value := self.fields.get(name.lower())) is not None:
                yield b"%b: %b\r\n" % (name, value)

    @property
    def derived(self) -> dict[Any, Any]:
        """What the policy made of it, kept as long as it is."""
        if self._derived is None:
            self._derived = {}
        return self._derived

    def noted(self, name: bytes, rules: Rules) -> bytes:
        """Return a header that the policy reads, by its name in lower case; empty if there is none."""
        if self._noted is None:
            self._noted = _read_noted(self.to_untrusted, rules)
        return self._noted.get(name, b"")


class _ParsedBlock(HeaderBlock):
    """A block that may say anything: a body, an upgrade, tokens that only a trusted server may see."""

    __slots__ = ()

    def __init__(
        self,
        proxy_fields: ProxyFields,
        lines: bytes,
        token_lines: bytes,
        *,
        length: int,
        chunked: bool,
        upgrade: bytes | None,
        is_http_1_0: bool,
    ) -> None:
        if chunked:
            lines += b"Transfer-Encoding: chunked\r\n"
        elif b"content-length" in proxy_fields.fields:
            lines += b"Content-Length: %d\r\n" % length
        super().__init__(proxy_fields, lines)
        self._noted = proxy_fields.fields
        self._token_lines = token_lines
        self.length = length
        self.chunked = chunked
        self.upgrade = upgrade
        self.is_http_1_0 = is_http_1_0


def _read_request_id(given: bytes) -> bytes | None:
    return given if _REQUEST_ID.fullmatch(given) else None


def read_shown(fields: Mapping[bytes, bytes], rules: Rules) -> Shown:
    secrets, authorization = rules.secrets, fields.get(b"authorization")
    cookies = secrets.without_own_cookies(fields.get(b"cookie", b""))
    lines = b"Cookie: " + cookies + b"\r\n" if cookies else b""
    if authorization and rules.passes_authorization(fields.get(b"host", b"")):
        lines += b"" if secrets.has_token(authorization) else b"Authorization: " + authorization + b"\r\n"
    return rules.identify(fields), lines


def read_whole(raw: bytes, rules: Rules, *, is_http_1_0: bool) -> tuple[HeaderBlock, bytes, bytes]:
    """Read a head by HTTP's own parser; return its lines, its method and its target. Raises Refused."""
    return _Parser(raw, rules, is_http_1_0=is_http_1_0).block()


def _read_noted(lines: bytes, rules: Rules) -> dict[bytes, bytes]:
    noted: dict[bytes, bytes] = {}
    for line in lines.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        lower = name.lower()
        if rules.kinds.get(lower) is False:
            noted[lower] = noted[lower] + b", " + value if lower in noted else value
    return noted


class _Parser:
    """A head as llhttp reads it, header by header."""

    def __init__(self, raw: bytes, rules: Rules, *, is_http_1_0: bool) -> None:
        self._rules = rules
        self._is_http_1_0 = is_http_1_0
        self._lines: list[tuple[bytes, bytes]] = []
        self._fields: dict[bytes, bytes] = {}
        self._repeated: bytes | None = None
        self._target = b""
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
        self._method = parser.get_method()

    def on_url(self, url: bytes) -> None:
        self._target = url

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        value = value.rstrip(b" \t")
        ends_here = self._rules.kinds.get(lower)
        if ends_here is None:
            # Servers that grew up with CGI read X_Forwarded_For as X-Forwarded-For.
            if UNDERSCORE not in lower or lower.replace(b"_", b"-") not in self._rules.ends_here:
                self._lines.append((name, value))
            return
        known = self._fields.get(lower)
        if known is not None:
            if lower in self._rules.once:
                self._repeated = lower
            self._fields[lower] = known + (b"; " if lower == b"cookie" else b", ") + value
        else:
            self._fields[lower] = value
        if not ends_here:
            self._lines.append((name, value))

    def block(self) -> tuple[HeaderBlock, bytes, bytes]:
        self._check_host()
        length, chunked = self._read_framing()
        keeps_alive, upgrade, nominated = self._read_connection(has_body=bool(length) or chunked)
        if self._fields.get(b"cookie", b"").count(b";") >= COOKIES_MAX:
            raise Refused(431, "more cookies than a browser keeps")
        if (expected := self._fields.get(b"expect")) is not None and expected.lower() != b"100-continue":
            raise Refused(417, "an expectation that is not known here")
        lines, token_lines = self._kept_lines(nominated)
        shown = read_shown(self._fields, self._rules)
        block = _ParsedBlock(
            ProxyFields(self._fields, shown, keeps_alive=keeps_alive),
            lines,
            token_lines,
            length=length,
            chunked=chunked,
            upgrade=upgrade,
            is_http_1_0=self._is_http_1_0,
        )
        return block, self._method, self._target

    def _check_host(self) -> None:
        host = self._fields.get(b"host")
        if host is None and self._is_http_1_0:
            return
        if host is None or not HOST.fullmatch(host):
            raise Refused(400, "no Host")

    def _read_framing(self) -> tuple[int, bool]:
        length = self._fields.get(b"content-length")
        coding = self._fields.get(b"transfer-encoding")
        if coding is not None:
            if length is not None or self._is_http_1_0:
                raise Refused(400, "two framings")
            if coding.lower() != b"chunked":
                raise Refused(501, "a transfer coding that is not known here")
            return 0, True
        if length is None:
            return 0, False
        if not _LENGTH.fullmatch(length):
            raise Refused(400, "a length that is no number")
        return int(length), False

    def _read_connection(self, *, has_body: bool) -> tuple[bool, bytes | None, frozenset[bytes]]:
        """Return whether the connection stays, what it becomes, and which headers belong to it alone."""
        keeps_alive, upgrade = not self._is_http_1_0, None
        named = self._fields.get(b"connection")
        if named is None:
            return keeps_alive, upgrade, frozenset()
        if named.count(b",") >= _OPTIONS_MAX:
            raise Refused(431, "more options of a connection than there are")
        options = frozenset(option.strip().lower() for option in named.split(b","))
        wanted = self._fields.get(b"upgrade", b"")
        # h2c and the like are ignored, as RFC 9110 allows; whatever HTTP/1.0 wants is, as it says (7.8).
        if b"upgrade" in options and wanted.lower() == b"websocket" and not has_body:
            upgrade = None if self._is_http_1_0 else wanted
        nominated = options - {b"close", b"keep-alive", b"upgrade", b""}
        return keeps_alive and b"close" not in options, upgrade, nominated

    def _kept_lines(self, nominated: frozenset[bytes]) -> tuple[bytes, bytes]:
        """Return the lines for every server, and those that hold a token of ours."""
        lines: list[bytes] = []
        token_lines: list[bytes] = []
        for name, value in self._lines:
            if name.lower() not in nominated:
                into = token_lines if self._rules.secrets.has_token(value) else lines
                into += (name, b": ", value, b"\r\n")
        return b"".join(lines), b"".join(token_lines)
