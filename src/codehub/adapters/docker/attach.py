"""A container's streams as a socket that Docker hands over. Every call blocks: for a thread. Refuses an engine that is not of this machine.

Not on the event loop: a home of gigabytes comes in frames of 32 KB, and each would cost it a turn.
"""

import socket
from http import HTTPStatus
from urllib.parse import urlsplit

from codehub.adapters.docker.frames import HEADER, STDOUT
from codehub.ports.backends import BackendUnreachable

PART_BYTES = 1 << 20
_TOLD_BYTES_MAX = 8192
_ANSWER_S_MAX = 60.0


class Attached:
    """Its output in parts, its input, and the last of what it told on its standard error."""

    def __init__(self, url: str, container_id: str) -> None:
        self.told = bytearray()
        self.is_hung_up = False
        self._rest = b""
        self._socket = _connected(url)
        try:
            self._file = self._socket.makefile("rb", buffering=PART_BYTES)
            self._ask(container_id)
        except OSError as error:
            self._socket.close()
            raise BackendUnreachable(f"Docker hung up on a container's streams: {error}") from None
        except BaseException:
            self._socket.close()
            raise

    def _ask(self, container_id: str) -> None:
        query = "stream=1&stdin=1&stdout=1&stderr=1"
        self._socket.sendall(
            f"POST /containers/{container_id}/attach?{query} HTTP/1.1\r\nHost: docker\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode()
        )
        status = self._file.readline().split()
        while self._file.readline().strip():
            pass
        accepted = (HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.OK)
        if len(status) < 2 or int(status[1]) not in accepted:  # noqa: PLR2004  # version and code
            raise BackendUnreachable(
                f"Docker does not hand over a container's streams: {b' '.join(status)!r}"
            )
        self._socket.settimeout(None)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> bytes:
        """Return the next part of its output, a large one if there is enough; nothing when it has ended."""
        parts, length = [self._rest], len(self._rest)
        self._rest = b""
        while length < PART_BYTES and (words := self.hear()) is not None:
            parts.append(words)
            length += len(words)
        return b"".join(parts)

    def line(self) -> bytes:
        """Return the first line of its output."""
        heard = b""
        while b"\n" not in heard and (words := self.hear()) is not None:
            heard += words
        line, _, self._rest = heard.partition(b"\n")
        return line

    def hear(self) -> bytes | None:
        """Take in one frame, and return what it holds of the output. None when there are no more."""
        head = self._file.read(HEADER.size)
        if len(head) < HEADER.size:
            return None
        kind, size = HEADER.unpack(head)
        words: bytes = self._file.read(size)
        if kind == STDOUT:
            return words
        self.told += words
        del self.told[:-_TOLD_BYTES_MAX]
        return b""

    def write(self, part: memoryview) -> None:
        self._socket.sendall(part)

    def end_input(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        """Let whoever waits for it, in another thread, wait no longer."""
        self.is_hung_up = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has been closed from the other side

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    try:
        if parts.scheme == "unix":
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(_ANSWER_S_MAX)
            made.connect(parts.path)
            return made
        if parts.scheme in ("tcp", "http") and parts.hostname is not None:
            return socket.create_connection((parts.hostname, parts.port or 2375), _ANSWER_S_MAX)
    except OSError as error:
        raise BackendUnreachable(f"the Docker engine {url} can't be asked: {error}") from None
    raise BackendUnreachable(f"the Docker engine {url!r} is no unix:// or tcp:// address of this machine")
