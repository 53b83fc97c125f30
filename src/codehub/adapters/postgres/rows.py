"""Rows to workspaces and back. In goes what asyncpg read or what the core decided; out comes the other. Judges nothing."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from sys import intern  # what thousands of rows say alike is kept once
from typing import Any, Protocol
from uuid import UUID

from codehub.core.conditions import NAMES, Condition, Conditions, Truth
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.history import Event, EventKind
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import (
    HeldUp,
    HomeCtx,
    InstanceBackend,
    ObservedStatus,
    RecoverChoice,
    Resources,
    Spec,
    Status,
    StorageBackend,
    Workspace,
)
from codehub.ports.store import Change, Recorded


class Row(Protocol):
    """What is read by column name: asyncpg's records, which are no Mapping, and parsed JSON."""

    def __getitem__(self, name: str, /) -> Any: ...


_VOLUME, _ARCHIVE, _CONTAINER, _HEALTHY = (NAMES[name] for name in Conditions.__slots__)


def to_workspace(row: Row) -> Workspace:
    return Workspace(row["id"], to_spec(row), to_status(row), row["created_at"], row["updated_at"])


def to_spec(row: Row) -> Spec:
    choice = row["recover_choice"]
    return Spec(
        owner_user_id=row["owner_user_id"],
        name=row["name"],
        image_ref=intern(row["image_ref"]),
        ide=intern(row["ide"]),
        instance_backend=InstanceBackend(row["instance_backend"]),
        storage_backend=StorageBackend(row["storage_backend"]),
        home_store_key=row["home_store_key"],
        description=row["description"],
        memo=row["memo"],
        resources=_to_resources(row["resources"]),
        desired_state=DesiredState(row["desired_state"]),
        deleted_at=row["deleted_at"],
        purge_at=row["purge_at"],
        recover_at=row["recover_at"],
        recover_accepts_loss=row["recover_accepts_loss"],
        recover_choice=None if choice is None else RecoverChoice(choice),
        asked_again_at=row["asked_again_at"],
        forgotten_at=row["forgotten_at"],
        standby_ttl_seconds=row["standby_ttl_seconds"],
        archive_ttl_seconds=row["archive_ttl_seconds"],
        last_access_at=row["last_access_at"],
        awake_until=row["awake_until"],
        revision=row["revision"],
        request_id=row["request_id"],
    )


def to_status(row: Row) -> Status:
    conditions, error, previous = json.loads(row["conditions"]), row["error_info"], row["previous_status"]
    held_up = row["held_up"]
    return Status(
        conditions=Conditions(
            _to_condition(conditions[_VOLUME]),
            _to_condition(conditions[_ARCHIVE]),
            _to_condition(conditions[_CONTAINER]),
            _to_condition(conditions[_HEALTHY]),
        ),
        observed_at=row["observed_at"],
        phase=Phase(row["phase"]),
        phase_changed_at=row["phase_changed_at"],
        operation=Operation(row["operation"]),
        op_started_at=row["op_started_at"],
        op_id=row["op_id"],
        retry_at=row["retry_at"],
        held_up=None if held_up is None else _to_held_up(json.loads(held_up)),
        version=row["version"],
        archive_key=row["archive_key"],
        home_ctx=_to_home(json.loads(row["home_ctx"])),
        error_info=None if error is None else _to_error(json.loads(error)),
        error_count=row["error_count"],
        restarts=tuple(row["restarts"]),
        previous_status=None if previous is None else ObservedStatus(previous),
    )


def to_recorded(row: Row) -> Recorded:
    event = Event(
        EventKind(row["kind"]), row["before"], row["after"], row["actor"], row["reason"], row["request_id"]
    )
    return Recorded(row["seq"], row["at"], row["workspace_id"], event)


def from_spec(spec: Spec) -> tuple[Any, ...]:
    """Return the arguments $2 and on of `create_workspace` and `amend`."""
    resources = spec.resources
    return (
        spec.owner_user_id,
        spec.name,
        spec.image_ref,
        spec.ide,
        spec.instance_backend,
        spec.storage_backend,
        spec.home_store_key,
        spec.description,
        spec.memo,
        json.dumps({name: getattr(resources, name) for name in Resources.__slots__}),
        spec.desired_state,
        spec.deleted_at,
        spec.purge_at,
        spec.recover_at,
        spec.recover_accepts_loss,
        spec.forgotten_at,
        spec.standby_ttl_seconds,
        spec.archive_ttl_seconds,
        spec.last_access_at,
        spec.awake_until,
        spec.revision,
        spec.request_id,
        spec.recover_choice,
        spec.asked_again_at,
    )


