"""WebSocket frames: bytes go in as they come, how many data frames began in them comes out. Payloads are skipped unread."""

_CONTROL = 0x08
_MASKED = 0x80


class FrameCounter:
    """One direction of one WebSocket."""

    __slots__ = ("_header", "_skip")

    def __init__(self) -> None:
        self._header = b""
        self._skip = 0

    def feed(self, data: bytes) -> int:
        """Return how many data frames (text, binary, continuation) begin in these bytes."""
        found, position, end = 0, 0, len(data)
        while position < end:
            if self._skip:
                step = min(self._skip, end - position)
                self._skip -= step
                position += step
                continue
            header = self._header + data[position : position + 14]
            size = _header_size(header)
            if size is None or len(header) < size:
                self._header = header
                return found
            position += size - len(self._header)
            self._header = b""
            self._skip = _payload_size(header)
            found += not header[0] & _CONTROL
        return found


def _header_size(header: bytes) -> int | None:
    if len(header) < 2:  # noqa: PLR2004  # its length is in the second byte
        return None
    extra = {126: 2, 127: 8}.get(header[1] & 0x7F, 0)
    return 2 + extra + (4 if header[1] & _MASKED else 0)


def _payload_size(header: bytes) -> int:
    size = header[1] & 0x7F
    if size == 126:  # noqa: PLR2004  # two bytes follow, and eight after 127
        return int.from_bytes(header[2:4], "big")
    return int.from_bytes(header[2:10], "big") if size == 127 else size  # noqa: PLR2004
