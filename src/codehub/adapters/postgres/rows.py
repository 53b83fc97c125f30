"""Rows to workspaces and back: what asyncpg read in, what the core works with out, and the reverse."""

from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Protocol
from uuid import UUID

from codehub.adapters.postgres.columns import SPEC, STATUS, Codec, Column
from codehub.adapters.postgres.encoding import read_message, written_message
from codehub.core.history import Event, EventKind
from codehub.core.workspace import Spec, Status, Workspace
from codehub.ports.store import Change, Recorded


class Row(Protocol):
    """What is read by column name: asyncpg's records, which are no Mapping."""

    def __getitem__(self, name: str, /) -> Any: ...


class _Reader:
    """Reads some columns of a row, in the order of the fields that they are of."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._values = itemgetter(*(column.name for column in columns))
        self._decoders: list[tuple[int, Codec]] = [
            (place, column.type.decode)
            for place, column in enumerate(columns)
            if column.type.decode is not None
        ]

    def __call__(self, row: Row) -> list[Any]:
        values = list(self._values(row))
        for place, decode in self._decoders:
            if (value := values[place]) is not None:
                values[place] = decode(value)
        return values


_spec_values = _Reader(SPEC)
_status_values = _Reader(STATUS)


def to_workspace(row: Row) -> Workspace:
    spec, status = Spec(*_spec_values(row)), Status(*_status_values(row))
    return Workspace(row["id"], spec, status, row["created_at"], row["updated_at"], row["label"])


def to_recorded(row: Row) -> Recorded:
    event = Event(
        EventKind(row["kind"]),
        row["before"],
        row["after"],
        row["actor"],
        read_message(row["reason"], row["facts"]),
        row["request_id"],
    )
    return Recorded(row["seq"], row["at"], row["workspace_id"], event)


def from_spec(spec: Spec) -> dict[str, Any]:
    """Return the parameters of `create_workspace` and `amend`, but for the id."""
    return {column.name: _encode(column, [spec])[0] for column in SPEC}


def from_changes(changes: Sequence[Change]) -> dict[str, list[Any]]:
    """Return the parameters of `store_pass`, a column each."""
    statuses = [change.status for change in changes]
    return {
        "id": [change.workspace_id for change in changes],
        **{column.name: _encode(column, statuses) for column in STATUS},
        "revision": [change.revision for change in changes],
        "recover_at": [change.recover_at for change in changes],
    }


def _encode(column: Column, holders: Iterable[Spec | Status]) -> list[Any]:
    """Return one column of many rows."""
    values, encode = map(attrgetter(column.name), holders), column.type.encode
    return list(values) if encode is None else [None if value is None else encode(value) for value in values]


def from_events(events: Sequence[tuple[UUID, Event]]) -> dict[str, list[Any]]:
    """Return the parameters of `record_events`."""
    reasons = [written_message(event.reason) for _id, event in events]
    return {
        "workspace_id": [workspace_id for workspace_id, _event in events],
        "kind": [event.kind for _id, event in events],
        "before": [event.before for _id, event in events],
        "after": [event.after for _id, event in events],
        "actor": [event.actor for _id, event in events],
        "reason": [reason for reason, _facts in reasons],
        "request_id": [event.request_id for _id, event in events],
        "facts": [facts for _reason, facts in reasons],
    }
