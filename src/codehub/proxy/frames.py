"""WebSocket frames: bytes go in as they come, data frames come out: how large each is, and what is in it if it is short."""

_CONTROL = 0x08
_MASKED = 0x80
_SHORT = 1_024

# Its payload's size, and the payload itself; of a long frame nothing is kept.
Frame = tuple[int, bytes]


class FrameReader:
    """One direction of one WebSocket."""

    __slots__ = ("_rest", "_skip")

    def __init__(self) -> None:
        self._rest = b""
        self._skip = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Return the data frames (text, binary, continuation) in these bytes: short ones when they end, long ones when they begin."""
        found: list[Frame] = []
        data = self._rest + data if self._rest else data
        position, end = 0, len(data)
        while position < end:
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
            if not header[0] & _CONTROL:
                found.append(
                    (size, _unmasked(header, before, data[position : position + size]) if is_short else b"")
                )
            self._skip = size
        self._rest = data[position:]
        return found


def _unmasked(header: bytes, size: int, payload: bytes) -> bytes:
    if not header[1] & _MASKED:
        return payload
    length = len(payload)
    mask = (header[size - 4 : size] * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")).to_bytes(length, "big")


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
