"""What became of a workspace and why: its history, its output, and an explanation. Only reads."""

from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from codehub.api import render
from codehub.api.context import Asking, desk
from codehub.api.document import OF_WORKSPACE, SIGNED_IN, answers
from codehub.api.errors import ApiError
from codehub.api.shapes import EventList, ExplainShape
from codehub.api.streaming import StreamingAnswer
from codehub.api.view import JSON
from codehub.api.workspaces import ONE_PATH, PREFIX, WorkspaceId
from codehub.core.access import Person
from codehub.core.explain import Action, explain
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import StoreUnavailable
from codehub.web.actions import ROUTES

_DECISIONS = 5
_TEXT = "text/plain; charset=utf-8"
router = APIRouter(prefix=PREFIX, tags=["workspaces"])


@router.get(
    f"{ONE_PATH}/events",
    summary="Its history, newest first",
    response_model=EventList,
    responses=answers(*OF_WORKSPACE),
    openapi_extra=SIGNED_IN,
)
async def events(
    request: Request,
    person: Asking,
    workspace_id: WorkspaceId,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[
        str | None, Query(pattern=r"^[0-9]{1,18}$", description="`next_cursor` of the last page.")
    ] = None,
) -> Response:
    row = await desk(request).find(person, workspace_id)
    found = await desk(request).parts.store.history(
        row.id, limit=limit + 1, before_seq=int(cursor) if cursor else None
    )
    items = [render.event(recorded) for recorded in found[:limit]]
    next_cursor = str(found[limit - 1].seq) if len(found) > limit else None
    return Response(render.to_json({"items": items, "next_cursor": next_cursor}), media_type=JSON)


@router.get(
    f"{ONE_PATH}/logs",
    summary="The output of its instance, oldest first",
    response_class=Response,
    responses=answers(*OF_WORKSPACE)
    | {200: {"description": "Its output.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    openapi_extra=SIGNED_IN,
)
async def logs(
    request: Request,
    person: Asking,
    workspace_id: WorkspaceId,
    tail: Annotated[int, Query(ge=0, le=100_000, description="How many lines.")] = 200,
    follow: Annotated[bool, Query(description="Go on as it writes more.")] = False,
) -> Response:
    row = await desk(request).find(person, workspace_id)
    instances = desk(request).parts.instances.get(row.spec.instance_backend)
    if instances is None:
        raise BackendUnreachable(f"this process does not reach {row.spec.instance_backend}")
    output = instances.logs(row.id, tail=tail, follow=follow)
    if follow:
        return await _followed(request, person, workspace_id, output)
    return Response(b"".join([part async for part in output]), media_type=_TEXT)


async def _followed(
    request: Request, person: Person, workspace_id: str, output: AsyncIterator[bytes]
) -> Response:
    """Return output that goes on, for as long as whoever asked may still ask for it."""
    here = desk(request)

    async def may_go_on() -> bool:
        try:
            await here.find(await here.guard.person(request), workspace_id)
        except (ApiError, StoreUnavailable):
            return False
        return True

    held = await here.feed.hold(person)
    held.is_ended.set()  # asked at once: the key may have ended before its end would have been heard of
    return StreamingAnswer(here.feed, held, output, media_type=_TEXT, may_go_on=may_go_on)


@router.get(
    f"{ONE_PATH}/explain",
    summary="Where it is, where it should be, what is done about it, and why it is not there yet",
    response_model=ExplainShape,
    responses=answers(*OF_WORKSPACE),
    openapi_extra=SIGNED_IN,
)
async def explained(request: Request, person: Asking, workspace_id: WorkspaceId) -> Response:
    row = await desk(request).find(person, workspace_id)
    told = explain(row, await desk(request).parts.store.now(), is_admin=person.is_admin)
    decisions = await desk(request).parts.store.history(row.id, limit=_DECISIONS)
    body = {
        "phase": row.status.phase,
        "desired_state": row.spec.desired_state,
        "operation": row.status.operation,
        "next": {"operation": told.operation, "why": told.why.value},
        "waiting_for": None if told.waiting_for is None else str(told.waiting_for),
        "since": render.time(told.since),
        "error": render.error(told.error),
        "actions": [_rendered(action, row.id) for action in told.actions],
        "decisions": [render.event(recorded) for recorded in decisions],
    }
    return Response(render.to_json(body), media_type=JSON)


def _rendered(action: Action, workspace_id: UUID) -> dict[str, str]:
    route = ROUTES[action.ask]
    return {"label": action.label, "method": route.method, "path": route.path(workspace_id)}
