"""Workspaces: routes over the service layer. They translate and
decide nothing; what may be asked when is the core's.
"""

import hashlib
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query, Request, Response
from starlette.convertors import StringConvertor, register_url_convertor

from codehub.api.context import by, context_of, language_of
from codehub.api.document import OF_PEOPLE, OF_WORKSPACE, SIGNED_IN, answers
from codehub.api.errors import ApiError, field_error, refusal_error
from codehub.api.guard import Admin, Asking
from codehub.api.paging import PageSize
from codehub.api.shapes import WorkspaceList, WorkspaceShape
from codehub.core.access import Person
from codehub.core.listing import BEFORE_ALL, list_cursor, read_cursor
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Phase
from codehub.core.requests import Refused
from codehub.core.route import WRITTEN_ID
from codehub.core.workspace import Spec, is_deleted
from codehub.error_codes import ErrorCode
from codehub.ports.store import Key, KeyReused, PageQuery, Ruled
from codehub.service.workspaces import WorkspaceService
from codehub.web.actions import WORKSPACES
from codehub.web.ids import to_workspace_id
from codehub.web.new_workspace import NotHere, changed_resources, draft, refuse_missing_ide
from codehub.web.recovery import SeveralWays, recovery
from codehub.web.schemas import KeepAwakeBody, NoBody, RecoverBody, WorkspaceBody, WorkspacePatch
from codehub.web.schemas import Query as Words

PREFIX = WORKSPACES


class _Id(StringConvertor):
    """An id in a path. It holds no colon: behind one stands a verb, which has a route and methods of its
    own.
    """

    regex = "[^/:]+"


register_url_convertor("workspace_id", _Id())
ONE_PATH = "/{workspace_id:workspace_id}"
WorkspaceId = Annotated[str, Path(description="The workspace's id.", json_schema_extra={"format": "uuid"})]
_CURSOR = rf"^([0-9]{{1,17}}\.)?{WRITTEN_ID}$"
_ETAG = {"ETag": {"description": 'The revision, as `"3"`.', "schema": {"type": "string"}}}
_MADE = {
    "headers": _ETAG | {"Location": {"description": "Where it is.", "schema": {"type": "string"}}},
    "description": "Made, or made before with the same key.",
}
router = APIRouter(prefix=PREFIX, tags=["workspaces"])
_ONE: Any = {"response_model": WorkspaceShape, "openapi_extra": SIGNED_IN}
_OF_WISH = (ErrorCode.INVALID_STATE, ErrorCode.OPERATION_IN_PROGRESS, ErrorCode.RECOVERY_REQUIRED)


def _service(request: Request) -> WorkspaceService:
    return context_of(request).parts.workspaces


async def _answer(request: Request, ruled: Ruled, *, status: int = 200) -> Response:
    if isinstance(ruled.ruling, Refused):
        raise refusal_error(ruled.ruling)
    return await context_of(request).view.workspace(ruled.workspace, language_of(request), status=status)


@router.post(
    "",
    summary="Make a workspace, and start it unless another wish is given",
    status_code=201,
    responses=answers(*OF_WORKSPACE, ErrorCode.NAME_TAKEN, ErrorCode.LIMIT_EXCEEDED, body=True)
    | {201: _MADE},
    **_ONE,
)
async def create(
    request: Request,
    person: Asking,
    body: WorkspaceBody,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")
    ] = None,
) -> Response:
    parts = context_of(request).parts
    workspace_id = parts.identity.new_id()
    try:
        spec = draft(body, person.id, workspace_id, parts)
    except NotHere as wrong:
        raise field_error(wrong.field, wrong.problem) from None
    key = None if idempotency_key is None else Key(idempotency_key, _digest(body))
    try:
        made = await _service(request).create(
            workspace_id, spec, by(request, person, Message(Code.ASKED_TO_CREATE)), key
        )
    except KeyReused:
        raise field_error("Idempotency-Key", Message(Code.KEY_USED_BEFORE)) from None
    if isinstance(made, Refused):
        raise refusal_error(made)
    if is_deleted(made):
        raise ApiError(
            ErrorCode.WORKSPACE_NOT_FOUND,
            Message(Code.OF_DELETED_WORKSPACE),
        )
    return await context_of(request).view.workspace(
        made, language_of(request), status=201, location=f"{PREFIX}/{made.id}"
    )


