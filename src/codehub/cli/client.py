"""HTTP to a codehub: words of the API in, its objects out. Whatever goes wrong is a Failed. Plain http.client: it starts fast."""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from codehub.cli.account import Account
from codehub.cli.failures import Failed
from codehub.cli.fields import describe_fields
from codehub.cli.language import chosen_language

if TYPE_CHECKING:
    from datetime import datetime

API = "/api/v1"
ANSWER_S_MAX = 30.0
_PART_BYTES = 65_536
_GOOD = range(200, 300)
_MOVED = range(300, 400)
_PLAIN = "WRONG_VERSION_NUMBER"  # OpenSSL's word for an answer without TLS


class Stream:
    """An answer that goes on."""

    def __init__(self, client: "Client", answer: http.client.HTTPResponse, connection: socket.socket) -> None:
        self._client = client
        self._answer = answer
        self._connection = connection
        self._rest = b""

    def readline(self, silence_s_max: float | None = None) -> bytes | None:
        """Return the next line, b"" at the end, None if nothing came in that time: then it can't be read any further.

        Raises Failed if it was cut off. (http.client's own `readline` takes that for the end.)
        """
        self._connection.settimeout(silence_s_max)
        try:
            while b"\n" not in self._rest:
                part = self._answer.read1(_PART_BYTES)
                if not part:
                    line, self._rest = self._rest, b""
                    return line
                self._rest += part
        except TimeoutError:
            return None
        except (OSError, http.client.HTTPException) as error:
            raise self._client.unreachable(error) from None
        line, end, self._rest = self._rest.partition(b"\n")
        return line + end


class Client:
    """One server and one key. Between requests the connection stays open."""

    def __init__(self, account: Account, *, answer_s_max: float = ANSWER_S_MAX) -> None:
        self.account = account
        self.now: datetime | None = None
        """The server's time at its last answer: ages are told by it, whatever this machine's clock says."""
        self._answer_s_max = answer_s_max
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        **query: object,
    ) -> Any:
        """Return the answer's JSON (None if it is empty), or raise Failed."""
        answer = self._answer(method, path, body, headers or {}, query)
        with self._reaching():
            text = answer.read()
        if answer.status not in _GOOD:
            raise self._failure(answer, text)
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise self._not_codehub() from None

    def sign_in(self, username: str, password: str) -> str:
        """Return the cookie of a new session."""
        answer = self._answer("POST", "/login", {"username": username, "password": password}, {}, {})
        with self._reaching():
            text = answer.read()
        if answer.status not in _GOOD:
            raise self._failure(answer, text)
        return (answer.headers.get("Set-Cookie") or "").partition(";")[0]

    def pages(self, path: str, **query: object) -> Iterator[Any]:
        """Yield the items of a list, however many pages it has."""
        cursor = None
        while True:
            page = self.ask("GET", path, headers=None, limit=200, cursor=cursor, **query)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    @contextmanager
    def stream(self, path: str, **query: object) -> Iterator[Stream]:
        """Yield an answer that goes on, on a connection of its own."""
        own = Client(self.account, answer_s_max=self._answer_s_max)
        try:
            answer = own._answer("GET", path, None, {}, query)
            if answer.status not in _GOOD:
                with self._reaching():
                    raise self._failure(answer, answer.read())
            assert own._socket is not None
            yield Stream(self, answer, own._socket)
        finally:
            own.close()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self.unreachable(error) from None

    def unreachable(self, error: BaseException) -> Failed:
        if getattr(error, "reason", None) == _PLAIN:
            return Failed(
                "UNREACHABLE",
                f"{self.account.url} can't be reached: it does not speak https there",
                do=f"Try http{self.account.url.removeprefix('https')}",
            )
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Failed(
            "UNREACHABLE",
            f"{self.account.url} can't be reached: {why}",
            do="Is codehub running there? CODEHUB_URL, or `codehub login URL`, says where it is.",
        )

    def _answer(
        self, method: str, path: str, body: object, headers: Mapping[str, str], query: Mapping[str, object]
    ) -> http.client.HTTPResponse:
        target = _target(path, query)
        content = None if body is None else json.dumps(body).encode()
        sent = {
            "Accept": "application/json",
            "Accept-Language": chosen_language(os.environ),
            "User-Agent": "codehub-cli",
            **headers,
        }
        if content is not None:
            sent["Content-Type"] = "application/json"
        if self.account.token is not None:
            sent["Authorization"] = f"Bearer {self.account.token}"
        is_kept_open = self._connection is not None
        try:
            return self._sent(method, target, content, sent)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # A connection that was kept open may have been cut before this request came: it is sent once more.
            if not (is_kept_open and isinstance(error, ConnectionError)):
                raise self.unreachable(error) from None
        with self._reaching():
            return self._sent(method, target, content, sent)

    def _sent(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = _connect(self.account.url, self._answer_s_max)
        self._connection.request(method, urlsplit(self.account.url).path + target, content, dict(headers))
        self._socket = self._connection.sock
        answer = self._connection.getresponse()
        date = answer.headers.get("Date")
        if date is not None:
            try:
                self.now = parsedate_to_datetime(date)
            except ValueError:
                self.now = None
        return answer

    def _failure(self, answer: http.client.HTTPResponse, text: bytes) -> Failed:
        if answer.status in _MOVED:
            there = answer.headers.get("Location", "elsewhere")
            return Failed(
                "UNREACHABLE", f"{self.account.url} leads to {there}", do="Use the address that it leads to."
            )
        try:
            error = json.loads(text)["error"]
            code, message, details = str(error["code"]), str(error["message"]), error["details"]
        except (ValueError, KeyError, TypeError):
            return self._not_codehub(answer.status)
        if code == "UNAUTHORIZED" and "www-authenticate" in answer.headers:
            return Failed(code, message, details, text=self._closed(), do=self._sign_in())
        return Failed(
            code, message, details, text=describe_fields(details) if code == "INVALID_REQUEST" else None
        )

    def _closed(self) -> str:
        if self.account.token is None:
            return "You are not signed in."
        whose = "The token in CODEHUB_TOKEN" if self.account.is_from_environment else "Your token"
        return f"{whose} opens nothing any more."

    def _sign_in(self) -> str:
        if self.account.is_from_environment:
            return "Correct CODEHUB_TOKEN or unset it: no `codehub login` replaces it."
        return f"codehub login {self.account.url}"

    def _not_codehub(self, status: int | None = None) -> Failed:
        shown_status = "" if status is None else f" (status {status})"
        return Failed("UNREACHABLE", f"{self.account.url} answers, but not as codehub does{shown_status}")


def _connect(url: str, answer_s_max: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=answer_s_max)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=answer_s_max)


def _target(path: str, query: Mapping[str, object]) -> str:
    values = {name: _word(value) for name, value in query.items() if value is not None}
    try:
        return f"{API}{quote(path, safe='/:')}" + (f"?{urlencode(values)}" if values else "")
    except UnicodeEncodeError:  # bytes of the command line that are no text
        raise Failed("USAGE", "what you gave is not text in UTF-8") from None


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
