"""WebSocket frames: bytes go in, the sizes of data frames come out, and what is in the short ones."""

CONTROL = 0x08
MASKED = 0x80
_SHORT = 1_024
_AT_ONCE_MAX = 1_024
MASKED_HEADER = 6
GOING_AWAY = b"\x88\x02\x03\xe9"
"""A server's Close frame with 1001: it ends, and another may serve (RFC 6455, 7.4.1)."""

# Its payload's size, and the payload itself; of a long frame nothing is kept.
Frame = tuple[int, bytes]


class FrameReader:
    """One direction of one WebSocket.

    Who sends more frames at once than anybody reads is not read on frame by frame: what comes counts as one
    frame each time, until it is one again.
    """

    __slots__ = ("_is_lost", "_rest", "_skip", "is_within")

    def __init__(self) -> None:
        self._rest = b""
        self._skip = 0
        self._is_lost = False
        self.is_within = False
        """Whether what comes next belongs to a frame of which a part was read."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the data frames (text, binary, continuation) in these bytes.

        Short ones when they end, long ones when they begin.
        """
        if (self._is_lost or not self.is_within) and (whole := _one_whole(data)) is not None:
            self._is_lost = self.is_within = False
            return whole
        if self._is_lost:
            return [(len(data), b"")]
        frames: list[Frame] = []
        data = self._rest + data if self._rest else data
        position, end, left = 0, len(data), _AT_ONCE_MAX
        while position < end:
            left -= 1
            if not left:
                self._lose()
                return frames
            if self._skip:
                step = min(self._skip, end - position)
                self._skip -= step
                position += step
                continue
            header = data[position : position + 14]
            before = _header_size(header)
            if before is None or len(header) < before:
                break
            size = _payload_size(header)
            is_short = size <= _SHORT
            if is_short and end - position < before + size:
                break
            position += before
            if not header[0] & CONTROL:
                frames.append(
                    (size, _unmask(header, before, data[position : position + size]) if is_short else b"")
                )
            self._skip = size
        self._rest = data[position:]
        self.is_within = bool(self._skip or self._rest)
        return frames

    def _lose(self) -> None:
        self._is_lost = self.is_within = True
        self._rest, self._skip = b"", 0


def _one_whole(data: bytes) -> list[Frame] | None:
    """Read bytes that are one short frame from end to end, as most are; None if they are not."""
    if len(data) < MASKED_HEADER:
        return None
    size, start = data[1] & 0x7F, 2
    if size == 126:  # noqa: PLR2004  # two bytes follow
        size, start = (data[2] << 8) | data[3], 4
    if data[1] & MASKED:
        start += 4
    if size > _SHORT or len(data) != start + size:
        return None
    return [] if data[0] & CONTROL else [(size, _unmask(data, start, data[start:]))]


def _unmask(header: bytes, size: int, payload: bytes) -> bytes:
    if not header[1] & MASKED:
        return payload
    length = len(payload)
    mask = (header[size - 4 : size] * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")).to_bytes(length, "big")


def _header_size(header: bytes) -> int | None:
    if len(header) < 2:  # noqa: PLR2004  # its length is in the second byte
        return None
    extra = {126: 2, 127: 8}.get(header[1] & 0x7F, 0)
    return 2 + extra + (4 if header[1] & MASKED else 0)


def _payload_size(header: bytes) -> int:
    size = header[1] & 0x7F
    if size == 126:  # noqa: PLR2004  # two bytes follow, and eight after 127
        return int.from_bytes(header[2:4], "big")
    return int.from_bytes(header[2:10], "big") if size == 127 else size  # noqa: PLR2004
