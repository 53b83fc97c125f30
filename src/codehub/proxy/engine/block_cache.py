"""Header blocks by their bytes. A new one is read line by line: most of its lines were seen before.

A head that is not plain is left to HTTP's own parser, which decides alone what is refused.
"""

import re
from typing import Generic, TypeVar

from codehub.proxy.engine.header_block import (
    COOKIES_MAX,
    HOST,
    HeaderBlock,
    ProxyFields,
    Shown,
    read_shown,
    read_whole,
)
from codehub.proxy.engine.heads import LINES_MAX, UNDERSCORE
from codehub.proxy.engine.rules import Rules

T = TypeVar("T")

# A line as we would write it: one blank after the colon, then a value, none after that.
_PLAIN_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]++): (?![\t ])([\t\x20-\x7e]++)(?<![\t ])")
# A head with a body, or with one of these, is not plain.
_UNCOMMON = frozenset({b"content-length", b"expect", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_KEEPS_ALIVE = {b"keep-alive": True, b"close": False}
_PLAIN_LINES_MAX = LINES_MAX - 2
"""The first line and the empty one count too."""

# What becomes of a line: it goes to the next server unread, is read and goes there too, or ends here.
_PASSED_ON, _NOTED, _ENDS_HERE = range(1, 4)


class Recent(Generic[T]):
    """What was read lately, by its bytes, from the second time on: what comes once costs no memory.

    It is forgotten all at once when it is too much.
    """

    __slots__ = ("_bytes_max", "_count_max", "_once", "known")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._once = [0] * count_max
        """The hashes of what came once, each at its own place, where it takes the last one's."""
        self.known: dict[bytes, T] = {}

    def note(self, raw: bytes, result: T) -> None:
        mark = hash(raw)
        place = mark % self._count_max
        if self._once[place] != mark:
            self._once[place] = mark
        elif len(raw) <= self._bytes_max:
            if len(self.known) >= self._count_max:
                self.known.clear()
            self.known[raw] = result


class BlockCache:
    """Reads header blocks, and knows those of all connections that were read lately."""

    __slots__ = ("_blocks", "_kinds", "_lines", "_proxy_fields", "_shown", "_token_prefix", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._token_prefix = rules.secrets.token_prefix
        self._kinds = dict.fromkeys(rules.once, _NOTED) | dict.fromkeys(rules.ends_here, _ENDS_HERE)
        """What becomes of a line, by the name in it; any other is passed on."""
        self._blocks: Recent[HeaderBlock] = Recent(512, 4096)
        self._lines: Recent[int] = Recent(2048, 1024)
        self._proxy_fields: Recent[ProxyFields] = Recent(512, 2048)
        """By the lines that are read here, which most new blocks share with one that was read before."""
        self._shown: Recent[Shown] = Recent(512, 1024)
        """By Host and cookies that came without a token."""

    def read(self, raw: bytes, start: int, *, is_known_method: bool) -> HeaderBlock:
        """Return what the lines of a head of HTTP/1.1 say. Raises Refused.

        They begin at `start`, where the first line has ended.
        """
        text = raw[start:-4]  # without the two ends of a line that end a head
        block = self._blocks.known.get(text)
        if block is None:
            block = self._read_plain(text) if is_known_method else None
            if block is None:
                block, _, _ = read_whole(raw, self.rules, is_http_1_0=False)
            self._blocks.note(text, block)
        return block

    def _read_plain(self, text: bytes) -> HeaderBlock | None:
        """Read lines that are all plain, with no header twice that is read here; None if they are not."""
        kinds = self._lines.known
        lines = text.split(b"\r\n")
        if len(lines) > _PLAIN_LINES_MAX:
            return None
        passed_on: list[bytes] = []
        own: list[bytes] = []
        for line in lines:
            kind = kinds.get(line) or self._read_kind(line)
            if kind == _PASSED_ON:
                passed_on.append(line)
            elif kind is None:
                return None
            else:
                own.append(line)
                if kind == _NOTED:
                    passed_on.append(line)
        own_text = b"\r\n".join(own)
        proxy_fields = self._proxy_fields.known.get(own_text)
        if proxy_fields is None:
            proxy_fields = self._read_proxy_fields(own)
            if proxy_fields is None:
                return None
            self._proxy_fields.note(own_text, proxy_fields)
        passed_on.append(b"")
        return HeaderBlock(proxy_fields, b"\r\n".join(passed_on))

    def _read_kind(self, line: bytes) -> int | None:
        """Read a line for the first time; None if it keeps the head from being plain."""
        match = _PLAIN_LINE.fullmatch(line)
        if match is None:
            return None
        name = match[1].lower()
        kind = self._kinds.get(name, _PASSED_ON)
        if kind != _PASSED_ON:
            if not _is_plain(name, match[2]):
                return None
        # Servers that grew up with CGI read X_Forwarded_For as X-Forwarded-For.
        elif UNDERSCORE in name and name.replace(b"_", b"-") in self.rules.ends_here:
            return None
        if kind != _ENDS_HERE and line.find(self._token_prefix) >= 0:
            return None
        self._lines.note(line, kind)
        return kind

    def _read_proxy_fields(self, lines: list[bytes]) -> ProxyFields | None:
        """Read plain lines of headers that are read here; None if one comes twice or says too much."""
        fields: dict[bytes, bytes] = {}
        for line in lines:
            name, _, value = line.partition(b": ")
            fields[name.lower()] = value
        keeps_alive = _KEEPS_ALIVE.get(fields[b"connection"].lower()) if b"connection" in fields else True
        if len(fields) < len(lines) or b"host" not in fields or keeps_alive is None:
            return None
        return ProxyFields(fields, self._read_shown(fields), keeps_alive=keeps_alive)

    def _read_shown(self, fields: dict[bytes, bytes]) -> Shown:
        if not self.rules.tokens.isdisjoint(fields):
            return read_shown(fields, self.rules)
        host_and_cookies = fields[b"host"] + b" " + fields.get(b"cookie", b"")
        shown = self._shown.known.get(host_and_cookies)
        if shown is None:
            shown = read_shown(fields, self.rules)
            self._shown.note(host_and_cookies, shown)
        return shown


def _is_plain(name: bytes, value: bytes) -> bool:
    """Whether nothing about a header that is read here needs a second look."""
    if name == b"host":
        return HOST.fullmatch(value) is not None
    if name == b"cookie":
        return value.count(b";") < COOKIES_MAX
    return name not in _UNCOMMON
