"""Archives of one workspace in, which of them is newer than what the row names
out. Newer is by the database's time, never by the store's clock. And from when on files count as later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from codehub.core.errors import NEWEST_ARCHIVE, NEWEST_ARCHIVE_AT
from codehub.core.workspace import Status

CLOCKS_APART = timedelta(minutes=1)
"""So much may the clock of what holds the homes be behind the database's."""
NOTHING_GIVEN_UP = datetime.min.replace(tzinfo=UTC)
"""A time before that of any archive: what was chosen is committed anew, and nothing is given up by it."""
_BEFORE_ALL = NOTHING_GIVEN_UP + timedelta.resolution


@dataclass(frozen=True, slots=True)
class CommittedArchive:
    """A committed archive, and what its `.meta` says of it."""

    key: str
    committed_at: datetime | None
    """None: an older codehub made it, before any that has a time."""
    is_empty: bool = False
    digest: str | None = None
    """Of what it holds. None: nobody knows."""

    @property
    def order(self) -> datetime:
        return self.committed_at or _BEFORE_ALL


def newest(archives: Iterable[CommittedArchive]) -> CommittedArchive | None:
    return max(archives, key=lambda archive: archive.order, default=None)


def newer_archive(status: Status, archives: Iterable[CommittedArchive]) -> CommittedArchive | None:
    """Return the newest archive if it is newer than the row's, as
    after an older dump of the database was restored.

    Without a key any archive is newer, but for one of an empty home, which is what there would be without
    it. One that holds what the row's holds is nothing to choose: a copy that was never recorded. What the
    row's own operation has made is its own, and what a person has given up is not asked about again.
    """
    others = [each for each in archives if str(status.op_id) not in each.key]
    own = next((each for each in archives if each.key == status.archive_key), None)
    if status.archive_key is None:
        others = [each for each in others if not each.is_empty]
    latest = newest(others)
    if latest is None or latest is own or is_given_up(status, latest):
        return None
    if own is not None and own.digest is not None and own.digest == latest.digest:
        return None
    is_newer = status.archive_key is None or latest.order > (_BEFORE_ALL if own is None else own.order)
    return latest if is_newer else None


def newest_facts(archive: CommittedArchive) -> Mapping[str, str]:
    """Return what an error says of an archive that is newer than the row's: it is offered then."""
    at = archive.committed_at
    return {NEWEST_ARCHIVE: archive.key} | ({} if at is None else {NEWEST_ARCHIVE_AT: at.isoformat()})


def is_given_up(status: Status, archive: CommittedArchive) -> bool:
    """Whether a person chose to go on without it."""
    given_up_at = status.home_ctx.given_up_at
    return given_up_at is not None and archive.order <= given_up_at


def archive_made_since(
    status: Status, archives: Iterable[CommittedArchive], since: datetime
) -> CommittedArchive | None:
    """Return an archive of what was worked on after a deletion: the row knows nothing of it, so somebody had
    taken the deletion back. The row's own archive may be that late too: it is the deletion's last one.
    """
    latest = newer_archive(status, archives)
    return latest if latest is not None and latest.order > since else None


def work_counts_from(deleted_at: datetime) -> datetime:
    """Return from when on a change of a file counts as made after the deletion. A file has its time by
    another clock than the deletion: what may be later is kept.
    """
    return deleted_at - CLOCKS_APART
