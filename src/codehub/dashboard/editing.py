"""Making a workspace and changing what people may set: forms in,
a workspace or the same form with what is wrong out.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from codehub.core.ceilings import UNITS
from codehub.core.messages import Code, Message
from codehub.core.requests import Refusal, Refused
from codehub.core.workspace import InstanceBackend, Spec, Workspace
from codehub.dashboard.actions import above_ceiling, refusal_text
from codehub.dashboard.caller import Caller
from codehub.dashboard.forms import FIELDS, NEVER, WrongFields, read_form, validate, workspace_fields
from codehub.dashboard.home import usage
from codehub.dashboard.redirects import see_other
from codehub.dashboard.rendering import Pages
from codehub.ports.store import NameTaken
from codehub.settings import Ide
from codehub.web.measures import span
from codehub.web.new_workspace import NotHere, changed_resources, draft, refuse_missing_ide
from codehub.web.schemas import WorkspaceBody, WorkspacePatch

_STANDBY_S = (300, 900, 1800, 3600, 7200, 28_800)
_ARCHIVE_S = (0, 3600, 86_400, 604_800, 2_592_000)


async def new(pages: Pages, caller: Caller) -> Response:
    return await _form(pages, caller, _defaults(pages))


async def create(pages: Pages, caller: Caller) -> Response:
    given = await read_form(caller.request)
    parts = pages.parts
    workspace_id = parts.identity.new_id()
    try:
        body = validate(WorkspaceBody, workspace_fields(given))
        spec = draft(body, caller.person.id, workspace_id, parts)
        made = await parts.workspaces.create(workspace_id, spec, caller.by(Message(Code.ASKED_TO_CREATE)))
    except WrongFields as wrong:
        return await _form(pages, caller, _defaults(pages) | given, wrong=wrong.fields, status=422)
    except NotHere as missing:
        return await _form(pages, caller, _defaults(pages) | given, wrong={missing.field}, status=422)
    except NameTaken:
        problem = caller.say("no.NAME_TAKEN")
        return await _form(
            pages, caller, _defaults(pages) | given, problem=problem, wrong={"name"}, status=409
        )
    if isinstance(made, Refused):
        above, status = _above(made)
        problem = refusal_text(made, None, caller)
        return await _form(
            pages, caller, _defaults(pages) | given, problem=problem, wrong=above, status=status or 429
        )
    return see_other(f"/workspaces/{made.id}")


async def settings(pages: Pages, caller: Caller) -> Response:
    row = await pages.parts.workspaces.find(caller.person, caller.workspace_id)
    return await _form(pages, caller, _values(row.spec), row=row)


async def change(pages: Pages, caller: Caller) -> Response:
    """Save what was changed on the form, and nothing else: beside each
    field it says what that was when the form was drawn.
    """
    row = await pages.parts.workspaces.find(caller.person, caller.workspace_id)
    given = await read_form(caller.request)
    edit = _edit(row, given)
    try:
        body = validate(WorkspacePatch, _changed_fields(given, edit.mine))
        fields = {name: getattr(body, name) for name in body.model_fields_set}
        resources = fields.pop("resources", None)
        if "ide" in fields:
            refuse_missing_ide(fields["ide"], pages.parts)
    except WrongFields as wrong:
        return await _again(pages, caller, edit, wrong=wrong.fields, status=422)
    except NotHere as missing:
        return await _again(pages, caller, edit, wrong={missing.field}, status=422)
    if edit.others:
        return await _again(pages, caller, edit, problem=caller.say("edit.stale"))

    def changes(spec: Spec) -> Mapping[str, Any]:
        return {**fields, "resources": changed_resources(resources, spec.resources)}

    differs = sorted(name for name, value in changes(row.spec).items() if getattr(row.spec, name) != value)
    by = caller.by(Message(Code.ASKED_TO_CHANGE, {"fields": differs}))
    seen = frozenset({row.spec.revision})
    try:
        ruled = await pages.parts.workspaces.change(row.id, changes, None, by, revisions=seen)
    except NameTaken:
        return await _again(pages, caller, edit, problem=caller.say("no.NAME_TAKEN"), wrong={"name"})
    if isinstance(ruled.ruling, Refused):
        is_stale = ruled.ruling.code is Refusal.PRECONDITION_FAILED
        problem = (
            caller.say("edit.stale") if is_stale else refusal_text(ruled.ruling, ruled.workspace, caller)
        )
        above, status = _above(ruled.ruling)
        edit = _edit(ruled.workspace, given)
        return await _again(pages, caller, edit, problem=problem, wrong=above, status=status or 409)
    return see_other(f"/workspaces/{row.id}?done=saved")


def _above(refused: Refused) -> tuple[set[str], int | None]:
    """Return which field of the form is above a ceiling, and the status for that."""
    above = above_ceiling(refused)
    return (set(), None) if above is None else ({above.field.rpartition(".")[2]}, 422)


@dataclass(frozen=True, slots=True)
class _Edit:
    """Somebody's changes, and what is stored by now."""

    row: Workspace
    mine: Mapping[str, str]
    """What they changed on the form."""
    others: Mapping[str, str]
    """What is stored where somebody else changed the same field to something else meanwhile."""


