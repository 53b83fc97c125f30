"""Answers that go on: parts go in as they come and are sent, until the reader goes, is too slow, has lost the key, or has had the time."""

from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from codehub.api.concurrency import first_of, within
from codehub.api.feed import Held, LiveFeed

_SEND_S_MAX = 30.0


class StreamingAnswer(Response):
    """Ends politely if its parts do, and else at once: a reader that takes nothing would keep a polite end waiting."""

    def __init__(
        self,
        feed: LiveFeed,
        held: Held,
        parts: AsyncIterator[bytes],
        *,
        media_type: str,
        may_go_on: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`may_go_on` is asked when something of its reader's keys has changed; without it that is the end."""
        super().__init__()
        self._feed = feed
        self._held = held
        self._parts = parts
        self._kind = media_type.encode()
        self._may_go_on = may_go_on
        self._is_complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await first_of(
                self._send_all(send),
                self._lost_key(),
                _gone(receive),
                self._feed.pause(self._held.seconds),
            )
        finally:
            self._feed.close(self._held)
            if not self._is_complete:
                _let_go(scope)

    async def _send_all(self, send: Send) -> None:
        headers = [
            (b"content-type", self._kind),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for part in self._parts:
            if not await _is_taken(send, part):
                return
        self._is_complete = await _is_taken(send, b"", more=False)

    async def _lost_key(self) -> None:
        while True:
            await self._held.is_ended.wait()
            if self._may_go_on is None:
                return
            self._held.is_ended.clear()
            if not await self._may_go_on():
                return


async def _is_taken(send: Send, body: bytes, *, more: bool = True) -> bool:
    """Send, and say whether there is still somebody: whoever takes nothing for so long is gone or asleep."""

    async def sent() -> bool:
        await send({"type": "http.response.body", "body": body, "more_body": more})
        return True

    return await within(_SEND_S_MAX, sent()) is not None


def _let_go(scope: Scope) -> None:
    extension = scope.get("extensions", {}).get("codehub.abort")
    if extension is not None:
        extension["abort"]()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
