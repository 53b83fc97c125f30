"""One workspace: what is happening and why, what was seen, its history, its output."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from starlette.responses import Response

from codehub.core.ceilings import describe_clamp
from codehub.core.conditions import NAMES
from codehub.core.disk_space import Usage
from codehub.core.errors import NEWEST_ARCHIVE_AT, ErrorInfo, ErrorReason
from codehub.core.explain import WaitsFor, remedy
from codehub.core.history import EventKind
from codehub.core.messages import Code, Message
from codehub.core.operations import Operation, Phase
from codehub.core.workspace import Workspace, counts_as_running
from codehub.dashboard.caller import Caller
from codehub.dashboard.home import usage, view_rows
from codehub.dashboard.rendering import Pages
from codehub.dashboard.view_model import OUR_OWN, event_text, event_tone, track
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import Recorded
from codehub.web.domain_text import message_text, remedy_text, trouble_text, waiting_text, why_text

_HISTORY = 30
_LINES = 200
_LOG_BYTES_MAX = 200_000
_DIGITS_MAX = 18
_MOMENT = timedelta(seconds=0.5)
"""The lines of one pass are written one after the other, and what
it saw may be a pass older than what it concludes.
"""
_FIELDS = frozenset(
    f"field.{name}"
    for name in ("name", "description", "ide", "image_ref", "resources", "standby_ttl", "archive_ttl")
)
_ASKED = frozenset({EventKind.WISH, EventKind.RECOVERY, EventKind.DELETION})


async def page(pages: Pages, caller: Caller) -> Response:
    end = await pages.parts.store.feed_end()
    row = await pages.parts.workspaces.find(caller.person, caller.workspace_id)
    values = await part_values(pages, caller, row)
    if caller.is_partial and caller.target == "ws":
        return pages.render(caller, "live.html", is_fragment=True, **values)
    is_saved = caller.request.query_params.get("done") == "saved"
    return pages.render(
        caller,
        "detail.html",
        seq=end.seq,
        said=caller.say("done.saved") if is_saved else None,
        address=f"/workspaces/{row.id}" if is_saved else None,
        **values,
    )


async def part_values(pages: Pages, caller: Caller, row: Workspace) -> dict[str, Any]:
    """Return everything that the page says of a workspace, as it is now."""
    (view,) = await view_rows(pages, caller, [row])
    language, error = caller.language, row.status.error_info
    waiting = view.explanation.waiting_for
    limited = describe_clamp(pages.parts.ceilings, row.spec.resources)
    if waiting is not None and waiting.on in (WaitsFor.REMEDY, WaitsFor.END_SEEN):
        waiting = None  # the problem's own box says it, and so does the bar
    return {
        "one": view,
        "has_ports": pages.parts.ports.origins is not None,
        "why": why_text(view.explanation.why, language),
        "waiting": None if waiting is None else waiting_text(waiting, language),
        "track": track(row, view.explanation),
        "conditions": [(name, getattr(row.status.conditions, name)) for name in NAMES],
        "names": NAMES,
        "trouble": None if error is None else trouble_text(error.reason, language),
        "message": None if error is None else message_text(error.message, language),
        "remedy": None
        if error is None
        else remedy_text(remedy(row, error), language)
        if view.explanation.error is not None
        else caller.say("trouble.changed"),
        "newest_at": None if error is None else _newest_at(error),
        "is_loss": error is not None
        and error.reason in (ErrorReason.DATA_LOST, ErrorReason.ARCHIVE_CORRUPTED),
        "usage": await usage(pages, caller),
        "clamping": None if limited is None else message_text(limited, language),
        "used": _used(await pages.parts.store.usages([row.id]), row, caller),
        **await _history(pages, caller, row, None),
    }


def _used(usages: Mapping[UUID, Usage], row: Workspace, caller: Caller) -> str | None:
    """Return what it uses in words, as far as it was measured."""
    workspace_usage = usages.get(row.id)
    if workspace_usage is None:
        return None
    facts = {
        "memory_mb": workspace_usage.memory_mb,
        "cpu": workspace_usage.cpu,
        "disk_mb": workspace_usage.disk_mb,
    }
    return " · ".join(caller.say(f"used.{name}", n=n) for name, n in facts.items() if n is not None) or None


def _newest_at(error: ErrorInfo) -> datetime | None:
    at = error.context.get(NEWEST_ARCHIVE_AT)
    return None if at is None else datetime.fromisoformat(at)


async def history(pages: Pages, caller: Caller) -> Response:
    """Answer with the part of the history that is older than the page shows."""
    row = await pages.parts.workspaces.find(caller.person, caller.workspace_id)
    before = caller.request.query_params.get("before", "")
    values = await _history(
        pages, caller, row, int(before) if before.isdecimal() and len(before) <= _DIGITS_MAX else None
    )
    return pages.render(caller, "history.html", place=f"/workspaces/{row.id}", is_earlier=True, **values)


async def _history(pages: Pages, caller: Caller, row: Workspace, before: int | None) -> dict[str, Any]:
    records = await pages.parts.store.history(row.id, limit=_HISTORY + 1, before_seq=before)
    lines = [_line(record, caller) for record in without_repetitions(records[:_HISTORY])]
    return {"lines": lines, "earlier": records[_HISTORY - 1].seq if len(records) > _HISTORY else None}


def without_repetitions(records: Sequence[Recorded]) -> list[Recorded]:
    """Leave out what another line of the same moment says already: that an operation ended, beside where
    it led; ERROR, beside why; what a deletion, or taking it back, makes of the wish.
    """

    def has_beside(record: Recorded, kind: EventKind) -> bool:
        return any(other.event.kind is kind and abs(other.at - record.at) < _MOMENT for other in records)

    def is_repetition(record: Recorded) -> bool:
        event = record.event
        if event.kind is EventKind.OPERATION and event.after == Operation.NONE:
            return has_beside(record, EventKind.PHASE)
        if event.kind is EventKind.WISH:
            return has_beside(record, EventKind.DELETION)
        return (
            event.kind is EventKind.PHASE
            and event.after == Phase.ERROR
            and has_beside(record, EventKind.ERROR)
        )

    return [record for record in records if not is_repetition(record)]


def _line(recorded: Recorded, caller: Caller) -> dict[str, Any]:
    event = recorded.event
    is_asked = event.kind in _ASKED and event.actor not in OUR_OWN
    return {
        "seq": recorded.seq,
        "at": recorded.at,
        "tone": event_tone(event),
        "words": event_text(event, caller.say, caller.language),
        # What a person asked for is said already; what of its settings they changed is not.
        "reason": None
        if is_asked and event.before != event.after
        else _fields_text(event.reason, caller) or message_text(event.reason, caller.language),
    }


def _fields_text(reason: Message, caller: Caller) -> str | None:
    """Return which settings were changed, by the names that forms
    give them; None if a reason says something else.
    """
    if reason.code != Code.ASKED_TO_CHANGE:
        return None
    keys = [f"field.{name.removesuffix('_seconds')}" for name in reason.facts["fields"]]
    if not _FIELDS.issuperset(keys):
        return None
    return caller.say("event.fields", fields=", ".join(caller.say(key) for key in keys))


async def logs(pages: Pages, caller: Caller) -> Response:
    row = await pages.parts.workspaces.find(caller.person, caller.workspace_id)
    instances = pages.parts.instances.get(row.spec.instance_backend)
    text, is_away = "", instances is None
    if instances is not None:
        try:
            parts = [part async for part in instances.logs(row.id, tail=_LINES)]
            text = b"".join(parts)[-_LOG_BYTES_MAX:].decode("utf-8", "replace")
        except BackendUnreachable:
            is_away = True
    return pages.render(caller, "logs.html", text=text, is_away=is_away, is_awake=counts_as_running(row))