@router.get(
    "",
    summary="Your workspaces, pinned ones first, then the newest; an admin may ask for others'",
    response_model=WorkspaceList,
    responses=answers(*OF_PEOPLE, ErrorCode.NOT_FOUND),
    openapi_extra=SIGNED_IN,
)
async def page(
    request: Request,
    person: Asking,
    limit: PageSize,
    cursor: Annotated[
        str | None, Query(pattern=_CURSOR, description="`next_cursor` of the last page.")
    ] = None,
    q: Annotated[Words | None, Query(description="Words in the name or the description.")] = None,
    phase: Phase | None = None,
    owner: Annotated[
        str, Query(max_length=255, description="`me`, `all` (admins) or a name (admins).")
    ] = "me",
    deleted: Annotated[bool, Query(description="What can be undeleted, instead.")] = False,
) -> Response:
    query = PageQuery(
        limit=limit + 1,
        owner_user_id=await _owner_id(request, person, owner),
        after=read_cursor(cursor) if cursor else BEFORE_ALL,
        search_text=q,
        phase=phase,
        deleted=deleted,
    )
    rows = await context_of(request).parts.store.page(query)
    is_more = len(rows) > limit
    return await context_of(request).view.page(
        rows[:limit], list_cursor(rows[limit - 1]) if is_more else None, language_of(request)
    )


async def _owner_id(request: Request, person: Person, owner: str) -> UUID | None:
    name = owner.lower()  # names are the same in either case, and nobody is called `me` or `all`
    if name in ("me", person.user.username.lower()):
        return person.id
    if not person.is_admin:
        raise ApiError(ErrorCode.FORBIDDEN, Message(Code.SEEN_BY_ADMINS))
    if name == "all":
        return None
    user = await context_of(request).parts.access.user_named(owner)
    if user is None:
        raise ApiError(ErrorCode.NOT_FOUND, Message(Code.NO_SUCH_USER))
    return user.id


@router.get(
    ONE_PATH,
    summary="One workspace",
    responses=answers(*OF_WORKSPACE) | {200: {"headers": _ETAG}},
    **_ONE,
)
async def get(request: Request, person: Asking, workspace_id: WorkspaceId) -> Response:
    row = await _service(request).find(person, to_workspace_id(workspace_id))
    return await context_of(request).view.workspace(row, language_of(request))


@router.patch(
    ONE_PATH,
    summary="Change what people may set. Image, IDE and resources count from the next start",
    responses=answers(
        *OF_WORKSPACE,
        *_OF_WISH,
        ErrorCode.NAME_TAKEN,
        ErrorCode.PRECONDITION_FAILED,
        ErrorCode.LIMIT_EXCEEDED,
        body=True,
    )
    | {200: {"headers": _ETAG}},
    **_ONE,
)
async def patch(
    request: Request,
    person: Asking,
    workspace_id: WorkspaceId,
    body: WorkspacePatch,
    if_match: Annotated[
        str | None, Header(max_length=255, description='The revision you know, as `"3"`.')
    ] = None,
) -> Response:
    given = {name: getattr(body, name) for name in body.model_fields_set}
    wanted = given.pop("desired_state", None)
    resources = given.pop("resources", None)
    parts = context_of(request).parts

    def changes(spec: Spec) -> dict[str, Any]:
        if given.get("ide", spec.ide) != spec.ide:
            refuse_missing_ide(given["ide"], parts)
        if resources is None:
            return given
        return {**given, "resources": changed_resources(resources, spec.resources)}

    fields = sorted(body.model_fields_set)
    try:
        ruled = await parts.workspaces.change(
            to_workspace_id(workspace_id),
            changes,
            wanted,
            by(request, person, Message(Code.ASKED_TO_CHANGE, {"fields": fields})),
            revisions=_revisions(if_match),
        )
    except NotHere as wrong:
        raise field_error(wrong.field, wrong.problem) from None
    return await _answer(request, ruled)


def _wish_route(word: str, asked: Code, wish: DesiredState, summary: str) -> None:
    codes = _OF_WISH if wish is not DesiredState.RUNNING else (*_OF_WISH, ErrorCode.LIMIT_EXCEEDED)

    @router.post(
        f"{ONE_PATH}:{word}",
        name=word,
        operation_id=f"{word}_workspace",
        summary=summary,
        responses=answers(*OF_WORKSPACE, *codes, body=True),
        **_ONE,
    )
    async def wish_for(
        request: Request, person: Asking, workspace_id: WorkspaceId, _body: NoBody | None = None
    ) -> Response:
        asked_by = by(request, person, Message(asked))
        ruled = await _service(request).set_wish(to_workspace_id(workspace_id), wish, asked_by)
        return await _answer(request, ruled)


_wish_route("start", Code.ASKED_TO_START, DesiredState.RUNNING, "Wish it RUNNING")
_wish_route("stop", Code.ASKED_TO_STOP, DesiredState.STANDBY, "Wish it STANDBY")
_wish_route("archive", Code.ASKED_TO_ARCHIVE, DesiredState.ARCHIVED, "Wish it ARCHIVED")


