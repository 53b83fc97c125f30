"""Making a workspace and changing what people may set: forms in, a workspace or the same form with what is wrong out."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from codehub.core.wishes import Refusal, Refused
from codehub.core.workspace import InstanceBackend, Resources, Spec, Workspace
from codehub.dashboard.actions import refusal_words
from codehub.dashboard.face import Caller, Face, see_other
from codehub.dashboard.forms import WrongFields, checked, posted, workspace_fields
from codehub.dashboard.home import usage
from codehub.ports.store import NameTaken
from codehub.settings import Ide
from codehub.web.asks import WorkspaceBody, WorkspacePatch
from codehub.web.drafts import NotHere, changed_resources, draft, refuse_missing_ide
from codehub.web.measures import span

_STANDBY_S = (300, 900, 1800, 3600, 7200, 28_800)
_ARCHIVE_S = (0, 3600, 86_400, 604_800, 2_592_000)


async def new(face: Face, caller: Caller) -> Response:
    return await _form(face, caller, _defaults(face))


async def create(face: Face, caller: Caller) -> Response:
    given = await posted(caller.request)
    parts = face.parts
    workspace_id = parts.identity.new_id()
    try:
        body = checked(WorkspaceBody, workspace_fields(given))
        spec = draft(body, caller.person.id, workspace_id, parts)
        made = await parts.workspaces.create(workspace_id, spec, caller.by("Asked to make it."))
    except WrongFields as wrong:
        return await _form(face, caller, _defaults(face) | given, wrong=wrong.fields, status=422)
    except NotHere as missing:
        return await _form(face, caller, _defaults(face) | given, wrong={missing.field}, status=422)
    except NameTaken:
        said = caller.say("no.NAME_TAKEN")
        return await _form(face, caller, _defaults(face) | given, problem=said, wrong={"name"}, status=409)
    if isinstance(made, Refused):
        said = refusal_words(made, None, caller)
        return await _form(face, caller, _defaults(face) | given, problem=said, status=429)
    return see_other(f"/workspaces/{made.id}")


async def settings(face: Face, caller: Caller) -> Response:
    row = await face.find(caller)
    return await _form(face, caller, _values(row.spec), row=row)


async def change(face: Face, caller: Caller) -> Response:
    """Save, unless somebody else did since the form was drawn: it says which revision it knows."""
    row = await face.find(caller)
    given = await posted(caller.request)
    values = _values(row.spec) | given
    try:
        body = checked(WorkspacePatch, workspace_fields(given))
        fields = {name: getattr(body, name) for name in body.model_fields_set}
        resources = fields.pop("resources", None)
        if fields.get("ide", row.spec.ide) != row.spec.ide:
            refuse_missing_ide(fields["ide"], face.parts)

        def changes(spec: Spec) -> Mapping[str, Any]:
            return {**fields, "resources": changed_resources(resources, spec.resources)}

        revision = given.get("revision", "")
        known = frozenset({int(revision)}) if revision.isdecimal() else frozenset[int]()
        differs = sorted(
            name for name, value in changes(row.spec).items() if getattr(row.spec, name) != value
        )
        by = caller.by(f"Asked to change {', '.join(differs)}.")
        ruled = await face.parts.workspaces.change(row.id, changes, None, by, revisions=known)
    except WrongFields as wrong:
        return await _form(face, caller, values, row=row, wrong=wrong.fields, status=422)
    except NotHere as missing:
        return await _form(face, caller, values, row=row, wrong={missing.field}, status=422)
    except NameTaken:
        said = caller.say("no.NAME_TAKEN")
        return await _form(face, caller, values, row=row, problem=said, wrong={"name"}, status=409)
    if isinstance(ruled.ruling, Refused):
        return await _refused(face, caller, values, ruled.ruling, ruled.workspace)
    return see_other(f"/workspaces/{row.id}?done=saved")


async def _refused(
    face: Face, caller: Caller, values: Mapping[str, str], refused: Refused, row: Workspace
) -> Response:
    """Draw the form with what was typed, and beside it what is stored by now: whoever saves it again has seen that."""
    stored = _values(row.spec)
    kept = {**values, "revision": stored["revision"]}
    is_stale = refused.code is Refusal.PRECONDITION_FAILED
    said = caller.say("edit.stale") if is_stale else refusal_words(refused, row, caller)
    others = {name: text for name, text in stored.items() if kept[name].strip() != text}
    return await _form(face, caller, kept, row=row, problem=said, others=others, status=409)


async def _form(
    face: Face,
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
    known = face.parts.ides or [ide.value for ide in Ide]
    ides = known if values["ide"] in known else [*known, values["ide"]]
    has_images = any(backend is not InstanceBackend.LOCAL_PROCESS for backend in face.parts.homes)
    return face.page(
        caller,
        "form.html",
        status=status,
        row=row,
        values=values,
        wrong=wrong,
        problem=problem,
        others={name: _told(name, text, caller) for name, text in (others or {}).items()},
        ides=ides,
        has_images=has_images,
        standby=_choices(_STANDBY_S, values["standby_ttl_seconds"], caller),
        archive=_choices(_ARCHIVE_S, values["archive_ttl_seconds"], caller),
        usage=await usage(face, caller),
    )


def _defaults(face: Face) -> dict[str, str]:
    defaults = face.parts.defaults
    return {
        "name": "",
        "description": "",
        "ide": defaults.ide,
        "image_ref": defaults.image_ref,
        **_numbers(defaults.resources, defaults.standby_ttl_seconds, defaults.archive_ttl_seconds),
    }


def _values(spec: Spec) -> dict[str, str]:
    return {
        "name": spec.name,
        "description": spec.description or "",
        "ide": spec.ide,
        "image_ref": spec.image_ref,
        "revision": str(spec.revision),
        **_numbers(spec.resources, spec.standby_ttl_seconds, spec.archive_ttl_seconds),
    }


def _numbers(resources: Resources, standby_s: int | None, archive_s: int | None) -> dict[str, str]:
    return {
        "memory_mb": str(resources.memory_mb),
        "cpus": f"{resources.cpus:g}",
        "pids": str(resources.pids),
        "standby_ttl_seconds": "never" if standby_s is None else str(standby_s),
        "archive_ttl_seconds": "never" if archive_s is None else str(archive_s),
    }


def _choices(usual: tuple[int, ...], chosen: str, caller: Caller) -> list[tuple[str, str]]:
    """Return times to choose from; the one that is set is always among them."""
    seconds = sorted({*usual, *([int(chosen)] if chosen.isdecimal() else [])})
    return [(text, _told("_seconds", text, caller)) for text in (*map(str, seconds), "never")]


def _told(name: str, text: str, caller: Caller) -> str:
    """Return a field's value as people read it."""
    if not name.endswith("_seconds"):
        return text or caller.say("edit.nothing")
    if text == "never":
        return caller.say("ttl.never")
    return caller.say("ttl.at_once") if text == "0" else span(int(text), caller.language)
