"""Where a message's body ends: its bytes go in as they come, the place of its end comes out. Anything but one clear end is refused.

The bytes themselves are relayed untouched, so whatever is let through here is what the other side will read.
"""

import math
import re

from codehub.proxy.cookies import TOKEN

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
_LINE_BYTES_MAX = 4096
_TRAILER_BYTES_MAX = 16_384
# What says where a message ends, where it goes or who sends it must not come after it (RFC 9110, 6.5.1).
NEVER_TRAILERS = frozenset(
    {
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-range",
        b"content-type",
        b"cookie",
        b"host",
        b"set-cookie",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


class Malformed(Exception):
    """This is no message. Its text says what is wrong; the connection can't be used any more."""


class TooLarge(Malformed):
    """This may be a message, but one that whoever it is for would not take."""


class Sized:
    """A body of so many bytes."""

    __slots__ = ("done", "left")

    def __init__(self, length: int) -> None:
        self.left = length
        self.done = length == 0

    def take(self, data: bytes, start: int) -> int:
        """Return where the body's part of `data`, which begins at `start`, ends."""
        end = start + self.left
        if end <= len(data):
            self.left = 0
            self.done = True
            return end
        self.left = end - len(data)
        return len(data)


NO_BODY = Sized(0)


class UntilClose:
    """A body that ends with its connection."""

    __slots__ = ()
    done = False

    def take(self, data: bytes, _start: int) -> int:
        return len(data)


class Chunked:
    """A chunked body, its trailers included. With `decodes` the content alone is gathered in `content`.

    A line is taken once it is all there: until then `take` leaves it, and wants it again with what follows.
    `refused` are the names of trailers that can't be, in lower case; None: there can't be any.
    """

    __slots__ = (
        "_content_left",
        "_data_left",
        "_in_trailers",
        "_line_bytes_max",
        "_refused",
        "content",
        "done",
    )

    def __init__(
        self,
        *,
        decodes: bool = False,
        refused: frozenset[bytes] | None = NEVER_TRAILERS,
        content_bytes_max: float = math.inf,
    ) -> None:
        self.done = False
        self._content_left = content_bytes_max
        self.content: list[bytes] | None = [] if decodes else None
        self._data_left = 0  # of the chunk and the CRLF after it
        self._in_trailers = False
        self._line_bytes_max = _LINE_BYTES_MAX
        self._refused = refused

    def take(self, data: bytes, start: int) -> int:
        """Return where the body's part of `data`, which begins at `start`, ends. Raises Malformed, TooLarge included."""
        position, end = start, len(data)
        while position < end and not self.done:
            stop = self._chunk(data, position) if self._data_left else self._next_line(data, position)
            if stop == position:
                break
            position = stop
        return position

    def _chunk(self, data: bytes, position: int) -> int:
        content_left = self._data_left - 2
        if content_left > 0:
            stop = min(position + content_left, len(data))
            if self.content is not None:
                self.content.append(data[position:stop])
            self._data_left -= stop - position
            return stop
        expected = 13 if self._data_left == 2 else 10  # noqa: PLR2004  # CR, then LF
        if data[position] != expected:
            raise Malformed("a chunk is longer than it says")
        self._data_left -= 1
        return position + 1

    def _next_line(self, data: bytes, position: int) -> int:
        end = data.find(b"\n", position)
        stop = len(data) if end < 0 else end + 1
        if stop - position > self._line_bytes_max:
            raise Malformed("a chunk's line is too long")
        if end < 0:
            return position
        line = data[position:stop]
        if not line.endswith(b"\r\n"):
            raise Malformed("a chunk's line ends without CR")
        if self._in_trailers:
            self._trailer(line[:-2])
        else:
            self._size(line[:-2])
        return stop

    def _size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise Malformed("a chunk's size is not a number")
        size = int(match[1], 16)
        self._content_left -= size
        if self._content_left < 0:
            raise TooLarge("the body is too large")
        if size:
            self._data_left = size + 2
        else:
            self._in_trailers = True
            self._line_bytes_max = _TRAILER_BYTES_MAX

    def _trailer(self, line: bytes) -> None:
        if not line:
            self.done = True
            return
        self._line_bytes_max -= len(line)
        match = _TRAILER.fullmatch(line)
        if match is None or self._refused is None or _plain(match[1]) in self._refused or TOKEN.search(line):
            raise Malformed("a trailer that can't be")


def _plain(name: bytes) -> bytes:
    """Return a header's name as servers compare it: those that grew up with CGI read X_Forwarded_For as X-Forwarded-For."""
    return name.lower().replace(b"_", b"-")


Body = Sized | Chunked | UntilClose
