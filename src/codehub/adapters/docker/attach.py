"""A container's streams over the socket of Docker's attach call. Every call blocks: run it in a thread.

Refuses an engine of another machine. Not on the event loop: a home of gigabytes comes in frames of 32 KB, and
each frame would cost the loop one iteration.
"""

import socket
from http import HTTPStatus

from codehub.adapters.docker.address import engine_upstream
from codehub.adapters.docker.frames import HEADER, STDOUT
from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import UnixUpstream

PART_BYTES = 1 << 20
_ERROR_OUTPUT_BYTES_MAX = 8192
_ANSWER_S_MAX = 60.0


class AttachedStreams:
    """A container's output in parts, its input, and the end of its standard error."""

    def __init__(self, url: str, container_id: str) -> None:
        self.error_output = bytearray()
        self.is_disconnected = False
        self._unread = b""
        self._socket = _connect(url)
        try:
            self._file = self._socket.makefile("rb", buffering=PART_BYTES)
            self._ask(container_id)
        except OSError as error:
            self._socket.close()
            raise BackendUnreachable(Message(Code.DOCKER_CUT_OFF, {"text": str(error)})) from None
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
            raise BackendUnreachable(Message(Code.DOCKER_CUT_OFF, {"text": repr(b" ".join(status))}))
        self._socket.settimeout(None)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> bytes:
        """Return the next part of the output, up to PART_BYTES at once; b"" at its end."""
        parts, length = [self._unread], len(self._unread)
        self._unread = b""
        while length < PART_BYTES and (payload := self.read_frame()) is not None:
            parts.append(payload)
            length += len(payload)
        return b"".join(parts)

    def read_line(self) -> bytes:
        """Return the first line of the output."""
        output = b""
        while b"\n" not in output and (payload := self.read_frame()) is not None:
            output += payload
        line, _, self._unread = output.partition(b"\n")
        return line

    def read_frame(self) -> bytes | None:
        """Read one frame, and return its bytes of standard output; None after the last frame."""
        head = self._file.read(HEADER.size)
        if len(head) < HEADER.size:
            return None
        kind, size = HEADER.unpack(head)
        payload: bytes = self._file.read(size)
        if kind == STDOUT:
            return payload
        self.error_output += payload
        del self.error_output[:-_ERROR_OUTPUT_BYTES_MAX]
        return b""

    def write(self, part: memoryview) -> None:
        self._socket.sendall(part)

    def end_input(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def disconnect(self) -> None:
        """End the wait of another thread for this socket."""
        self.is_disconnected = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other side has closed it

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _connect(url: str) -> socket.socket:
    try:
        upstream = engine_upstream(url)
        if not isinstance(upstream, UnixUpstream):
            return socket.create_connection((upstream.host, upstream.port), _ANSWER_S_MAX)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_ANSWER_S_MAX)
        connection.connect(str(upstream.path))
    except OSError as error:
        raise BackendUnreachable(Message(Code.DOCKER_UNREACHABLE, {"url": url, "text": str(error)})) from None
    return connection
