"""Workspaces and events as JSON, byte by byte as wire.md has
them. What has not changed is not written out again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from codehub.api.shapes import WorkspaceShape
from codehub.core import messages
from codehub.core.addresses import WorkspaceAddresses
from codehub.core.conditions import NAMES, Conditions
from codehub.core.disk_space import Usage
from codehub.core.errors import ErrorInfo
from codehub.core.idle import sleeps_at
from codehub.core.progress import Progress
from codehub.core.workspace import (
    Resources,
    Spec,
    Status,
    Workspace,
    display,
    health_status,
    holdup,
    observed_status,
)
from codehub.ports.store import Recorded
from codehub.text import DEFAULT
from codehub.web.domain_text import message_text

if TYPE_CHECKING:
    from uuid import UUID

_RENDERED_MAX = 10_000
_LAST = "observed_at"  # it moves on while nothing else does: `Renderer` puts it at the end each time


class Renderer:
    """Remembers the bytes of each workspace with the object they were made
    of: the stores return the same object until it changes.

    All but `observed_at`, which moves on while nothing else does: it is put at the end each time.
    """

    def __init__(self, addresses: WorkspaceAddresses) -> None:
        self._addresses = addresses
        self._rendered: dict[tuple[UUID, str], tuple[Workspace, Usage | None, bytes]] = {}

    def workspace(
        self,
        row: Workspace,
        owner: str,
        observed_at: datetime | None,
        progress: Progress | None = None,
        usage: Usage | None = None,
        *,
        language: str = DEFAULT,
    ) -> bytes:
        looked = b"null" if (at := time(observed_at)) is None else b'"%b"' % at.encode()
        return b'%b,"observed_at":%b}' % (
            self._render_cached(row, owner, progress, usage, language)[:-1],
            looked,
        )

    def _render_cached(
        self, row: Workspace, owner: str, progress: Progress | None, usage: Usage | None, language: str
    ) -> bytes:
        if progress is not None:
            return self._render(row, owner, progress, usage, language)
        cached = self._rendered.get((row.id, language))
        if cached is not None and cached[0] is row and cached[1] == usage:
            return cached[2]
        rendered = self._render(row, owner, None, usage, language)
        if len(self._rendered) >= _RENDERED_MAX:
            del self._rendered[next(iter(self._rendered))]
        self._rendered[row.id, language] = (row, usage, rendered)
        return rendered

    def _render(
        self, row: Workspace, owner: str, progress: Progress | None, usage: Usage | None, language: str
    ) -> bytes:
        facts = _Facts(row, owner, self._addresses, progress, usage, language)
        return to_json({name: of(facts) for name, of in _SHAPE.items()})


@dataclass(frozen=True, slots=True)
class _Facts:
    """All that a workspace is shown with."""

    row: Workspace
    owner: str
    addresses: WorkspaceAddresses
    progress: Progress | None
    usage: Usage | None
    language: str


# What is shown otherwise than it is stored. Everything else of the shape is the row's field of that name.
_DERIVED: Mapping[str, Callable[[_Facts], Any]] = {
    "id": lambda facts: facts.row.id,
    "created_at": lambda facts: facts.row.created_at,
    "updated_at": lambda facts: facts.row.updated_at,
    "owner": lambda facts: {"id": facts.row.spec.owner_user_id, "username": facts.owner},
    "url": lambda facts: facts.addresses.url_of(facts.row),
    "path_url": lambda facts: facts.addresses.path_url_of(facts.row),
    "resources": lambda facts: _resources(facts.row.spec.resources),
    "display": lambda facts: display(facts.row),
    "observed_status": lambda facts: observed_status(facts.row.status),
    "health_status": lambda facts: health_status(facts.row.status),
    "held_up": lambda facts: _held_up(facts.row.status, facts.language),
    "conditions": lambda facts: _conditions(facts.row.status.conditions, facts.language),
    "error": lambda facts: error(facts.row.status.error_info, facts.language),
    "progress": lambda facts: None if facts.progress is None else progress_shape(facts.progress),
    "usage": lambda facts: None if facts.usage is None else usage_shape(facts.usage),
    "sleeps_at": lambda facts: sleeps_at(facts.row),
}


def _stored_field(name: str) -> Callable[[_Facts], Any]:
    half = "spec" if name in Spec.__slots__ else "status"
    assert name in (Spec if half == "spec" else Status).__slots__, f"nothing is shown as {name}"
    return attrgetter(f"row.{half}.{name}")


_SHAPE: Mapping[str, Callable[[_Facts], Any]] = {
    name: _DERIVED.get(name) or _stored_field(name) for name in WorkspaceShape.model_fields if name != _LAST
}


def _resources(resources: Resources) -> dict[str, Any]:
    return {name: getattr(resources, name) for name in Resources.__slots__}


def to_json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_text_of)
    return text.encode("utf-8", "replace")


def _text_of(value: object) -> str | None:
    """Return as text what JSON has no type for."""
    return time(value) if isinstance(value, datetime) else str(value)


def time(at: datetime | None) -> str | None:
    """Return RFC 3339 in UTC with Z."""
    if at is None:
        return None
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    return f"{at.isoformat()[:-6]}Z"


def error(info: ErrorInfo | None, language: str) -> dict[str, Any] | None:
    if info is None:
        return None
    return {
        "reason": info.reason,
        **_message(info.message, language),
        "is_terminal": info.is_terminal,
        "operation": info.operation,
        "error_count": info.error_count,
        "context": dict(info.context),
        "occurred_at": time(info.occurred_at),
    }


def _held_up(status: Status, language: str) -> dict[str, Any] | None:
    held_up = holdup(status)
    if held_up is None:
        return None
    return {
        "reason": held_up.reason,
        **_message(held_up.message, language),
        "since": time(held_up.since),
        "next_try_at": time(status.retry_at),
    }


def _message(message: messages.Message, language: str) -> dict[str, Any]:
    """Return what stands beside a reason: a text for people; for programs, the code and the facts of it."""
    return {
        "message": message_text(message, language),
        "code": message.code,
        "facts": messages.to_json(message.facts),
    }


def usage_shape(usage: Usage) -> dict[str, Any]:
    return {
        "memory_mb": usage.memory_mb,
        "cpu": usage.cpu,
        "disk_mb": usage.disk_mb,
        "at": time(usage.at),
    }


def progress_shape(progress: Progress) -> dict[str, Any]:
    return {
        "stage": progress.stage,
        "done_bytes": progress.done_bytes,
        "total_bytes": progress.total_bytes,
        "bytes_per_second": progress.bytes_per_second,
        "eta_seconds": progress.eta_seconds,
    }


def event(recorded: Recorded, language: str) -> dict[str, Any]:
    line = recorded.event
    return {
        "seq": recorded.seq,
        "at": time(recorded.at),
        "kind": line.kind,
        "from": line.before,
        "to": line.after,
        "actor": line.actor,
        "reason": line.reason.code,
        "message": message_text(line.reason, language),
        "facts": messages.to_json(line.reason.facts),
        "request_id": line.request_id,
    }


def _conditions(conditions: Conditions, language: str) -> dict[str, Any]:
    return {
        shown: {
            "status": (condition := getattr(conditions, name)).status,
            "reason": condition.reason,
            **_message(condition.message, language),
            "last_transition_time": time(condition.last_transition_time),
        }
        for name, shown in NAMES.items()
    }
