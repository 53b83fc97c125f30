"""Where a head ends, of a request or a response, and how much it may be."""

import re

HEAD_END = b"\r\n\r\n"
LINES_MAX = 256
"""Each costs as much as a hundred bytes."""
_EMPTY_LINES = re.compile(rb"\A(?:\r\n)+")


class Refused(Exception):
    """A request that is answered with this status and goes nowhere; its connection is closed."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def head_in(data: bytes, bytes_max: int, seen: int = 0) -> tuple[bytes, int]:
    """Return the bytes from a head's first on, and where it ends; 0 if it is not all there. Raises Refused.

    So many of them were `seen` before: a head that comes byte by byte is not looked through as often.
    """
    if data.startswith(b"\r\n"):  # after the last body (RFC 9112, 2.2)
        data, seen = _EMPTY_LINES.sub(b"", data), 0
    start = max(0, seen - len(HEAD_END) + 1)
    found = data.find(HEAD_END, start)
    end = 0 if found < 0 else found + len(HEAD_END)
    if (end or len(data)) > bytes_max:
        raise Refused(431, "the head is too large")
    # What was seen ends with a CR at most: its LF comes now.
    start = max(0, seen - 1)
    if not end and (data.count(b"\n", seen) != data.count(b"\r\n", start) or data.find(b"\0", seen) >= 0):
        raise Refused(400, "a line that is not ended by CRLF")
    return data, end
