"""Header blocks by their bytes. A new one is read line by line: most of its lines were seen before.

A head that is not plain is left to HTTP's own parser, which decides alone what is refused.
"""

import re
from typing import Generic, TypeVar

from codehub.proxy.engine.header_block import COOKIES_MAX, HOST, HeaderBlock, Shown, read_shown, read_whole
from codehub.proxy.engine.heads import LINES_MAX
from codehub.proxy.engine.rules import ENDS_HERE, Rules

T = TypeVar("T")

# A line as we would write it: one blank after the colon, then a value, none after that.
_PLAIN_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]++): (?![\t ])([\t\x20-\x7e]++)(?<![\t ])")
# A head with a body, or with one of these, is not plain.
_UNCOMMON = frozenset({b"content-length", b"expect", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_KEEPS_ALIVE = {b"keep-alive": True, b"close": False}
_PLAIN_LINES_MAX = LINES_MAX - 2
"""The first line and the empty one count too."""

# A header that is read here: its name in lower case, its value, and whether it ends here.
Field = tuple[bytes, bytes, bool]
_PASSED_ON: Field = (b"", b"", False)
"""Any other header."""


class Recent(Generic[T]):
    """What was read lately, by its bytes, from the second time on: what comes once costs no memory.

    It is forgotten all at once when it is too much.
    """

    __slots__ = ("_bytes_max", "_count_max", "_once", "known")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._once: set[int] = set()
        """The hashes of what came once. If two are alike, something is kept a little too early."""
        self.known: dict[bytes, T] = {}

    def note(self, raw: bytes, result: T) -> None:
        mark = hash(raw)
        if mark not in self._once:
            if len(self._once) >= self._count_max:
                self._once.clear()
            self._once.add(mark)
        elif len(raw) <= self._bytes_max:
            if len(self.known) >= self._count_max:
                self.known.clear()
            self.known[raw] = result


class BlockCache:
    """Reads header blocks, and knows those of all connections that were read lately."""

    __slots__ = ("_blocks", "_lines", "_shown", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._blocks: Recent[HeaderBlock] = Recent(512, 4096)
        self._lines: Recent[Field] = Recent(2048, 1024)
        self._shown: Recent[Shown] = Recent(512, 1024)
        """By cookies that came without an Authorization."""

    def read(self, raw: bytes, start: int, *, is_known_method: bool) -> HeaderBlock:
        """Return what the lines of a head of HTTP/1.1 say. Raises Refused.

        They begin at `start`, where the first line has ended.
        """
        lines = raw[start:]
        block = self._blocks.known.get(lines)
        if block is None:
            block = self._read_plain(lines) if is_known_method else None
            if block is None:
                block, _, _ = read_whole(raw, self.rules, is_http_1_0=False)
            self._blocks.note(lines, block)
        return block

    def _read_plain(self, raw: bytes) -> HeaderBlock | None:
        """Read lines that are all plain, with no header twice that is read here; None if they are not."""
        known = self._lines.known
        fields: dict[bytes, bytes] = {}
        kept: list[bytes] = []
        lines = raw[:-4].split(b"\r\n")
        if len(lines) > _PLAIN_LINES_MAX:
            return None
        for line in lines:
            field = known.get(line) or self._read_line(line)
            if field is _PASSED_ON:
                kept.append(line)
                continue
            if field is None:
                return None
            name, value, ends_here = field
            if name in fields:
                return None
            fields[name] = value
            if not ends_here:
                kept.append(line)
        keeps_alive = _KEEPS_ALIVE.get(fields[b"connection"].lower()) if b"connection" in fields else True
        if b"host" not in fields or keeps_alive is None:
            return None
        kept.append(b"")
        return HeaderBlock(fields, b"\r\n".join(kept), self._read_shown(fields), keeps_alive=keeps_alive)

    def _read_line(self, line: bytes) -> Field | None:
        """Read a line for the first time; None if it keeps the head from being plain."""
        match = _PLAIN_LINE.fullmatch(line)
        if match is None:
            return None
        name = match[1].lower()
        field = _PASSED_ON
        if name in ENDS_HERE or name in self.rules.once:
            field = (name, match[2], name in ENDS_HERE)
            if not _is_plain(name, field[1]):
                return None
        # Servers that grew up with CGI read X_Forwarded_For as X-Forwarded-For.
        elif b"_" in name and name.replace(b"_", b"-") in ENDS_HERE:
            return None
        if not field[2] and self.rules.secrets.token_prefix in line:
            return None
        self._lines.note(line, field)
        return field

    def _read_shown(self, fields: dict[bytes, bytes]) -> Shown:
        cookies = fields.get(b"cookie", b"")
        if b"authorization" in fields:
            return read_shown(cookies, fields[b"authorization"], self.rules)
        shown = self._shown.known.get(cookies)
        if shown is None:
            shown = read_shown(cookies, b"", self.rules)
            self._shown.note(cookies, shown)
        return shown


def _is_plain(name: bytes, value: bytes) -> bool:
    """Whether nothing about a header that is read here needs a second look."""
    if name == b"host":
        return HOST.fullmatch(value) is not None
    if name == b"cookie":
        return value.count(b";") < COOKIES_MAX
    return name not in _UNCOMMON
