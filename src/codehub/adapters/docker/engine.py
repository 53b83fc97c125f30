"""Requests to the Docker engine go in, its answers come out.

A refusal is a DockerError, no answer an outage.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from codehub.adapters.docker.address import DEFAULT_URL, engine_upstream
from codehub.adapters.http import HttpPool
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable, EngineFailed

NOT_FOUND, CONFLICT = 404, 409

INSTALL, WORKSPACE, ROLE = "codehub.install", "codehub.workspace", "codehub.role"

_ANSWER_S_MAX = 60.0
# What an engine that is being stopped answers to any request.
_GOING_AWAY = (
    *(
        "context canceled",
        "transport is closing",
        "connection is closing",
        "shutting down",
        "database not open",
    ),
    *("ttrpc: closed", "error reading from server: EOF"),
)

Json = Any
Labels = Mapping[str, str]


class DockerError(Exception):
    """The engine has refused, or failed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"({status}): {message}")
        self.status = status
        self.message = message


class Engine:
    """One engine, for one installation. Opened when it is first used, within the event loop."""

    def __init__(self, url: str = DEFAULT_URL, *, installation: str) -> None:
        self.url = url
        self.installation = installation
        self._pool: HttpPool | None = None

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    async def ask(
        self, method: str, path: str, *, body: Json = None, wait: bool = False, **params: Json
    ) -> Json:
        """Send one request and return the answer, or raise DockerError. `wait`: without a time limit."""
        target = f"{path}?{urlencode(_encode_params(params))}" if params else path
        content = b"" if body is None else json.dumps(body).encode()
        with self.report_outages():
            async with asyncio.timeout(None if wait else _ANSWER_S_MAX):
                answer = await self._http().ask(method, f"/{target}", content)
            if answer.status >= HTTPStatus.BAD_REQUEST:
                raise DockerError(answer.status, _message(answer.body))
            return json.loads(answer.body) if answer.body else None

    async def find(self, path: str) -> Json | None:
        """Return the object at this path, or None."""
        try:
            return await self.ask("GET", path)
        except DockerError as error:
            if error.status == NOT_FOUND:
                return None
            raise refusal(error) from None

    async def list_labelled(self, path: str, labels: Labels, **params: Json) -> Json:
        """List the objects that have this installation's label, and these labels."""
        required = {INSTALL: self.installation, **labels}
        try:
            return await self.ask("GET", f"{path}?{_query(tuple(required.items()), tuple(params.items()))}")
        except DockerError as error:
            raise refusal(error) from None

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **params: Json
    ) -> AsyncIterator[asyncio.StreamReader]:
        """Yield an answer as a stream."""
        target = f"{path}?{urlencode(_encode_params(params))}" if params else path
        with self.report_outages():
            async with self._http().stream(method, f"/{target}", headers or {}) as (status, body):
                if status >= HTTPStatus.BAD_REQUEST:
                    raise DockerError(status, _message(await body.read()))
                yield body

    def _http(self) -> HttpPool:
        if self._pool is None:
            self._pool = HttpPool(engine_upstream(self.url), host="docker")
        return self._pool

    def labels(self, workspace_id: object, role: str, **more: str) -> dict[str, str]:
        return {INSTALL: self.installation, WORKSPACE: str(workspace_id), ROLE: role, **more}

    def owns(self, labels: Labels | None, role: str) -> bool:
        return labels is not None and (labels.get(INSTALL), labels.get(ROLE)) == (self.installation, role)

    @contextmanager
    def report_outages(self) -> Iterator[None]:
        """Raise BackendUnreachable for every error that is an outage, not an answer."""
        try:
            yield
        except DockerError as error:
            if any(sign in error.message for sign in _GOING_AWAY):
                raise BackendUnreachable(
                    Message(Code.DOCKER_UNREACHABLE, {"url": self.url, "text": error.message})
                ) from None
            raise
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise BackendUnreachable(
                Message(Code.DOCKER_UNREACHABLE, {"url": self.url, "text": reason})
            ) from None


def refusal(error: DockerError) -> ActionFailed:
    """Return the error to raise: the engine has refused, or failed itself. Quotes its message."""
    facts = {"status": error.status, "text": error.message.strip()[:500]}
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return EngineFailed(Message(Code.DOCKER_FAILED, facts))
    return ActionFailed(Message(Code.DOCKER_REFUSED, facts))


def _message(body: bytes) -> str:
    """Return the reason: Docker sends JSON, a proxy before it may send plain text."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")


@lru_cache(maxsize=1024)
def _query(labels: tuple[tuple[str, str], ...], params: tuple[tuple[str, Json], ...]) -> str:
    """Return a list's query. Cached: the same few are used again and again."""
    filters = json.dumps({"label": [f"{name}={value}" for name, value in labels]})
    return urlencode(_encode_params({"filters": filters, **dict(params)}))


def _encode_params(params: Mapping[str, Json]) -> dict[str, str]:
    return {
        name: str(int(value)) if isinstance(value, bool) else str(value) for name, value in params.items()
    }
