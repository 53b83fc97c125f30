"""A reader of server-sent events, as small as can be: bytes in, messages out."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from tests.support.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Message:
    kind: str
    data: Any
    id: int | None


class Reader:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._messages = self._parsed()

    async def next(self, *, heartbeats: bool = False) -> Message:
        """Return what is told next. That nothing happens is told
        now and then: it is skipped, unless asked for.
        """
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await anext(self._messages)
                if heartbeats or message.kind != "heartbeat":
                    return message

    async def until(self, is_it: Callable[[Message], bool]) -> list[Message]:
        """Return messages up to the first that is it. What was committed
        just before a stream began may be told in it as well.
        """
        got: list[Message] = []
        while True:
            got.append(await self.next())
            if is_it(got[-1]):
                return got

    async def _parsed(self) -> AsyncIterator[Message]:
        fields: dict[str, str] = {}
        async for line in self.response.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            number = fields.get("id")
            yield Message(
                fields["event"], json.loads(fields["data"]), None if number is None else int(number)
            )
            fields = {}


@asynccontextmanager
async def reading(
    client: httpx.AsyncClient, last_id: int | str | None = None, **params: str
) -> AsyncIterator[Reader]:
    """Open a stream and wait for its first word: from then on nothing is missed."""
    headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
    timeout = httpx.Timeout(PATIENCE_S)
    async with client.stream(
        "GET", "/api/v1/events", headers=headers, params=params, timeout=timeout
    ) as response:
        assert response.status_code == 200, await response.aread()
        reader = Reader(response)
        first = await reader.next(heartbeats=True)
        assert (first.kind, first.data) == ("heartbeat", {})
        yield reader