def _edit(row: Workspace, given: Mapping[str, str]) -> _Edit:
    mine, others = {}, {}
    for field in FIELDS:
        name, stored = field.name, field.form_value(row.spec)
        drawn, typed = field.normalise(given.get(f"was.{name}", "")), field.normalise(given.get(name, ""))
        if name in given and typed != drawn:
            mine[name] = given[name]
            if field.normalise(stored) not in (drawn, typed):
                others[name] = stored
    return _Edit(row, mine, others)


def _changed_fields(given: Mapping[str, str], mine: Container[str]) -> dict[str, Any]:
    """Return the form's texts as the API would have got them, but for those that nobody changed."""
    fields = workspace_fields(given)
    resources = {name: value for name, value in fields.pop("resources", {}).items() if name in mine}
    changed = {name: value for name, value in fields.items() if name in mine}
    return changed | ({"resources": resources} if resources else {})


async def _again(pages: Pages, caller: Caller, edit: _Edit, *, status: int = 409, **notes: Any) -> Response:
    """Draw the form with what they typed over what is stored by now: whoever saves it again has seen that."""
    values = {**_values(edit.row.spec), **edit.mine}
    return await _form(pages, caller, values, row=edit.row, others=edit.others, status=status, **notes)


async def _form(
    pages: Pages,
    caller: Caller,
    values: Mapping[str, str],
    *,
    row: Workspace | None = None,
    wrong: frozenset[str] | set[str] = frozenset(),
    problem: str | None = None,
    others: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """`others`: what is stored where something else was typed."""
    known = pages.parts.ides or [ide.value for ide in Ide]
    ides = known if values["ide"] in known else [*known, values["ide"]]
    has_images = any(backend is not InstanceBackend.LOCAL_PROCESS for backend in pages.parts.homes)
    return pages.render(
        caller,
        "form.html",
        status=status,
        row=row,
        values=values,
        drawn={} if row is None else _values(row.spec),
        wrong=wrong,
        problem=problem,
        others={name: _readable(name, text, caller) for name, text in (others or {}).items()},
        ides=ides,
        has_images=has_images,
        bounds={name: f"{getattr(pages.parts.ceilings.resources, name):g}" for name in UNITS},
        standby=_choices(_STANDBY_S, values["standby_ttl_seconds"], caller),
        archive=_choices(_ARCHIVE_S, values["archive_ttl_seconds"], caller),
        usage=await usage(pages, caller),
    )


def _defaults(pages: Pages) -> dict[str, str]:
    return {field.name: field.form_value(pages.parts.defaults) for field in FIELDS}


def _values(spec: Spec) -> dict[str, str]:
    return {field.name: field.form_value(spec) for field in FIELDS}


def _choices(usual: tuple[int, ...], chosen: str, caller: Caller) -> list[tuple[str, str]]:
    """Return times to choose from; the one that is set is always among them."""
    seconds = sorted({*usual, *([int(chosen)] if chosen.isdecimal() else [])})
    return [(text, _readable("_seconds", text, caller)) for text in (*map(str, seconds), NEVER)]


def _readable(name: str, text: str, caller: Caller) -> str:
    """Return a field's value as people read it."""
    if name in ("tab_script", "cross_port_access"):
        return caller.say(f"switch.{text}")
    if not name.endswith("_seconds"):
        return text or caller.say("edit.nothing")
    if text == NEVER:
        return caller.say("ttl.never")
    return caller.say("ttl.at_once") if text == "0" else span(int(text), caller.language)