@router.post(
    f"{ONE_PATH}:recover",
    summary=(
        "Drop its error and judge anew. accept_loss goes on without what is gone, take with the newest "
        "archive, adopt with the volume that is there"
    ),
    responses=answers(*OF_WORKSPACE, ErrorCode.INVALID_STATE, ErrorCode.LIMIT_EXCEEDED, body=True),
    **_ONE,
)
async def recover(
    request: Request,
    person: Asking,
    workspace_id: WorkspaceId,
    body: RecoverBody | None = None,
    accept_loss: Annotated[
        bool, Query(description="The same as in the body: `explain` names it so.")
    ] = False,
    take: Annotated[Literal["newest"] | None, Query(include_in_schema=False)] = None,
    adopt: Annotated[bool, Query(include_in_schema=False)] = False,
) -> Response:
    service, wanted_id = _service(request), to_workspace_id(workspace_id)
    try:
        asked = recovery(accept_loss=accept_loss, take=take, adopt=adopt)
        if body is not None and body != RecoverBody():  # what the body says counts
            asked = recovery(accept_loss=body.accept_loss, take=body.take, adopt=body.adopt)
    except SeveralWays as wrong:
        await service.find(person, wanted_id)  # whoever may not ask is told that first
        raise field_error("body", wrong.problem) from None
    ruled = await service.recover(
        wanted_id,
        by(request, person, asked.reason),
        accept_loss=asked.accept_loss,
        choice=asked.choice,
    )
    return await _answer(request, ruled)


@router.post(
    f"{ONE_PATH}:undelete",
    summary="Undo its deletion",
    responses=answers(*OF_WORKSPACE, ErrorCode.OPERATION_IN_PROGRESS, ErrorCode.NAME_TAKEN, body=True),
    **_ONE,
)
async def undelete(
    request: Request, person: Asking, workspace_id: WorkspaceId, _body: NoBody | None = None
) -> Response:
    asked_by = by(request, person, Message(Code.ASKED_TO_UNDELETE))
    return await _answer(request, await _service(request).undelete(to_workspace_id(workspace_id), asked_by))


@router.post(
    f"{ONE_PATH}:forget",
    summary=(
        "Give up on a deletion that a dead backend holds up (admins). No file goes; `codehub gc` lists "
        "what is left"
    ),
    responses=answers(*OF_WORKSPACE, ErrorCode.INVALID_STATE, body=True),
    **_ONE,
)
async def forget(
    request: Request, person: Admin, workspace_id: WorkspaceId, _body: NoBody | None = None
) -> Response:
    asked_by = by(request, person, Message(Code.ASKED_TO_FORGET))
    return await _answer(request, await _service(request).forget(to_workspace_id(workspace_id), asked_by))


@router.post(
    f"{ONE_PATH}:keep_awake",
    summary="Let it not sleep for that long, an hour if nothing is said",
    responses=answers(*OF_WORKSPACE, ErrorCode.INVALID_STATE, body=True),
    **_ONE,
)
async def keep_awake(
    request: Request, person: Asking, workspace_id: WorkspaceId, body: KeepAwakeBody | None = None
) -> Response:
    seconds = (body or KeepAwakeBody()).seconds
    asked_by = by(request, person, Message(Code.ASKED_TO_KEEP_AWAKE, {"seconds": seconds}))
    ruled = await _service(request).keep_awake(to_workspace_id(workspace_id), asked_by, seconds=seconds)
    return await _answer(request, ruled)


@router.delete(
    ONE_PATH,
    summary="Delete it; until purge_at it can be undeleted. purge keeps nothing",
    status_code=202,
    responses=answers(*OF_WORKSPACE, ErrorCode.OPERATION_IN_PROGRESS),
    **_ONE,
)
async def delete(
    request: Request,
    person: Asking,
    workspace_id: WorkspaceId,
    purge: Annotated[bool, Query(description="Keep nothing, and do it at once.")] = False,
) -> Response:
    asked_by = by(request, person, Message(Code.ASKED_TO_PURGE if purge else Code.ASKED_TO_DELETE))
    ruled = await _service(request).delete(to_workspace_id(workspace_id), asked_by, purge=purge)
    return await _answer(request, ruled, status=202)


def _digest(body: WorkspaceBody) -> bytes:
    return hashlib.sha256(body.model_dump_json(exclude_unset=True).encode()).digest()


def _revisions(if_match: str | None) -> frozenset[int] | None:
    """Return the revisions that the caller knows. None: whatever
    it is. A tag that is not ours matches nothing.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    tags = [tag.strip() for tag in if_match.split(",")]
    return frozenset(
        int(tag[1:-1])
        for tag in tags
        if tag[:1] == tag[-1:] == '"' and tag[1:-1].isascii() and tag[1:-1].isdigit()
    )
