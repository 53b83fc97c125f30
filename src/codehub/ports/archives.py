"""Archives: a tar stream goes in, the same stream comes out, verified.

How it is packed and where it lies is the adapter's.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from codehub.core.messages import Code, Message
from codehub.core.observation import Archive
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Report, StoredArchive

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
WORKSPACE = re.compile(_UUID)
ARCHIVE_KEY = re.compile(rf"(?P<workspace_id>{_UUID})/(?P<op_id>{_UUID})/home\.tar\.zst")

# Asked right before an archive is committed, for the database's time. Raises if it may not be.
Check = Callable[[], Awaitable[datetime]]


class Attribute(StrEnum):
    """What a file may have beside its mode, and not every restore can set."""

    ACL = "an ACL"
    CAPABILITY = "a capability"


class LongerThanEstimated(ActionFailed):
    """The stream outgrew what its estimate allows for. Written again with a larger one, it fits."""

    def __init__(self, size: int) -> None:
        super().__init__(Message(Code.ARCHIVE_LONGER, {"size": size}))
        self.size = size


# How long the tar stream will be, about. Known once its first part has come.
Estimate = Callable[[], int]


def unknown_size() -> int:
    """The estimate for a stream that is not large."""
    return 0


@dataclass(frozen=True, slots=True)
class JobGrants:
    """What a Job that moves one archive's bytes is given. It can do nothing else by it."""

    text: str
    memory_bytes: int
    """What the Job may need, whatever the home's size."""
    directory: str | None = None
    """What is mounted for it, below the directory that the archives lie in; None: nothing."""


# Called with each line that a Job puts out. It must return at once.
Hear = Callable[[str], None]
# Runs one Job beside the home, and returns the line that it ended with.
RunJob = Callable[[JobGrants, Hear], Awaitable[str]]


def archive_key(workspace_id: UUID, op_id: UUID) -> str:
    return f"{workspace_id}/{op_id}/home.tar.zst"


class Archives(Protocol):
    """An outage raises BackendUnreachable, also where it looks like an empty store.

    A key of another form is a ValueError.
    """

    async def write(
        self,
        key: str,
        tar: AsyncIterator[bytes],
        report: Report,
        check: Check,
        *,
        size: Estimate = unknown_size,
        refused: Collection[Attribute] = (),
    ) -> None:
        """Store the stream, read it back, ask `check`, commit. What fails before leaves nothing that counts.
        Raises LongerThanEstimated.

        A file with one of the `refused` attributes, which could not be restored here, is refused by its name.

        If the archive is committed already, it is secured and left alone.
        """

    async def secure(self, key: str) -> bool:
        """Whether the archive is committed.

        If so it outlives a power cut from here on: whoever committed it may have failed at that.
        """

    def read(
        self, key: str, report: Report, *, refused: Collection[Attribute] = ()
    ) -> AsyncGenerator[memoryview, None]:
        """Yield a committed archive's tar stream. Only once it has ended without an error may what was
        yielded count.

        A file with one of the `refused` attributes, which can't be given here, is refused by its name.

        Each part was checked for what could lead outside before it is yielded, and is good until the next is
        asked for. Close it when done early.
        """

    async def write_by_job(
        self, key: str, run: RunJob, report: Report, check: Check, *, capacity: int, time_limit_s: int
    ) -> None:
        """Do as `write` does, with the bytes moved by a Job that
        reads the home itself, and never passed on by us.

        `capacity`: how much the home can hold. If it turns out longer, another Job runs. The grants expire
        soon after the time limit.
        """

    async def read_by_job(self, key: str, run: RunJob, report: Report, *, time_limit_s: int) -> None:
        """Have a committed archive unpacked by a Job. Returns when the home is whole and in its place."""

    async def head(self, key: str) -> Archive | None:
        """Look at one archive.

        It is committed if what was written last can be read, names this place, and fits what is there.
        """

    async def has_any(self, workspace_id: UUID) -> bool:
        """Whether any object of this workspace is left."""

    async def list_all(self) -> Sequence[StoredArchive]:
        """Return every archive, half ones too.

        A list reads nothing: what it takes for committed may be damaged.
        """

    async def list_of(self, workspace_id: UUID) -> Sequence[StoredArchive]:
        """Return every archive of this workspace, half ones too, each with what its `.meta` says.

        What that makes count is as in `head`.
        """

    async def delete(self, key: str) -> None:
        """Delete one archive, what makes it count first."""

    async def purge(self, workspace_id: UUID) -> None:
        """Delete every archive of a workspace."""

    async def list_leftovers(self) -> Sequence[str]:
        """Return what uploads that died have left. It counts for nobody."""

    async def remove_leftovers(self, older_than: datetime) -> int:
        """Remove such left-overs, and return how many there were."""
