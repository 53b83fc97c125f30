"""A request's head: its bytes go in, what it asks for comes out, and the head for the next server.

What could be read in two ways is refused.
"""

import re
from typing import TYPE_CHECKING, Any

from codehub.proxy.engine.block_cache import BlockCache
from codehub.proxy.engine.header_block import HeaderBlock, ProxyFields, read_whole
from codehub.proxy.engine.heads import HEAD_END, PERCENT, Refused
from codehub.proxy.engine.http_body import NEVER_TRAILERS, NO_BODY, TIGHT, Body, Chunked, Sized, TooLarge
from codehub.proxy.engine.rules import ENDS_HERE, Rules

if TYPE_CHECKING:
    from codehub.proxy.engine.responses import HeadChange

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})|%00")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)
_LINE = re.compile(rb"([A-Z]{3,16}) (/[!-\"$-\[\]-~]*) HTTP/1\.1\r\n")
_TARGET = re.compile(rb"/[!-\"$-\[\]-~]*")
_METHODS = frozenset(
    b"GET HEAD POST PUT DELETE PATCH OPTIONS"
    b" PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH".split()
)
_FOREIGN_METHODS = frozenset({b"CONNECT", b"TRACE", b"PRI"})
_SAFE_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_REPEATABLE_METHODS = _SAFE_METHODS | {b"PUT", b"DELETE"}
# Some servers take trailers for headers, so what ends here can't come after the body either.
_REFUSED_TRAILERS = NEVER_TRAILERS | ENDS_HERE


