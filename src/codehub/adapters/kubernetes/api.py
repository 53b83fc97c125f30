"""Requests to one Kubernetes API go in, its answers come out. A
refusal is raised as what it means, no answer as an outage.

Waits as long as the API asks to, within the time that a request may take.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from codehub.adapters.http import Answer, HttpPool
from codehub.adapters.kubernetes.access import Access, Credentials
from codehub.adapters.kubernetes.answers import failure, is_quota_race
from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable
from codehub.ports.system import Clock

ANSWER_S_MAX = 30.0
_AT_ONCE = 32
_RETRIES_MAX = 3
_RETRY_S = 0.5
_RETRY_S_MAX = 5.0
_PART_BYTES = 1 << 18

Json = Any
Query = Mapping[str, str]


class KubernetesApi:
    """One API server, or what stands before several."""

    def __init__(self, access: Access, *, clock: Clock, answer_s_max: float = ANSWER_S_MAX) -> None:
        self.access = access
        self.clock = clock
        self.answer_s_max = answer_s_max
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._pool: HttpPool | None = None
        self._pooled: Credentials | None = None

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    async def ask(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        body: Json = None,
        content_type: str = "application/json",
    ) -> Json:
        """Send one request and return the answer."""
        target = self.target(path, query)
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}

        async def once(credentials: Credentials) -> Answer:
            pool = self._pool_for(credentials)
            return await pool.ask(method, target, content, {**headers, **credentials.headers()})

        with self.report_outages():
            async with self._gate, asyncio.timeout(self.answer_s_max):
                answer = await self._ask_patiently(once)
            if answer.status >= HTTPStatus.BAD_REQUEST:
                raise failure(self.access.server, answer.status, answer.body)
            return json.loads(answer.body) if answer.body else None

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, *, begins_within_s: float | None
    ) -> AsyncIterator["AnswerStream"]:
        """Yield an answer as it comes."""
        target = self.target(path, query)
        async with AsyncExitStack() as stack:
            with self.report_outages():
                async with asyncio.timeout(begins_within_s):
                    credentials = await self.access.credentials()
                    status, body = await self._begin(stack, target, credentials)
                    if status == HTTPStatus.UNAUTHORIZED:
                        status, body = await self._begin(stack, target, await self.access.renew(credentials))
                if status >= HTTPStatus.BAD_REQUEST:
                    async with asyncio.timeout(self.answer_s_max):
                        raise failure(self.access.server, status, await body.read())
            yield AnswerStream(self, body)

    async def _begin(
        self, stack: AsyncExitStack, target: str, credentials: Credentials
    ) -> tuple[int, asyncio.StreamReader]:
        opening = self._pool_for(credentials).stream("GET", target, credentials.headers())
        return await stack.enter_async_context(opening)

    def target(self, path: str, query: Query | None = None) -> str:
        question = f"?{urlencode(query)}" if query else ""
        return f"{self.access.base_path}{path}{question}"

    @contextmanager
    def report_outages(self) -> Iterator[None]:
        """Raise BackendUnreachable for every error that is an outage, not an answer."""
        try:
            yield
        except (OSError, TimeoutError, ValueError) as error:
            if isinstance(error, ssl.SSLError):
                self.access.forget()  # certificates may have been replaced
            raise BackendUnreachable(_outage(self.access.server, error)) from None

    async def _ask_patiently(self, once: Callable[[Credentials], Awaitable[Answer]]) -> Answer:
        credentials = await self.access.credentials()
        answer = await once(credentials)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            answer = await once(await self.access.renew(credentials))
        for attempt in range(_RETRIES_MAX):
            if not _is_retryable(answer):
                break
            await self.clock.sleep(_delay_s(answer, attempt))
            answer = await once(await self.access.credentials())
        return answer

    def _pool_for(self, credentials: Credentials) -> HttpPool:
        """Return the connections of these certificates. Those of former ones end when they are next free."""
        if self._pool is None or self._pooled is None or self._pooled.tls is not credentials.tls:
            if self._pool is not None:
                self._pool.close()
            # A connection costs as much as twenty requests: each that may be under way at once is kept.
            self._pool = HttpPool(
                self.access.upstream, host=self.access.host, tls=credentials.tls, kept_max=_AT_ONCE
            )
            self._pooled = credentials
        return self._pool


def _outage(server: str, error: Exception) -> Message:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Message(Code.KUBERNETES_UNTRUSTED, {"server": server, "text": error.verify_message})
    if isinstance(error, TimeoutError):
        return Message(Code.KUBERNETES_SILENT, {"server": server})
    text = str(error) or type(error).__name__
    return Message(Code.KUBERNETES_UNREACHABLE, {"server": server, "text": text})


class AnswerStream:
    """An answer as it comes. One that was cut off is an outage."""

    def __init__(self, api: KubernetesApi, body: asyncio.StreamReader) -> None:
        self._api = api
        self._body = body

    async def read(self) -> bytes:
        """Return the next part, b"" at the end."""
        await asyncio.sleep(0)  # let other tasks run first, even if more is there
        with self._api.report_outages():
            return await self._body.read(_PART_BYTES)


def _is_retryable(answer: Answer) -> bool:
    """Whether the API says that it has not begun to work on the request."""
    is_busy = answer.status == HTTPStatus.TOO_MANY_REQUESTS
    is_starting = answer.status == HTTPStatus.SERVICE_UNAVAILABLE and "retry-after" in answer.headers
    return is_busy or is_starting or is_quota_race(answer.status, answer.body)


def _delay_s(answer: Answer, attempt: int) -> float:
    delay_s = _RETRY_S * (1 << attempt)
    with suppress(ValueError, KeyError):
        delay_s = max(delay_s, float(answer.headers["retry-after"]))
    return min(delay_s, _RETRY_S_MAX)
