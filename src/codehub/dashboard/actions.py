"""Buttons: a person's request in, its outcome out, as a row, a part of a page, or the page to go on with."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.responses import Response

from codehub.core.amendments import By
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState
from codehub.core.requests import FieldRefusal, Refusal, Refused, is_purge_due
from codehub.core.workspace import Workspace, is_deleted
from codehub.dashboard import detail
from codehub.dashboard.auth import Handler
from codehub.dashboard.caller import Caller
from codehub.dashboard.forms import is_sure, read_form
from codehub.dashboard.home import usage, view_rows
from codehub.dashboard.redirects import local_path, see_other
from codehub.dashboard.rendering import HAS_MESSAGE, Pages
from codehub.dashboard.view_model import KEPT_AWAKE_S
from codehub.error_codes import ErrorCode
from codehub.ports.store import NameTaken, Ruled
from codehub.service.workspaces import WorkspaceService
from codehub.web.recovery import recovery

Asking = Callable[[WorkspaceService, UUID, By], Awaitable[Ruled]]


def wish(word: str, asked: Code, wanted: DesiredState) -> Handler:
    async def ask(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
        return await service.set_wish(workspace_id, wanted, by)

    return _button(word, asked, ask)


def _button(
    word: str,
    asked: Code,
    ask: Asking,
    *,
    even_deleted: bool = False,
    sure: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Handler:
    """`sure`: the text that asks first. With scripts the page has asked already."""

    async def press(pages: Pages, caller: Caller) -> Response:
        service, given = pages.parts.workspaces, await read_form(caller.request)
        if sure is not None and not caller.is_partial and not is_sure(given):
            row = await service.find(caller.person, caller.workspace_id, even_deleted=even_deleted)
            return pages.confirm(
                caller,
                caller.say(sure, name=row.spec.name),
                answer=caller.say(f"do.{word}"),
                fields=given,
                back=local_path(given.get("back")),
            )
        return await _answer(
            pages, caller, word, ask(service, caller.workspace_id, caller.by(Message(asked, facts or {})))
        )

    return press


async def _keep_awake(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.keep_awake(workspace_id, by, seconds=KEPT_AWAKE_S)


async def _delete(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.delete(workspace_id, by)


async def _purge(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.delete(workspace_id, by, purge=True)


async def _undelete(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.undelete(workspace_id, by)


async def _forget(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.forget(workspace_id, by)


async def _pin(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.change(workspace_id, lambda _spec: {"pinned": True}, None, by)


async def _unpin(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.change(workspace_id, lambda _spec: {"pinned": False}, None, by)


start = wish("start", Code.ASKED_TO_START, DesiredState.RUNNING)
stop = wish("stop", Code.ASKED_TO_STOP, DesiredState.STANDBY)
archive = wish("archive", Code.ASKED_TO_ARCHIVE, DesiredState.ARCHIVED)
keep_awake = _button("keep_awake", Code.ASKED_TO_KEEP_AWAKE, _keep_awake, facts={"seconds": KEPT_AWAKE_S})
pin = _button("pin", Code.ASKED_TO_PIN, _pin)
unpin = _button("unpin", Code.ASKED_TO_UNPIN, _unpin)
delete = _button("delete", Code.ASKED_TO_DELETE, _delete)
purge = _button("purge", Code.ASKED_TO_PURGE, _purge, even_deleted=True, sure="trash.sure")
undelete = _button("undelete", Code.ASKED_TO_UNDELETE, _undelete, even_deleted=True)
forget = _button("forget", Code.ASKED_TO_FORGET, _forget, sure="forget.sure")


async def recover(pages: Pages, caller: Caller) -> Response:
    """Losing files takes a tick of its own: a button alone never accepts a loss."""
    ticked = await read_form(caller.request)
    chosen = ticked.get("choice")
    asked = recovery(
        accept_loss=chosen is None and ticked.get("accept_loss") == "yes",
        take="newest" if chosen == "newest" else None,
        adopt=chosen == "adopt",
    )
    service = pages.parts.workspaces
    request = service.recover(
        caller.workspace_id, caller.by(asked.reason), accept_loss=asked.accept_loss, choice=asked.choice
    )
    return await _answer(pages, caller, "recover", request)


async def _answer(pages: Pages, caller: Caller, word: str, request: Awaitable[Ruled]) -> Response:
    """Say what became of it where it was asked for."""
    try:
        ruled = await request
    except NameTaken:
        service = pages.parts.workspaces
        row = await service.find(caller.person, caller.workspace_id, even_deleted=True)
        return await _show_message(pages, caller, row, caller.say("no.NAME_TAKEN"), status=409)
    caller = replace(caller, now=await pages.parts.store.now())  # what was done is older than the answer
    if isinstance(ruled.ruling, Refused):
        message = refusal_text(ruled.ruling, ruled.workspace, caller)
        return await _show_message(
            pages, caller, ruled.workspace, message, status=ErrorCode[ruled.ruling.code].status
        )
    message = caller.say(f"done.{word}", name=ruled.workspace.spec.name)
    return await _show_message(pages, caller, ruled.workspace, message, word=word)


async def _show_message(
    pages: Pages, caller: Caller, row: Workspace, message: str, *, status: int = 200, word: str | None = None
) -> Response:
    if not caller.is_partial:
        if word is None:
            return pages.render(caller, "refusal.html", status=status, message=message, usage=None)
        back = local_path((await read_form(caller.request)).get("back"))
        return see_other(back)
    undo = f"/workspaces/{row.id}/undelete" if word == "delete" else None
    toast: dict[str, Any] = {"message": message, "is_bad": word is None, "undo": undo}
    if caller.target == "ws" and not is_deleted(row):
        values = await detail.part_values(pages, caller, row)
        return pages.render(
            caller, "changed.html", status=status, part="workspace", is_fragment=True, toast=toast, **values
        )
    (view,) = await view_rows(pages, caller, [row])
    in_trash = caller.target.startswith("trash-")
    answer = pages.render(
        caller,
        "changed.html",
        status=status,
        part="trash" if in_trash else "row",
        one=view,
        is_gone=_left_trash(row, word, caller) if in_trash else is_deleted(row),
        is_all="/admin/" in caller.request.headers.get("hx-current-url", ""),
        toast=toast,
        is_fragment=True,
        usage=await usage(pages, caller),
    )
    answer.headers.update(HAS_MESSAGE)
    return answer


def _left_trash(row: Workspace, word: str | None, caller: Caller) -> bool:
    """Whether a row of the trash goes. What somebody else purged goes, too, though this button did
    nothing.
    """
    return word == "purge" or not is_deleted(row) or is_purge_due(row.spec, caller.now)


def refusal_text(refused: Refused, row: Workspace | None, caller: Caller) -> str:
    """Say why not, by the refusal's code, with its facts."""
    if (above := above_ceiling(refused)) is not None:
        bound = {**above.bound, "allowed": _listed(above.bound.get("allowed"))}
        return caller.say(f"above.{above.field}", **bound)
    details = refused.details or {}
    if refused.code is not Refusal.LIMIT_EXCEEDED:
        return caller.say(f"no.{refused.code}", name="" if row is None else row.spec.name)
    if details.get("limit") != "per_user":
        return caller.say("no.LIMIT_TOTAL", max=details.get("max"))
    running = details.get("running")
    listed = running if isinstance(running, list) else []
    return _makes_room(listed, refused.in_error, details.get("max"), caller)


def above_ceiling(refused: Refused) -> FieldRefusal | None:
    """Return which field is above an operator's ceiling, and the bound."""
    return next(iter(refused.fields), None)


def _listed(names: object) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else ""


def _makes_room(
    running: list[Mapping[str, str]], in_error: Collection[str], most: object, caller: Caller
) -> str:
    """Say what would free a place. What has a problem can't be put to sleep: somebody has to decide about
    it.
    """
    failed = [each["name"] for each in running if each["id"] in in_error]
    awake = ", ".join(each["name"] for each in running if each["id"] not in in_error)
    limit = (
        caller.say("no.LIMIT_EXCEEDED", max=most, names=awake)
        if awake
        else caller.say("no.LIMIT_MAX", max=most)
    )
    return " ".join([limit, *(caller.say("no.LIMIT_PROBLEM", name=name) for name in failed)])
