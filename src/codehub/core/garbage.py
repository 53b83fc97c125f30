"""Garbage: what lies in the backends and which rows there are in,
what may go and what nobody knows out (contract 9).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.requests import is_purge_asked, is_purge_due
from codehub.core.workspace import Workspace

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


class Thing(StrEnum):
    ARCHIVE = "archive"
    VOLUME = "volume"
    INSTANCE = "instance"


class Leftover(StrEnum):
    """Why a thing may go. The catalogue has each under `cli.garbage.` and its value."""

    REPLACED = "Replaced"
    INCOMPLETE = "Incomplete"
    TRASHED = "Trashed"
    STRAY = "Stray"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class BackendItem:
    """Something of this installation that lies in a backend. An archive has its key, a volume its id."""

    thing: Thing
    workspace_id: UUID
    name: str | None
    modified_at: datetime | None = None
    committed: bool = True
    committed_at: datetime | None = None
    """Of an archive: the database's time, as its `.meta` says."""
    bears: str | None = None
    """Of a volume that was complete once and has lost its identity: the id that it had."""
    made_from: str | None = None
    """Of a volume: the archive that it was restored from, where that is known."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What may go, and why."""

    item: BackendItem
    why: Leftover


@dataclass(frozen=True, slots=True)
class Sorted:
    """What may go; what belongs to no workspace that the database knows; what is left of
    forgotten ones, whose time in the trash is not over; and archives that are newer than
    what their workspaces name. The last three are reported, not touched.
    """

    removals: tuple[Removal, ...]
    unknown: tuple[BackendItem, ...]
    forgotten: tuple[BackendItem, ...]
    newer: tuple[BackendItem, ...]


def to_be_read(
    items: Iterable[BackendItem], rows: Mapping[UUID, Workspace], now: datetime, grace: timedelta
) -> frozenset[UUID]:
    """Return the workspaces whose archives' `.meta` decide what may go:
    those with another archive than their own that is old enough.
    """
    return frozenset(
        item.workspace_id
        for item in items
        if item.thing is Thing.ARCHIVE
        and (row := rows.get(item.workspace_id)) is not None
        and item.name != row.status.archive_key
        and row.status.phase is not Phase.ERROR
        and not _is_young(item, now, grace)
    )


def sort_garbage(
    items: Iterable[BackendItem], rows: Mapping[UUID, Workspace], now: datetime, *, grace: timedelta
) -> Sorted:
    """Sort what was found. Whatever a workspace in the database could still need is in neither list."""
    items = list(items)
    archives: dict[UUID, list[BackendItem]] = defaultdict(list)
    for item in items:
        if item.thing is Thing.ARCHIVE and item.committed:
            archives[item.workspace_id].append(item)
    return Sorted(
        tuple(_removals(items, archives, rows, now, grace)),
        tuple(item for item in items if item.workspace_id not in rows),
        tuple(item for item in items if _is_forgotten(item, rows.get(item.workspace_id), now)),
        tuple(
            item
            for item in items
            if item.thing is Thing.ARCHIVE
            and (row := rows.get(item.workspace_id)) is not None
            and row.status.phase is not Phase.ERROR
            and not _is_needed(item, row, {each.name for each in archives[row.id]})
            and _is_newer(item, row, archives[row.id], now)
        ),
    )


def _removals(
    items: Iterable[BackendItem],
    archives: Mapping[UUID, Sequence[BackendItem]],
    rows: Mapping[UUID, Workspace],
    now: datetime,
    grace: timedelta,
) -> Iterator[Removal]:
    for item in items:
        row = rows.get(item.workspace_id)
        if row is None or _is_young(item, now, grace):
            continue
        committed = archives[row.id]
        names = {each.name for each in committed}
        if item.thing is Thing.ARCHIVE:
            if (
                row.status.phase is not Phase.ERROR
                and not _is_needed(item, row, names)
                and not _is_newer(item, row, committed, now)
                and not (item.committed and _was_just_replaced(item, row, committed, now, grace))
            ):
                yield Removal(item, Leftover.REPLACED if item.committed else Leftover.INCOMPLETE)
        elif row.status.phase is Phase.DELETED and is_purge_due(row.spec, now):
            yield Removal(item, Leftover.TRASHED)
        elif item.thing is Thing.VOLUME and _is_stray(item, row, names):
            yield Removal(item, Leftover.STRAY)


def _is_young(item: BackendItem, now: datetime, grace: timedelta) -> bool:
    return item.modified_at is not None and now - item.modified_at < grace


def _is_newer(item: BackendItem, row: Workspace, committed: Sequence[BackendItem], now: datetime) -> bool:
    """Whether this archive is newer than what the row names, as after an older
    dump of the database was restored: it may hold what nothing else does. After
    the trash's time, only what was archived since the deletion is.
    """
    if item not in committed or item.name == row.status.archive_key:
        return False
    spec = row.spec
    if row.status.phase is Phase.DELETED and is_purge_due(spec, now):
        made_since = spec.deleted_at is not None and _order(item) > spec.deleted_at
        return made_since and not is_purge_asked(spec)
    own = next((each for each in committed if each.name == row.status.archive_key), None)
    return own is None or _order(item) > _order(own)


def _was_just_replaced(
    item: BackendItem, row: Workspace, committed: Sequence[BackendItem], now: datetime, grace: timedelta
) -> bool:
    """Whether the archive that took its place is younger than the grace
    time: a dump of the database from before names this one.
    """
    later = [
        each.committed_at
        for each in committed
        if each.committed_at is not None and _order(each) > _order(item)
    ]
    if later:
        return now - min(later) < grace
    own = next((each for each in committed if each.name == row.status.archive_key), None)
    return own is not None and _is_young(own, now, grace)


def _order(archive: BackendItem) -> datetime:
    """An archive without a time was made by an older codehub, before any that has one."""
    return archive.committed_at or _BEFORE_ALL


def _is_forgotten(item: BackendItem, row: Workspace | None, now: datetime) -> bool:
    return (
        row is not None
        and row.spec.forgotten_at is not None
        and item.thing is not Thing.ARCHIVE
        and not is_purge_due(row.spec, now)
    )


def _is_needed(item: BackendItem, row: Workspace, archives: Collection[str | None]) -> bool:
    """Its archive, and whatever the operation that ran last may
    have made: that may be its archive in a moment.

    While its archive is missing, an older one may be the best that is left.
    """
    key = row.status.archive_key
    if item.name == key or (key is not None and key not in archives):
        return True
    op_id = None if item.name is None else item.name.split("/")[1]
    return op_id == str(row.status.op_id)


def _is_stray(volume: BackendItem, row: Workspace, archives: Collection[str | None]) -> bool:
    """A volume, or half of one, that a late restore has left beside a whole
    archive. The row never named it, so no instance ever ran on it.
    """
    status = row.status
    rests = status.phase is Phase.ARCHIVED and status.operation is Operation.NONE
    return (
        rests
        and row.spec.desired_state in (DesiredState.ARCHIVED, DesiredState.PENDING)
        and status.archive_key in archives
        and not status.home_ctx.dirty
        and (volume.name is None or volume.name != status.home_ctx.volume_id)
    )
