"""Workspaces and events as JSON, byte by byte as wire.md has them. What has not changed is not written out again."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from codehub.core.conditions import NAMES, Conditions
from codehub.core.disk_space import Usage
from codehub.core.errors import ErrorInfo
from codehub.core.idle import sleeps_at
from codehub.core.progress import Progress
from codehub.core.workspace import Status, Workspace, display, health_status, holdup, observed_status
from codehub.ports.store import Recorded

if TYPE_CHECKING:
    from uuid import UUID

_KNOWN_MAX = 10_000


class Renderer:
    """Remembers the bytes of each workspace with the object they were made of: the stores return the same object until it changes.

    All but `observed_at`, which moves on while nothing else does: it is put at the end each time.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._known: dict[UUID, tuple[Workspace, Usage | None, bytes]] = {}

    def workspace(
        self,
        row: Workspace,
        owner: str,
        observed_at: datetime | None,
        progress: Progress | None = None,
        usage: Usage | None = None,
    ) -> bytes:
        looked = b"null" if (at := time(observed_at)) is None else b'"%b"' % at.encode()
        return b'%b,"observed_at":%b}' % (self._written(row, owner, progress, usage)[:-1], looked)

    def _written(self, row: Workspace, owner: str, progress: Progress | None, usage: Usage | None) -> bytes:
        if progress is not None:
            return to_json(self._shape(row, owner, progress, usage))
        known = self._known.get(row.id)
        if known is not None and known[0] is row and known[1] == usage:
            return known[2]
        rendered = to_json(self._shape(row, owner, None, usage))
        if len(self._known) >= _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[row.id] = (row, usage, rendered)
        return rendered

    def _shape(
        self, row: Workspace, owner: str, progress: Progress | None, usage: Usage | None
    ) -> dict[str, Any]:
        spec, status, resources = row.spec, row.status, row.spec.resources
        return {
            "id": str(row.id),
            "name": spec.name,
            "description": spec.description,
            "memo": spec.memo,
            "owner": {"id": str(spec.owner_user_id), "username": owner},
            "url": f"{self._base_url}/w/{row.id}/",
            "revision": spec.revision,
            "image_ref": spec.image_ref,
            "ide": spec.ide,
            "resources": {
                "memory_mb": resources.memory_mb,
                "cpus": resources.cpus,
                "pids": resources.pids,
                "disk_mb": resources.disk_mb,
            },
            "instance_backend": spec.instance_backend,
            "storage_backend": spec.storage_backend,
            "desired_state": spec.desired_state,
            "phase": status.phase,
            "display": display(row),
            "observed_status": observed_status(status),
            "health_status": health_status(status),
            "operation": status.operation,
            "op_id": None if status.op_id is None else str(status.op_id),
            "op_started_at": time(status.op_started_at),
            "held_up": _held_up(status),
            "conditions": _conditions(status.conditions),
            "archive_key": status.archive_key,
            "error": error(status.error_info),
            "progress": None if progress is None else progress_shape(progress),
            "usage": None if usage is None else usage_shape(usage),
            "standby_ttl_seconds": spec.standby_ttl_seconds,
            "archive_ttl_seconds": spec.archive_ttl_seconds,
            "last_access_at": time(spec.last_access_at),
            "awake_until": time(spec.awake_until),
            "sleeps_at": time(sleeps_at(row)),
            "phase_changed_at": time(status.phase_changed_at),
            "created_at": time(row.created_at),
            "updated_at": time(row.updated_at),
            "deleted_at": time(spec.deleted_at),
            "purge_at": time(spec.purge_at),
        }


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def time(at: datetime | None) -> str | None:
    """Return RFC 3339 in UTC with Z."""
    if at is None:
        return None
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    return f"{at.isoformat()[:-6]}Z"


def error(info: ErrorInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    return {
        "reason": info.reason,
        "message": info.message,
        "is_terminal": info.is_terminal,
        "operation": info.operation,
        "error_count": info.error_count,
        "context": dict(info.context),
        "occurred_at": time(info.occurred_at),
    }


def _held_up(status: Status) -> dict[str, Any] | None:
    found = holdup(status)
    if found is None:
        return None
    return {
        "reason": found.reason,
        "message": found.message,
        "since": time(found.since),
        "next_try_at": time(status.retry_at),
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


def event(recorded: Recorded) -> dict[str, Any]:
    told = recorded.event
    return {
        "seq": recorded.seq,
        "at": time(recorded.at),
        "kind": told.kind,
        "from": told.before,
        "to": told.after,
        "actor": told.actor,
        "reason": told.reason,
        "request_id": told.request_id,
    }


def _conditions(conditions: Conditions) -> dict[str, Any]:
    return {
        shown: {
            "status": (found := getattr(conditions, name)).status,
            "reason": found.reason,
            "message": found.message,
            "last_transition_time": time(found.last_transition_time),
        }
        for name, shown in NAMES.items()
    }
