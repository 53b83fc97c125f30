"""A codehub's API: paths and bodies in, its objects out. Whatever goes wrong is a Failed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from codehub.cli.account import Account
from codehub.cli.failures import Failed
from codehub.cli.fields import describe_fields
from codehub.cli.language import say
from codehub.http_client import Answer, Connection, Stream, Unreachable
from codehub.text.terminal import terminal_language

if TYPE_CHECKING:
    from datetime import datetime

API = "/api/v1"
ANSWER_S_MAX = 30.0
_GOOD = range(200, 300)
_MOVED = range(300, 400)
_PAGE_SIZE = 200


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
        cursor, size = None, _PAGE_SIZE
        while True:
            try:
                page = self.ask("GET", path, headers=None, limit=size, cursor=cursor, **query)
            except Failed as error:
                if (most := _page_size_max(error)) is None or most >= size:
                    raise
                size = most  # an operator allows less
                continue
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
                say("client.no_tls", url=self.account.url),
                do=say("client.no_tls.do", url=f"http{self.account.url.removeprefix('https')}"),
            )
        return Failed(
            "UNREACHABLE",
            say("client.unreachable", url=self.account.url, error=error),
            do=say("client.unreachable.do"),
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
            "Accept-Language": terminal_language(),
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
            message = say("client.moved", url=self.account.url, there=there)
            return Failed("UNREACHABLE", message, do=say("client.moved.do"))
        try:
            error = json.loads(answer.body)["error"]
            code, message, details = str(error["code"]), str(error["message"]), error["details"]
        except (ValueError, KeyError, TypeError):
            return self._not_codehub(answer.status)
        if code == "UNAUTHORIZED" and "www-authenticate" in answer.headers:
            return Failed(code, message, details, text=self._refusal_text(), do=self._sign_in_advice())
        return Failed(
            code, message, details, text=describe_fields(details) if code == "INVALID_REQUEST" else None
        )

    def _refusal_text(self) -> str:
        if self.account.token is None:
            return say("client.signed_out")
        return say("client.no_key.environment" if self.account.is_from_environment else "client.no_key")

    def _sign_in_advice(self) -> str:
        if self.account.is_from_environment:
            return say("client.no_key.do")
        return f"codehub login {self.account.url}"

    def _not_codehub(self, status: int | None = None) -> Failed:
        if status is None:
            return Failed("UNREACHABLE", say("client.no_codehub", url=self.account.url))
        return Failed("UNREACHABLE", say("client.no_codehub.status", url=self.account.url, status=status))


def _page_size_max(error: Failed) -> int | None:
    """Return how long a page may be, if that is what the error is about."""
    problems = error.details if isinstance(error.details, list) else []
    bounds = [problem.get("max") for problem in problems if problem.get("field") == "limit"]
    return next((bound for bound in bounds if isinstance(bound, int)), None)


def _target(path: str, query: Mapping[str, object]) -> str:
    values = {name: _text(value) for name, value in query.items() if value is not None}
    try:
        return f"{API}{quote(path, safe='/:')}" + (f"?{urlencode(values)}" if values else "")
    except UnicodeEncodeError:  # bytes of the command line that are no text
        raise Failed("USAGE", say("no_text")) from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
