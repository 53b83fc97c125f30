"""A codehub's API: paths and bodies in, its objects out. Whatever goes wrong is a Failed."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from codehub.cli.account import Account
from codehub.cli.failures import Failed
from codehub.cli.fields import describe_fields
from codehub.cli.language import chosen_language
from codehub.http_client import Answer, Connection, Stream, Unreachable

if TYPE_CHECKING:
    from datetime import datetime

API = "/api/v1"
ANSWER_S_MAX = 30.0
_GOOD = range(200, 300)
_MOVED = range(300, 400)


class Client:
    """One server and one key. Between requests the connection stays open."""

    def __init__(self, account: Account, *, answer_s_max: float = ANSWER_S_MAX) -> None:
        self.account = account
        self.now: datetime | None = None
        """The server's time at its last answer: ages are told by it, whatever this machine's clock says."""
        self._answer_s_max = answer_s_max
        self._connection = Connection(account.url, answer_s_max=answer_s_max)

    def close(self) -> None:
        self._connection.close()

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
        answer = self._ask(method, path, body, headers or {}, query)
        try:
            return json.loads(answer.body) if answer.body else None
        except ValueError:
            raise self._not_codehub() from None

    def sign_in(self, username: str, password: str) -> str:
        """Return the cookie of a new session."""
        answer = self._ask("POST", "/login", {"username": username, "password": password}, {}, {})
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
        own = Connection(self.account.url, answer_s_max=self._answer_s_max)
        try:
            answer = own.stream("GET", _target(path, query), self._headers())
            if answer.status not in _GOOD:
                raise self._failure(answer.whole())
            yield answer
        except Unreachable as error:
            raise self._unreachable(error) from None
        finally:
            own.close()

    def _unreachable(self, error: Unreachable) -> Failed:
        if error.is_without_tls:
            return Failed(
                "UNREACHABLE",
                f"{self.account.url} can't be reached: it does not speak https there",
                do=f"Try http{self.account.url.removeprefix('https')}",
            )
        return Failed(
            "UNREACHABLE",
            f"{self.account.url} can't be reached: {error}",
            do="Is codehub running there? CODEHUB_URL, or `codehub login URL`, says where it is.",
        )

    def _ask(
        self, method: str, path: str, body: object, headers: Mapping[str, str], query: Mapping[str, object]
    ) -> Answer:
        content = None if body is None else json.dumps(body).encode()
        kind = {} if content is None else {"Content-Type": "application/json"}
        try:
            answer = self._connection.ask(
                method, _target(path, query), {**self._headers(), **kind, **headers}, content
            )
        except Unreachable as error:
            raise self._unreachable(error) from None
        self._note_time(answer)
        if answer.status not in _GOOD:
            raise self._failure(answer)
        return answer

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Accept-Language": chosen_language(os.environ),
            "User-Agent": "codehub-cli",
        }
        if self.account.token is not None:
            headers["Authorization"] = f"Bearer {self.account.token}"
        return headers

    def _note_time(self, answer: Answer) -> None:
        date = answer.headers.get("Date")
        if date is None:
            return
        try:
            self.now = parsedate_to_datetime(date)
        except ValueError:
            self.now = None

    def _failure(self, answer: Answer) -> Failed:
        if answer.status in _MOVED:
            there = answer.headers.get("Location", "elsewhere")
            return Failed(
                "UNREACHABLE", f"{self.account.url} leads to {there}", do="Use the address that it leads to."
            )
        try:
            error = json.loads(answer.body)["error"]
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


def _target(path: str, query: Mapping[str, object]) -> str:
    values = {name: _text(value) for name, value in query.items() if value is not None}
    try:
        return f"{API}{quote(path, safe='/:')}" + (f"?{urlencode(values)}" if values else "")
    except UnicodeEncodeError:  # bytes of the command line that are no text
        raise Failed("USAGE", "what you gave is not text in UTF-8") from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
