"""Where a head ends, of a request or a response, and how much it may be."""

import re

HEAD_END = b"\r\n\r\n"
LINES_MAX = 256
"""Each costs as much as a hundred bytes."""
# Bytes as numbers: `b"%" in text` raises and catches an error inside Python, `PERCENT in text` and `find`
# do not, and take a third of its time.
PERCENT, UNDERSCORE = b"%_"
_EMPTY_LINES = re.compile(rb"\A(?:\r\n)+")


class Refused(Exception):
    """A request that is answered with this status and goes nowhere; its connection is closed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def find_head(data: bytes, bytes_max: int, searched: int = 0) -> tuple[bytes, int]:
    """Return the bytes from a head's first on, and where it ends; 0 if it is not all there. Raises Refused.

    So many of them were `searched` before: a head that comes byte by byte is not looked through as often.
    """
    if data.startswith(b"\r\n"):  # after the last body (RFC 9112, 2.2)
        data, searched = _EMPTY_LINES.sub(b"", data), 0
    position = data.find(HEAD_END, max(0, searched - len(HEAD_END) + 1))
    end = 0 if position < 0 else position + len(HEAD_END)
    if (end or len(data)) > bytes_max:
        raise Refused(431, "the head is too large")
    # What was searched ends with a CR at most: its LF comes now.
    start = max(0, searched - 1)
    if not end and (
        data.count(b"\n", searched) != data.count(b"\r\n", start) or data.find(b"\0", searched) >= 0
    ):
        raise Refused(400, "a line that is not ended by CRLF")
    return data, end
