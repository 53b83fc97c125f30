"""Garbage: what lies in the backends and which rows there are in, what may go and what nobody knows out (contract 9)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.wishes import is_purge_due
from codehub.core.workspace import Workspace


class Thing(StrEnum):
    ARCHIVE = "archive"
    VOLUME = "volume"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Found:
    """Something of this installation that lies in a backend. An archive has its key, a volume its id."""

    thing: Thing
    workspace_id: UUID
    name: str | None
    modified_at: datetime | None = None
    committed: bool = True


@dataclass(frozen=True, slots=True)
class Removal:
    """What may go, and why."""

    found: Found
    why: str


@dataclass(frozen=True, slots=True)
class Sorted:
    """What may go; what belongs to no workspace that the database knows; and what is left of forgotten ones, whose time in the trash
    is not over. The last two are reported, not touched."""

    removals: tuple[Removal, ...]
    unknown: tuple[Found, ...]
    forgotten: tuple[Found, ...]


def sort_garbage(
    found: Iterable[Found], rows: Mapping[UUID, Workspace], now: datetime, *, grace: timedelta
) -> Sorted:
    """Sort what was found. Whatever a workspace in the database could still need is in neither list."""
    things = list(found)
    archives = {one.name for one in things if one.thing is Thing.ARCHIVE and one.committed}
    return Sorted(
        tuple(_removals(things, archives, rows, now, grace)),
        tuple(one for one in things if one.workspace_id not in rows),
        tuple(one for one in things if _is_forgotten(one, rows.get(one.workspace_id), now)),
    )


def _removals(
    things: Iterable[Found],
    archives: Collection[str | None],
    rows: Mapping[UUID, Workspace],
    now: datetime,
    grace: timedelta,
) -> Iterator[Removal]:
    for one in things:
        row = rows.get(one.workspace_id)
        if row is None or (one.modified_at is not None and now - one.modified_at < grace):
            continue
        if one.thing is Thing.ARCHIVE:
            if row.status.phase is not Phase.ERROR and not _is_needed(one, row, archives):
                yield Removal(
                    one, "No workspace needs it any more." if one.committed else "It was never completed."
                )
        elif row.status.phase is Phase.DELETED and is_purge_due(row.spec, now):
            yield Removal(one, "Its workspace is deleted, and its time in the trash is over.")
        elif one.thing is Thing.VOLUME and _is_stray(one, row, archives):
            yield Removal(one, "Its workspace is archived, and nothing ever ran on it.")


def _is_forgotten(one: Found, row: Workspace | None, now: datetime) -> bool:
    return (
        row is not None
        and row.spec.forgotten_at is not None
        and one.thing is not Thing.ARCHIVE
        and not is_purge_due(row.spec, now)
    )


def _is_needed(one: Found, row: Workspace, archives: Collection[str | None]) -> bool:
    """Its archive, and whatever the operation that ran last may have made: that may be its archive in a moment.

    While its archive is missing, an older one may be the best that is left."""
    key = row.status.archive_key
    if one.name == key or (key is not None and key not in archives):
        return True
    op_id = None if one.name is None else one.name.split("/")[1]
    return op_id == str(row.status.op_id)


def _is_stray(volume: Found, row: Workspace, archives: Collection[str | None]) -> bool:
    """A volume, or half of one, that a late restore has left beside a whole archive. The row never named it, so no instance ever ran on it."""
    status = row.status
    rests = status.phase is Phase.ARCHIVED and status.operation is Operation.NONE
    return (
        rests
        and row.spec.desired_state in (DesiredState.ARCHIVED, DesiredState.PENDING)
        and status.archive_key in archives
        and not status.home_ctx.dirty
        and (volume.name is None or volume.name != status.home_ctx.volume_id)
    )
