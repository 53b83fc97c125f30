"""`GET /api/v1/events`: a stream of what happens to one's workspaces, as server-sent events that can be resumed."""

import re
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.types import Receive, Scope, Send

from codehub.api.desk import Asking, desk
from codehub.api.document import OF_PEOPLE, SIGNED_IN, answers
from codehub.api.errors import ApiError, Code
from codehub.api.feed import LiveFeed, Stream, message
from codehub.api.race import first_of, within

HEARTBEAT_S = 30.0
STREAM_S_MAX = 3600.0  # then its reader comes back, and shows its key again: a token may have expired
_SEND_S_MAX = 30.0
_SEQ = re.compile("[0-9]{1,18}")
_NO_EVENT = 0
router = APIRouter(prefix="/api/v1", tags=["events"])
_EXAMPLE = (
    'id: 42\nevent: workspace_updated\ndata: {"id": "…", "name": "…"}\n\nevent: heartbeat\ndata: {}\n\n'
)
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response):
    """Sends what was missed, then what comes, until the reader goes, is too slow, or has lost its key."""

    def __init__(self, feed: LiveFeed, stream: Stream, since: int | None) -> None:
        super().__init__()
        self._feed = feed
        self._stream = stream
        self._since = since

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await first_of(
                self._send_all(send),
                self._stream.is_ended.wait(),
                _gone(receive),
                self._feed.pause(STREAM_S_MAX),
            )
        finally:
            self._feed.close(self._stream)
            let_go(scope)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _send(
            send,
            message("heartbeat", b"{}", None if self._since is not None else self._stream.begins_after.seq),
        )
        if self._since is not None:
            async for missed in self._feed.since(self._stream, self._since):
                await _send(send, missed)
        waiting = self._stream.waiting
        while True:
            first = await within(HEARTBEAT_S, waiting.get())
            if first is None:
                await _send(send, message("heartbeat", b"{}"))
                continue
            rest = [waiting.get_nowait() for _ in range(waiting.qsize())]
            await _send(send, b"".join([first, *rest]))


async def _send(send: Send, body: bytes) -> None:
    """Send, or raise TimeoutError: whoever takes nothing for so long is gone or asleep."""
    sent = await within(_SEND_S_MAX, _sent(send, body))
    if sent is None:
        raise TimeoutError


async def _sent(send: Send, body: bytes) -> bool:
    await send({"type": "http.response.body", "body": body, "more_body": True})
    return True


def let_go(scope: Scope) -> None:
    """End the connection now: a reader that takes nothing would keep a polite end waiting."""
    extension = scope.get("extensions", {}).get("codehub.abort")
    if extension is not None:
        extension["abort"]()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get(
    "/events",
    summary="What happens to your workspaces, as it happens",
    description=(
        '`workspace_updated` (a Workspace) and `workspace_deleted` (`{"id"}`) carry the history\'s number as id and are complete: '
        "a reader that comes back with `Last-Event-ID` misses nothing. `workspace_progress`, `workspace_sleeping_soon` and "
        "`heartbeat` may be lost. An id that is too old, or unknown, gets every workspace anew."
    ),
    response_class=Response,
    responses=answers(*OF_PEOPLE)
    | {
        200: {
            "description": "Events, until one side ends it.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
        }
    },
    openapi_extra=SIGNED_IN,
)
async def events(
    request: Request,
    person: Asking,
    owner: Annotated[Literal["me", "all"], Query(description="`all`: everybody's (admins).")] = "me",
    last_event_id: Annotated[str | None, Header(description="The last id you have got.")] = None,
) -> Response:
    if owner == "all" and not person.is_admin:
        raise ApiError(Code.FORBIDDEN, "Only an admin may follow others' workspaces.")
    since = _seq(last_event_id) if last_event_id else None
    feed = desk(request).feed
    stream = await feed.open(None if owner == "all" else person.id, person.id)
    return EventStream(feed, stream, since)


def _seq(last_event_id: str) -> int:
    """Return which event it is; one that can't be is as unknown as one that is gone: an EventSource could not send another."""
    return int(last_event_id) if _SEQ.fullmatch(last_event_id) else _NO_EVENT
