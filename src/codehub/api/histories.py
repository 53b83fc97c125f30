"""What became of a workspace and why: its history, its output, and an explanation. Only reads."""

from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from codehub.api import render
from codehub.api.context import context_of, language_of
from codehub.api.document import OF_WORKSPACE, SIGNED_IN, answers
from codehub.api.errors import ApiError
from codehub.api.guard import Asking, find_person
from codehub.api.paging import PageSize
from codehub.api.shapes import EventList, ExplainShape
from codehub.api.streaming import StreamingAnswer
from codehub.api.view import JSON
from codehub.api.workspaces import ONE_PATH, PREFIX, WorkspaceId
from codehub.core.access import Person
from codehub.core.explain import Action, Waiting, explain
from codehub.core.messages import Code, Message, to_json
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import StoreUnavailable, UnknownWorkspace
from codehub.service.workspaces import NotAllowed
from codehub.web.actions import ROUTES
from codehub.web.domain_text import ask_text, waiting_text, why_text
from codehub.web.ids import to_workspace_id

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
    limit: PageSize,
    cursor: Annotated[
        str | None, Query(pattern=r"^[0-9]{1,18}$", description="`next_cursor` of the last page.")
    ] = None,
) -> Response:
    row = await context_of(request).parts.workspaces.find(person, to_workspace_id(workspace_id))
    recorded = await context_of(request).parts.store.history(
        row.id, limit=limit + 1, before_seq=int(cursor) if cursor else None
    )
    language = language_of(request)
    items = [render.event(each, language) for each in recorded[:limit]]
    next_cursor = str(recorded[limit - 1].seq) if len(recorded) > limit else None
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
    row = await context_of(request).parts.workspaces.find(person, to_workspace_id(workspace_id))
    instances = context_of(request).parts.instances.get(row.spec.instance_backend)
    if instances is None:
        raise BackendUnreachable(Message(Code.NO_ADAPTER, {"backend": str(row.spec.instance_backend)}))
    output = instances.logs(row.id, tail=tail, follow=follow)
    if follow:
        return await _follow(request, person, workspace_id, output)
    return Response(b"".join([part async for part in output]), media_type=_TEXT)


async def _follow(
    request: Request, person: Person, workspace_id: str, output: AsyncIterator[bytes]
) -> Response:
    """Return output that goes on, for as long as whoever asked may still ask for it."""
    context = context_of(request)

    async def may_go_on() -> bool:
        try:
            person = await find_person(request)
            await context.parts.workspaces.find(person, to_workspace_id(workspace_id))
        except (ApiError, UnknownWorkspace, NotAllowed, StoreUnavailable):
            return False
        return True

    held = await context.feed.hold(person)
    held.is_ended.set()  # asked at once: the key may have ended before its end would have been heard of
    return StreamingAnswer(context.feed, held, output, media_type=_TEXT, may_continue=may_go_on)


@router.get(
    f"{ONE_PATH}/explain",
    summary="Where it is, where it should be, what is done about it, and why it is not there yet",
    response_model=ExplainShape,
    responses=answers(*OF_WORKSPACE),
    openapi_extra=SIGNED_IN,
)
async def explain_workspace(request: Request, person: Asking, workspace_id: WorkspaceId) -> Response:
    row = await context_of(request).parts.workspaces.find(person, to_workspace_id(workspace_id))
    explanation = explain(row, await context_of(request).parts.store.now(), is_admin=person.is_admin)
    decisions = await context_of(request).parts.store.history(row.id, limit=_DECISIONS)
    language, waiting = language_of(request), explanation.waiting_for
    body = {
        "phase": row.status.phase,
        "desired_state": row.spec.desired_state,
        "operation": row.status.operation,
        "next": {
            "operation": explanation.operation,
            "why": why_text(explanation.why, language),
            "reason": explanation.why,
        },
        "waiting_for": None if waiting is None else waiting_text(waiting, language),
        "waits": None if waiting is None else _render_wait(waiting, language),
        "since": render.time(explanation.since),
        "error": render.error(explanation.error, language),
        "actions": [_render_action(action, row.id, language) for action in explanation.actions],
        "decisions": [render.event(recorded, language) for recorded in decisions],
    }
    return Response(render.to_json(body), media_type=JSON)


def _render_wait(waiting: Waiting, language: str) -> dict[str, Any]:
    facts = to_json(waiting.facts)
    return {"reason": waiting.on, "message": waiting_text(waiting, language), "facts": facts}


def _render_action(action: Action, workspace_id: UUID, language: str) -> dict[str, str]:
    route = ROUTES[action.ask]
    return {
        "label": ask_text(action.label, language),
        "method": route.method,
        "path": route.path(workspace_id),
    }
