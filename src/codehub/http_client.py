"""HTTP over one connection, blocking: a question goes in, its answer
comes out, whole or line by line. Raises Unreachable.

Over http.client: a command imports nothing that takes longer (docs/adr/0032-two-http-clients.md).
"""

import http.client
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

_PART_BYTES = 65_536
_NO_TLS = "WRONG_VERSION_NUMBER"  # OpenSSL's word for an answer without TLS
_BROKEN = (OSError, http.client.HTTPException)


class Unreachable(Exception):
    """There is no answer, or only half of one. Its text says why."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(getattr(error, "strerror", None) or str(error) or type(error).__name__)
        self.is_without_tls = getattr(error, "reason", None) == _NO_TLS


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Connection:
    """To one http:// or https:// server. It stays open between questions."""

    def __init__(self, url: str, *, answer_s_max: float) -> None:
        self._url = urlsplit(url)
        self._answer_s_max = answer_s_max
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> Answer:
        """Return the whole answer."""
        return self.stream(method, target, headers, content).whole()

    def stream(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> "Stream":
        """Return the answer as soon as its status is there. Before
        it was read to its end nothing else can be asked.
        """
        is_kept_open = self._connection is not None
        try:
            return self._send(method, target, headers, content)
        except _BROKEN as error:
            self.close()
            if not (is_kept_open and isinstance(error, ConnectionError)):
                raise Unreachable(error) from None
        # A connection that was kept open may have been cut before this request came: it is sent once more.
        return self.stream(method, target, headers, content)

    def _send(self, method: str, target: str, headers: Mapping[str, str], content: bytes | None) -> "Stream":
        if self._connection is None:
            assert self._url.hostname is not None
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._url.hostname, self._url.port, timeout=self._answer_s_max)
        self._connection.request(method, self._url.path + target, content, dict(headers))
        # Taken before the answer is: one after which the server hangs up takes it away.
        server = self._connection.sock
        return Stream(self, self._connection.getresponse(), server)


class Stream:
    """An answer as it comes."""

    def __init__(
        self, connection: Connection, answer: http.client.HTTPResponse, server: socket.socket
    ) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._connection = connection
        self._answer = answer
        self._server = server
        self._rest = b""

    def whole(self) -> Answer:
        """Read it to its end."""
        try:
            return Answer(self.status, self.headers, self._answer.read())
        except _BROKEN as error:
            self._connection.close()
            raise Unreachable(error) from None

    def readline(self, silence_s_max: float | None = None) -> bytes | None:
        """Return the next line, b"" at the end, None if nothing came
        in that time: then it can't be read any further.

        Raises Unreachable if it was cut off. (http.client's own `readline` takes that for the end.)
        """
        self._server.settimeout(silence_s_max)
        try:
            while b"\n" not in self._rest:
                part = self._answer.read1(_PART_BYTES)
                if not part:
                    line, self._rest = self._rest, b""
                    return line
                self._rest += part
        except TimeoutError:
            return None
        except _BROKEN as error:
            raise Unreachable(error) from None
        line, end, self._rest = self._rest.partition(b"\n")
        return line + end
