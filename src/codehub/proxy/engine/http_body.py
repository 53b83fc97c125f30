"""Where a message's body ends: its bytes go in as they come, the place of its end comes out.

Anything but one clear end is refused. The bytes themselves are relayed untouched, so whatever is let through
here is what the other side will read.
"""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TRAILER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
_LINE_BYTES_MAX = 4096
_TRAILER_BYTES_MAX = 16_384
# So many small chunks, as every server writes them, are walked by one expression: Python would take fifty
# times as long.
_SMALL_CHUNKS_MAX = 32
_SMALL_CHUNK = "|".join(
    rf"[{size:x}{size:X}]\r\n.{{{size}}}\r\n" if size > 9 else rf"{size:x}\r\n.{{{size}}}\r\n"  # noqa: PLR2004
    for size in range(1, 16)
)
_SMALL_CHUNKS = re.compile(rf"(?s:{_SMALL_CHUNK}){{1,{_SMALL_CHUNKS_MAX}}}+".encode())
STEPS_MAX = 128
"""How many lines, chunks or runs of small ones are read at once: others come next, then the rest."""
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
    """This may be a message, but a larger one than whoever it is for takes."""


class Sized:
    """A body of so many bytes."""

    __slots__ = ("done", "left")
    has_more = False

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
    has_more = False

    def take(self, data: bytes, _start: int) -> int:
        return len(data)


class Framing(NamedTuple):
    """How many bytes may be around a body's content: so many for each of its bytes, and so many more."""

    per_byte: int
    spare: int


LOOSE = Framing(5, 65_536)
"""A chunk of one byte takes five: as many of those as anybody likes, but not with extensions or zeros."""
TIGHT = Framing(1, 4_096)


class Chunked:
    """A chunked body, its trailers included.

    `take` reads so much at once, and `has_more` says that there is more.
    A line is taken once it is all there: until then `take` leaves it, and wants it again with what follows.
    `refused` are the names of trailers that can't be, in lower case; None: there can't be any. `is_secret`
    says of a trailer's line that it can't be either.
    It is passed on as it came, or its content alone (`decodes`), or that in chunks of ours (`reframes`).
    """

    __slots__ = (
        "_content",
        "_content_left",
        "_data_left",
        "_framing",
        "_framing_left",
        "_in_trailers",
        "_is_secret",
        "_line_bytes_max",
        "_reframes",
        "_refused",
        "done",
        "has_more",
    )

    def __init__(
        self,
        *,
        decodes: bool = False,
        reframes: bool = False,
        refused: frozenset[bytes] | None = NEVER_TRAILERS,
        is_secret: Callable[[bytes], bool] = lambda _line: False,
        content_bytes_max: float = math.inf,
        framing: Framing = LOOSE,
    ) -> None:
        self.done = False
        self.has_more = False
        self._content: list[bytes] | None = [] if decodes or reframes else None
        self._reframes = reframes
        self._content_left = content_bytes_max
        self._framing = framing
        self._framing_left = framing.spare
        self._data_left = 0  # of the chunk and the CRLF after it
        self._in_trailers = False
        self._line_bytes_max = _LINE_BYTES_MAX
        self._refused = refused
        self._is_secret = is_secret

    def take(self, data: bytes, start: int) -> int:
        """Return where the body's part of `data`, from `start`, ends, or how far it was read by now.

        Raises Malformed, TooLarge included.
        """
        position, end, steps = start, len(data), STEPS_MAX
        while position < end and not self.done and steps:
            stop = self._step(data, position)
            if stop == position:
                self.has_more = False
                return position
            position = stop
            steps -= 1
        self.has_more = position < end and not self.done
        return position

    @property
    def is_between_chunks(self) -> bool:
        return not self._data_left and not self._in_trailers

    @property
    def is_as_it_came(self) -> bool:
        return self._content is None

    def passed_on(self, data: bytes, start: int, stop: int) -> bytes:
        """Return what the other side is given of what was just taken."""
        if self._content is None:
            return data if not start and stop == len(data) else data[start:stop]
        content = b"".join(self._content)
        self._content.clear()
        if not self._reframes:
            return content
        framed = b"%x\r\n%b\r\n" % (len(content), content) if content else b""
        return framed + b"0\r\n\r\n" if self.done else framed

    def _step(self, data: bytes, position: int) -> int:
        if self._data_left:
            return self._chunk(data, position)
        if self._in_trailers:
            return self._trailer_line(data, position)
        small = None if self._content is not None else _SMALL_CHUNKS.match(data, position)
        return self._size_line(data, position) if small is None else small.end()

    def _chunk(self, data: bytes, position: int) -> int:
        stop = position + self._data_left
        if self._data_left >= 2 and stop <= len(data):  # noqa: PLR2004  # with its CRLF, to the end
            if not data.startswith(b"\r\n", stop - 2):
                raise Malformed("a chunk is longer than it says")
            if self._content is not None:
                self._content.append(data[position : stop - 2])
            self._data_left = 0
            return stop
        content_left = self._data_left - 2
        if content_left > 0:
            stop = min(position + content_left, len(data))
            if self._content is not None:
                self._content.append(data[position:stop])
            self._data_left -= stop - position
            return stop
        expected = 13 if self._data_left == 2 else 10  # noqa: PLR2004  # CR, then LF
        if data[position] != expected:
            raise Malformed("a chunk is longer than it says")
        self._data_left -= 1
        return position + 1

    def _size_line(self, data: bytes, position: int) -> int:
        match = _SIZE_LINE.match(data, position, position + self._line_bytes_max)
        if match is None:
            if self._line_end(data, position) == position:
                return position
            raise Malformed("a chunk's size is not a number")
        size = int(match[1], 16)
        self._content_left -= size
        if self._content_left < 0:
            raise TooLarge("the body is too large")
        stop = match.end()
        if size:
            self._data_left = size + 2
            self._framing_left += size * self._framing.per_byte - (stop - position) - 2
            if self._framing_left < 0:
                raise Malformed("its chunks are too small for what is around them")
            return self._chunk(data, stop) if stop < len(data) else stop
        self._in_trailers = True
        self._line_bytes_max = _TRAILER_BYTES_MAX
        return stop

    def _trailer_line(self, data: bytes, position: int) -> int:
        stop = self._line_end(data, position)
        if stop == position:
            return position
        line = data[position : stop - 2]
        if not line:
            self.done = True
            return stop
        self._line_bytes_max -= len(line) + 2
        match = _TRAILER.fullmatch(line)
        is_refused = match is None or self._refused is None or _plain(match[1]) in self._refused
        if is_refused or self._is_secret(line):
            raise Malformed("a trailer that can't be")
        return stop

    def _line_end(self, data: bytes, position: int) -> int:
        """Return where the line that begins here ends; here, if that has not come yet.

        Raises Malformed for one that is too long or ends without CR.
        """
        newline = data.find(b"\n", position, position + self._line_bytes_max)
        if newline < 0 and len(data) - position >= self._line_bytes_max:
            raise Malformed("a chunk's line is too long")
        if newline < 0:
            return position
        if newline == position or data[newline - 1] != 13:  # noqa: PLR2004  # CR
            raise Malformed("a chunk's line ends without CR")
        return newline + 1


def _plain(name: bytes) -> bytes:
    """Return a header's name as servers compare it.

    Those that grew up with CGI read X_Forwarded_For as X-Forwarded-For.
    """
    return name.lower().replace(b"_", b"-")


Body = Sized | Chunked | UntilClose
