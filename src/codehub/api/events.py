"""`GET /api/v1/events`: a stream of what happens to one's
workspaces, as server-sent events that can be resumed.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from codehub.api.context import context_of, language_of
from codehub.api.document import OF_PEOPLE, SIGNED_IN, answers
from codehub.api.errors import ApiError
from codehub.api.feed import NO_EVENT, LiveFeed, Stream, message
from codehub.api.guard import Asking
from codehub.api.streaming import StreamingAnswer
from codehub.core.messages import Code, Message
from codehub.error_codes import ErrorCode

HEARTBEAT_S = 30.0
_SEQ = re.compile("[0-9]{1,18}")
router = APIRouter(prefix="/api/v1", tags=["events"])
_EXAMPLE = (
    'id: 42\nevent: workspace_updated\ndata: {"id": "…", "name": "…"}\n\nevent: heartbeat\ndata: {}\n\n'
)


async def _event_stream(feed: LiveFeed, stream: Stream, since: int | None) -> AsyncIterator[bytes]:
    """Yield what was missed, then what comes."""
    yield message("heartbeat", b"{}", None if since is not None else stream.begins_after.seq)
    if since is not None:
        async for missed in feed.since(stream, since):
            yield missed
    waiting = stream.waiting
    while True:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                first = await waiting.get()
        except TimeoutError:
            yield message("heartbeat", b"{}")
            continue
        rest = [waiting.get_nowait() for _ in range(waiting.qsize())]
        yield b"".join([first, *rest])


@router.get(
    "/events",
    summary="What happens to your workspaces, as it happens",
    description=(
        '`workspace_updated` (a Workspace) and `workspace_deleted` (`{"id"}`) carry the history\'s number '
        "as id and are complete: a reader that comes back with `Last-Event-ID` misses nothing. "
        "`workspace_progress`, `workspace_sleeping_soon` and `heartbeat` may be lost. An id that is too old, "
        "or unknown, gets every workspace anew, with the id 0, and then a `heartbeat` with the id to come "
        "back with. No event follows a workspace's `observed_at`: it is as it was known when the message "
        "was sent."
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
        raise ApiError(ErrorCode.FORBIDDEN, Message(Code.FOLLOWED_BY_ADMINS))
    since = _seq(last_event_id) if last_event_id else None
    feed = context_of(request).feed
    stream = await feed.open(None if owner == "all" else person.id, person, language=language_of(request))
    return StreamingAnswer(feed, stream, _event_stream(feed, stream, since), media_type="text/event-stream")


def _seq(last_event_id: str) -> int:
    """Return which event it is; one that can't be is as unknown as one
    that is gone: an EventSource could not send another.
    """
    return int(last_event_id) if _SEQ.fullmatch(last_event_id) else NO_EVENT
