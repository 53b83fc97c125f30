"""Storage: volumes that hold homes, and archives that keep them.

All calls are idempotent: already done is success.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from codehub.core.observation import Archive, Volume


@dataclass(frozen=True, slots=True)
class Home:
    """Which home is meant.

    The key may be empty for `delete_volume` alone: of a workspace that the database does not know there is
    only the id.
    """

    workspace_id: UUID
    home_store_key: str
    size_mb: int | None = None
    """How large a new volume is made, where volumes have a size. None: the default size."""


@dataclass(frozen=True, slots=True)
class RestoredVolume:
    """A volume that is complete, and the archive that it was made from."""

    volume_id: str
    marker: str


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """An archive of this installation in the object store; not committed, it is half of one and does not
    count.
    """

    key: str
    size: int
    modified_at: datetime
    """By the store's clock."""
    committed: bool
    committed_at: datetime | None = None
    """By the database's clock, as its `.meta` says.

    None: an older codehub made it, or nobody has read its `.meta`.
    """
    is_empty: bool = False
    """Whether it was made of an empty home. Only its `.meta` tells."""
    digest: str | None = None
    """Of the bytes that it consists of, as its `.meta` says."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How far long work has come. `total` is None while nobody knows."""

    stage: str
    done: int
    total: int | None


# Long work reports how far it is. It must return at once.
Report = Callable[[Amount], None]
# Asked right before an archive is committed: the database's time, if the row still carries the operation's
# id.
MayCommit = Callable[[], Awaitable[datetime | None]]


def ignore_progress(_amount: Amount) -> None:
    """Ignore the progress."""


class StorageProvider(Protocol):
    async def provision(self, home: Home, *, replaces: str | None = None) -> str:
        """Make an empty volume, or find the complete one, and return its volume_id. What was half there is
        replaced.

        One that was complete once, and has lost its identity, is replaced only if it bears `replaces`: its
        files may be all there is.
        """

    async def adopt(self, home: Home, lost: str) -> str:
        """Give the volume that is there, and was this one before its identity was lost, an identity again,
        and return its volume_id.

        What it holds stays as it is. Refuses one that is complete, unless by such a call for the same `lost`,
        and one that is in use.
        """

    async def restore(
        self, home: Home, archive_key: str, report: Report, *, replaces: str | None = None
    ) -> RestoredVolume:
        """Make a new volume from an archive. It counts only when complete; what was half there is replaced.

        A complete volume is replaced only if it is `replaces`, the one that was seen there: a call that comes
        late must not hit a home that somebody uses by now. One that has lost its identity is replaced only if
        it bears `replaces`. None is ever taken as it is, not even one made from this archive: its deletion
        may have been asked for, and that call must not find the files of whoever worked on it since.
        """

    async def archive(
        self, home: Home, volume_id: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        """Write this very volume to the object store, read it back, commit it, and return its key.

        An archive of this op_id that is committed already is found and made durable, not written again.
        """

    async def create_empty_archive(self, home: Home, op_id: UUID, may_commit: MayCommit) -> str:
        """Commit an archive of an empty home and return its key.

        `may_commit` is asked right before the commit.
        """

    async def copy_archive(
        self, home: Home, archive_key: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        """Commit what another archive of this home holds as this operation's, so that it is the newest, and
        return its key.
        """

    async def delete_volume(self, home: Home, volume_id: str | None) -> None:
        """Delete this very volume, or the one that bears this id (None: one that was never completed).
        Refuses any other, and one that is in use.
        """

    async def is_worked_on(self, home: Home, volume_id: str, *, since: datetime | None = None) -> bool:
        """Whether anything in this complete volume was changed since it was made and, if given, after
        `since`. Where that can't be told, it was.
        """

    async def list_volumes(self) -> Mapping[UUID, Volume]:
        """Return all volumes of this installation. Complete, or raises BackendUnreachable.

        One that was complete once always bears something; one that a call was cut off in never does, and the
        same call again replaces it.
        """

    async def head_archive(self, archive_key: str) -> Archive | None:
        """Look at one archive.

        It is committed if its `.meta` can be read, and fits the object that is there.
        """

    async def has_archives(self, workspace_id: UUID) -> bool:
        """Whether any object of this workspace is left."""

    async def list_archives(self) -> Sequence[StoredArchive]:
        """Return every archive of this installation, half ones too. A list reads nothing: `head_archive`
        before anything is given up for one.
        """

    async def list_archives_of(self, workspace_id: UUID) -> Sequence[StoredArchive]:
        """Return every archive of this workspace, half ones too, each looked at as by `head_archive`, with
        what its `.meta` says.
        """

    async def delete_archive(self, archive_key: str) -> None:
        """Delete one archive, its `.meta` first, so that no half of it ever counts."""

    async def purge(self, home: Home) -> None:
        """Delete every archive of this workspace."""

    async def list_leftovers(self) -> Sequence[str]:
        """Return what died half way has left: staging directories, unfinished uploads.

        It counts for nobody.
        """

    async def remove_leftovers(self, older_than: datetime) -> int:
        """Remove such left-overs, and return how many there were."""