class RequestHead:
    """One connection's request heads, one after another: `read` replaces the last one."""

    __slots__ = (
        "_blocks",
        "_bytes_max",
        "_host",
        "_line",
        "_raw",
        "answer_change",
        "block",
        "body",
        "insertion",
        "method",
        "request_id",
        "route",
        "rules",
        "target",
        "upgrade",
    )

    def __init__(self, blocks: BlockCache) -> None:
        """`blocks` are those that were read lately; shared by all connections."""
        self.rules = blocks.rules
        self._blocks = blocks
        self._bytes_max: int | None = None
        self._host = b""  # of the route; none if the target is another since it was read
        self._line = b""
        self._raw = b""
        self.block = _NO_BLOCK
        self.method = b""
        self.target = b""
        self.route: Any = None
        """What it is for, as the rules read its target and its Host."""
        self.request_id = b""
        """The client's own, or the one that was given to it when it was read."""
        self.body: Body = NO_BODY
        self.upgrade: bytes | None = None
        self.answer_change: HeadChange | None = None
        """What its answer says in place of what the server says, as the policy wants it."""
        self.insertion: Any = None
        """What its answer may get on its way, as the target says to which it goes."""

    def read(self, raw: bytes) -> None:
        """Read a head, from its first byte to the empty line that ends it. Raises Refused."""
        if raw == self._raw and self.body is NO_BODY:  # once more the same
            return
        self._raw = b""
        if self._line and raw.startswith(self._line):  # asked for once more, by other headers
            self._take_block(self._blocks.read(raw, len(self._line), is_known_method=True))
            self._raw = raw
            return
        self._line = b""
        line = _LINE.match(raw)
        if line is None:
            self._read_uncommon(raw)
            return
        method, target = line.groups()
        self._take(self._blocks.read(raw, line.end(), is_known_method=method in _METHODS), method, target)
        self._raw, self._line = raw, line[0]

    def _read_uncommon(self, raw: bytes) -> None:
        """Read what is not a plain path of HTTP/1.1."""
        line = raw[: raw.find(b"\r\n")]
        if not line.endswith((b" HTTP/1.1", b" HTTP/1.0")):
            is_other = re.search(rb" HTTP/[0-9]", line)
            raise Refused(*((505, "only HTTP/1.1 is spoken here") if is_other else (400, "no request line")))
        if line.count(b" ") != 2:  # noqa: PLR2004  # between method, target and version
            raise Refused(400, "no request line")
        block, method, target = read_whole(raw, self.rules, is_http_1_0=line.endswith(b"0"))
        if method in _FOREIGN_METHODS:
            raise Refused(405, "this method is not for here")
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is not None:
            if absolute[1] != block.fields.get(b"host"):
                raise Refused(400, "a target that is not of this server")
            target = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
        if not _TARGET.fullmatch(target):
            raise Refused(400, "a target that is not of this server, or with a character that can't be in it")
        self._take(block, method, target)

    def _take(self, block: HeaderBlock, method: bytes, target: bytes) -> None:
        if method not in _METHODS:
            raise Refused(405 if method in _FOREIGN_METHODS else 400, "this method is not for here")
        if PERCENT in target or target.find(b"/.") >= 0:
            _check_path(target.partition(b"?")[0])
        self.method = method
        if target != self.target:
            self.target = target
            self._host = b""
        self._take_block(block)

    def _take_block(self, block: HeaderBlock) -> None:
        """Take the lines after the first, which says what was taken already."""
        rules = self.rules
        self.block = block
        if block.host != self._host:
            self._host = block.host
            self.route = rules.route(self.target, block.host)
        self.upgrade = block.upgrade if self.method == b"GET" else None
        if not block.length and not block.chunked:
            self.body = NO_BODY
            return
        self._bytes_max = bytes_max = rules.body_bytes_max(self.route)
        if not block.chunked:
            self.body = Sized(block.length)
        elif bytes_max is None:
            self.body = Chunked(refused=_REFUSED_TRAILERS, is_secret=rules.secrets.has_token)
        else:
            # uvicorn is one of those servers, and has no use for any. Nor for what else is between chunks.
            self.body = Chunked(refused=None, reframes=True, content_bytes_max=bytes_max, framing=TIGHT)

    def take_body(self, data: bytes, start: int) -> int:
        """Return where the body's part of `data`, which begins at `start`, ends.

        Raises Malformed; what the rules don't allow is TooLarge.
        """
        if self._bytes_max is not None and self.block.length > self._bytes_max:
            raise TooLarge("the body is too large")
        return self.body.take(data, start)

    def passed_on(self, data: bytes, start: int, stop: int) -> bytes:
        """Return what the next server is given of the body's part that was just taken."""
        if type(self.body) is Chunked:
            return self.body.passed_on(data, start, stop)
        return data if not start and stop == len(data) else data[start:stop]

    def noted(self, name: bytes) -> bytes:
        """Return a header that the policy reads, by its name in lower case; empty if there is none."""
        return self.block.noted(name, self.rules)

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be sent again when a pooled connection turns out to be dead."""
        return self.body is NO_BODY and self.method in _REPEATABLE_METHODS and self.upgrade is None

    @property
    def is_safe(self) -> bool:
        """Whether it changes nothing, so that it may be asked again though it may have been answered."""
        return self.body is NO_BODY and self.method in _SAFE_METHODS and self.upgrade is None

    def to_upstream(
        self, path: bytes, lines: bytes, mount_line: bytes, sender_lines: bytes, request_id: bytes
    ) -> bytes:
        """Return the head as the next server is given it.

        `lines` are the block's for it, `mount_line` says where it is mounted, `sender_lines` who asks."""
        if self.upgrade is not None:
            mount_line += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % self.upgrade
        return b"".join(
            (
                self.method,
                b" ",
                path,
                b" HTTP/1.1\r\n",
                lines,
                mount_line,
                sender_lines,
                b"X-Request-Id: ",
                request_id,
                HEAD_END,
            )
        )


def _check_path(path: bytes) -> None:
    if PERCENT in path and _BAD_ESCAPE.search(path):
        raise Refused(400, "a path that is badly escaped")
    segments = path.lower().replace(b"%2e", b".").replace(b"%2f", b"/").split(b"/")
    if b".." in segments or b"." in segments:
        raise Refused(400, "a path with dot segments")


_NO_BLOCK = HeaderBlock(ProxyFields({}, (None, b""), keeps_alive=True), b"")
NO_HEAD = RequestHead(BlockCache(Rules()))
"""Of a connection that reads no more heads."""
