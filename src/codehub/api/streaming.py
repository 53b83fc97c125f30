"""Streaming answers: parts are sent as they come, until the reader disconnects, is too slow, or loses its
key.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from codehub.api.feed import Held, LiveFeed

_SEND_S_MAX = 30.0


class StreamingAnswer(Response):
    """Ends normally after its last part, or when this process ends, and otherwise aborts: a reader that reads
    nothing would delay a normal end.
    """

    def __init__(
        self,
        feed: LiveFeed,
        stream: Held,
        parts: AsyncIterator[bytes],
        *,
        media_type: str,
        may_continue: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`may_continue` is called when the reader's keys have changed; without it the stream ends then."""
        super().__init__()
        self._feed = feed
        self._stream = stream
        self._parts = parts
        self._kind = media_type.encode()
        self._may_continue = may_continue
        self._has_begun = False
        self._is_complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await _first_of(
                self._send_all(send),
                self._wait_for_key_end(),
                _wait_for_disconnect(receive),
                self._stream.leaves.wait(),
                self._feed.pause(self._stream.seconds),
            )
            if self._stream.leaves.is_set() and self._has_begun and not self._is_complete:
                self._is_complete = await _try_send(send, b"", more=False)
        finally:
            self._feed.close(self._stream)
            if not self._is_complete:
                _abort(scope)

    async def _send_all(self, send: Send) -> None:
        headers = [
            (b"content-type", self._kind),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._has_begun = True
        async for part in self._parts:
            if not await _try_send(send, part):
                return
        self._is_complete = await _try_send(send, b"", more=False)

    async def _wait_for_key_end(self) -> None:
        while True:
            await self._stream.is_ended.wait()
            if self._may_continue is None:
                return
            self._stream.is_ended.clear()
            if not await self._may_continue():
                return


async def _try_send(send: Send, body: bytes, *, more: bool = True) -> bool:
    """Send a part, and return whether it was read in time."""
    try:
        async with asyncio.timeout(_SEND_S_MAX):
            await send({"type": "http.response.body", "body": body, "more_body": more})
    except TimeoutError:
        return False
    return True


def _abort(scope: Scope) -> None:
    extension = scope.get("extensions", {}).get("codehub.abort")
    if extension is not None:
        extension["abort"]()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Return, or raise, as the first of them does. Whatever is still under way is ended before."""
    tasks = [asyncio.ensure_future(work) for work in works]  # noqa: TID251  # joined below, whatever happens
    try:
        done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