def from_changes(changes: Sequence[Change]) -> tuple[list[Any], ...]:
    """Return the arguments of `store_pass`: a column each. A pass may have 10,000 rows, so this is written to be fast."""
    statuses = [change.status for change in changes]
    return (
        [change.workspace_id for change in changes],
        [status.version for status in statuses],
        [_from_conditions(status.conditions) for status in statuses],
        [status.observed_at for status in statuses],
        [status.phase for status in statuses],
        [status.phase_changed_at for status in statuses],
        [status.operation for status in statuses],
        [status.op_started_at for status in statuses],
        [status.op_id for status in statuses],
        [status.retry_at for status in statuses],
        [status.archive_key for status in statuses],
        [_from_home(status.home_ctx) for status in statuses],
        [None if status.error_info is None else _from_error(status.error_info) for status in statuses],
        [status.error_count for status in statuses],
        [_from_times(status.restarts) for status in statuses],
        [status.previous_status for status in statuses],
        [None if status.held_up is None else _from_held_up(status.held_up) for status in statuses],
        [change.revision for change in changes],
        [change.recover_at for change in changes],
    )


def from_events(events: Sequence[tuple[UUID, Event]]) -> tuple[list[Any], ...]:
    """Return the arguments of `record_events`."""
    return (
        [workspace_id for workspace_id, _event in events],
        [event.kind for _id, event in events],
        [event.before for _id, event in events],
        [event.after for _id, event in events],
        [event.actor for _id, event in events],
        [storable(event.reason) for _id, event in events],
        [event.request_id for _id, event in events],
    )


def storable(text: str) -> str:
    """Return words for people without what PostgreSQL can't hold: a stray byte in a log line must not stop a whole pass."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


@lru_cache(maxsize=1024)
def _to_resources(text: str) -> Resources:
    return Resources(**json.loads(text))


def _to_condition(stored: Row) -> Condition:
    since = stored["last_transition_time"]
    return Condition(
        Truth(stored["status"]),
        intern(stored["reason"]),
        intern(stored["message"]),
        None if since is None else _to_time(since),
    )


def _to_home(stored: Mapping[str, Any]) -> HomeCtx:
    given_up_at = stored.get("given_up_at")
    return HomeCtx(
        stored["volume_id"],
        stored["restore_marker"],
        stored["dirty"],
        None if given_up_at is None else _to_time(given_up_at),
    )


def _to_error(stored: Row) -> ErrorInfo:
    return ErrorInfo(
        ErrorReason(stored["reason"]),
        stored["message"],
        Operation(stored["operation"]),
        stored["error_count"],
        _to_time(stored["occurred_at"]),
        stored["context"],
    )


def _to_held_up(stored: Row) -> HeldUp:
    return HeldUp(
        ErrorReason(stored["reason"]), stored["message"], _to_time(stored["since"]), stored["is_trying"]
    )


def _to_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _from_conditions(conditions: Conditions) -> str:
    return (
        f'{{"{_VOLUME}":{_from_condition(conditions.volume_ready)},'
        f'"{_ARCHIVE}":{_from_condition(conditions.archive_ready)},'
        f'"{_CONTAINER}":{_from_condition(conditions.container_ready)},'
        f'"{_HEALTHY}":{_from_condition(conditions.healthy)}}}'
    )


def _from_condition(condition: Condition) -> str:
    # Built by hand: json.dumps of a nested dict would cost as much as the database's share of a row.
    since = condition.last_transition_time
    said = _said(condition.status, condition.reason, condition.message)
    return f"{said}null}}" if since is None else f"{said}{_from_time(since)}}}"


@lru_cache(maxsize=4096)
def _said(status: Truth, reason: str, message: str) -> str:
    """All of a condition but its time. What is said of thousands of workspaces at once is mostly the same sentence."""
    return (
        f'{{"status":"{status}","reason":{quoted(reason)},"message":{quoted(storable(message))},'
        '"last_transition_time":'
    )


def _from_home(home: HomeCtx) -> str:
    volume_id, marker, given_up_at = home.volume_id, home.restore_marker, home.given_up_at
    given_up = "" if given_up_at is None else f',"given_up_at":{_from_time(given_up_at)}'
    return (
        f'{{"volume_id":{"null" if volume_id is None else quoted(volume_id)},'
        f'"restore_marker":{"null" if marker is None else quoted(marker)},'
        f'"dirty":{"true" if home.dirty else "false"}{given_up}}}'
    )


def _from_error(error: ErrorInfo) -> str:
    return (
        f'{{"reason":"{error.reason}","message":{quoted(storable(error.message))},"is_terminal":{"true" if error.is_terminal else "false"},'
        f'"operation":"{error.operation}","error_count":{error.error_count},"context":{json.dumps(dict(error.context))},'
        f'"occurred_at":{_from_time(error.occurred_at)}}}'
    )


def _from_held_up(held_up: HeldUp) -> str:
    return (
        f'{{"reason":"{held_up.reason}","message":{quoted(storable(held_up.message))},'
        f'"since":{_from_time(held_up.since)},"is_trying":{"true" if held_up.is_trying else "false"}}}'
    )


def _from_time(at: datetime) -> str:
    """Return RFC 3339 in UTC, as the wire has it and `error_time` in the schema demands, in quotes."""
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    return f'"{at.isoformat()[:-6]}Z"'


def _from_times(times: Sequence[datetime]) -> str:
    # An array of arrays would be one array to unnest: it travels as PostgreSQL's own text.
    return "{" + ",".join(_from_time(at) for at in times) + "}" if times else "{}"
