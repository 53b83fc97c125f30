"""What every kind of home shares: writing, reading and deleting archives by their keys. Touches no volume."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from codehub.adapters.gnutar import KeepsNoAcls
from codehub.core.messages import Code, Message
from codehub.core.observation import Archive
from codehub.ports.archives import Archives, Attribute, Check, LongerThanEstimated
from codehub.ports.archives import archive_key as key_of
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Home, MayCommit, Report, StoredArchive, ignore_progress

_EMPTY_TAR = bytes(10240)
T = TypeVar("T")


class ArchivedHomes(ABC):
    """The half of a StorageProvider that asks the archive store."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives

    @abstractmethod
    async def _require(self, home: Home, volume_id: str) -> None:
        """Refuse unless this very volume is there and complete."""

    @abstractmethod
    async def _write_home(
        self, archives: Archives, key: str, home: Home, volume_id: str, report: Report, check: Check
    ) -> None:
        """Write what this volume holds to the store, read it back, ask `check`, and commit it."""

    async def archive(
        self,
        home: Home,
        volume_id: str,
        op_id: UUID,
        report: Report,
        may_commit: MayCommit,
        *,
        into: Archives | None = None,
    ) -> str:
        """`into`: another store, for a back-up."""
        archives = into or self._archives
        key = key_of(home.workspace_id, op_id)
        if await archives.secure(key):
            return key
        await self._require(home, volume_id)

        async def check() -> datetime:
            at = await _require_permission(may_commit)
            await self._require(home, volume_id)
            return at

        await self._write_home(archives, key, home, volume_id, report, check)
        return key

    async def create_empty_archive(self, home: Home, op_id: UUID, may_commit: MayCommit) -> str:
        key = key_of(home.workspace_id, op_id)
        if not await self._archives.secure(key):
            await self._archives.write(
                key, _empty_tar(), ignore_progress, lambda: _require_permission(may_commit)
            )
        return key

    async def copy_archive(
        self, home: Home, archive_key: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        key = key_of(home.workspace_id, op_id)
        if not await self._archives.secure(key):
            await _write(
                self._archives,
                key,
                lambda forward: _copy(self._archives.read(archive_key, forward)),
                report,
                lambda: _require_permission(may_commit),
            )
        return key

    async def head_archive(self, archive_key: str) -> Archive | None:
        return await self._archives.head(archive_key)

    async def has_archives(self, workspace_id: UUID) -> bool:
        return await self._archives.has_any(workspace_id)

    async def list_archives(self) -> Sequence[StoredArchive]:
        return await self._archives.list_all()

    async def list_archives_of(self, workspace_id: UUID) -> Sequence[StoredArchive]:
        return await self._archives.list_of(workspace_id)

    async def delete_archive(self, archive_key: str) -> None:
        await self._archives.delete(archive_key)

    async def purge(self, home: Home) -> None:
        await self._archives.purge(home.workspace_id)


class ArchivingStorage(ArchivedHomes):
    """The same where homes go to the store as a stream, through this process."""

    def __init__(self, archives: Archives) -> None:
        super().__init__(archives)
        self._keeps_acls = True

    @abstractmethod
    def _pack(self, home: Home, report: Report) -> AsyncGenerator[bytes, None]:
        """Yield the home as a tar stream."""

    async def _write_home(
        self,
        archives: Archives,
        key: str,
        home: Home,
        volume_id: str,  # noqa: ARG002  # what else could be there is found out before the commit
        report: Report,
        check: Check,
    ) -> None:
        await _write(
            archives,
            key,
            lambda forward: self._pack(home, forward),
            report,
            check,
            refused=self._unsupported_attributes(),
        )

    def _unsupported_attributes(self) -> Collection[Attribute]:
        """Return the attributes that can't be restored here: a home with such a file is not archived."""
        return ()

    async def _with_acls_if_kept(self, restore: Callable[[bool], Awaitable[T]]) -> T:
        """Restore with ACLs; where none can be kept, without: that is refused if the archive holds one."""
        if self._keeps_acls:
            try:
                return await restore(True)
            except KeepsNoAcls:
                self._keeps_acls = False
        return await restore(False)

    def _read_archive(
        self, key: str, report: Report, *, acls: bool = True
    ) -> AsyncGenerator[memoryview, None]:
        return self._archives.read(key, report, refused=() if acls else (Attribute.ACL,))

    async def _read_through(self, key: str) -> None:
        """Read the whole archive and find it good: before what it is to replace is touched."""
        async with aclosing(self._archives.read(key, ignore_progress)) as parts:
            async for _ in parts:
                pass


async def _write(
    archives: Archives,
    key: str,
    stream: Callable[[Report], AsyncGenerator[bytes, None]],
    report: Report,
    check: Check,
    *,
    refused: Collection[Attribute] = (),
) -> None:
    size = size_min = 0

    def forward(amount: Amount) -> None:
        nonlocal size
        size = max(amount.total or 0, size_min)
        report(amount)

    while True:
        try:
            async with aclosing(stream(forward)) as tar:
                return await archives.write(key, tar, report, check, size=lambda: size, refused=refused)
        except LongerThanEstimated as error:
            size_min = 2 * error.size  # not every filesystem reports its true size


async def _copy(parts: AsyncGenerator[memoryview, None]) -> AsyncGenerator[bytes, None]:
    """Yield parts that stay valid when the next one is read."""
    async with aclosing(parts):
        async for part in parts:
            yield bytes(part)


async def _empty_tar() -> AsyncGenerator[bytes, None]:
    yield _EMPTY_TAR


async def _require_permission(may_commit: MayCommit) -> datetime:
    """Return the database's time. Refuses to commit for an operation that another process has taken over."""
    if (at := await may_commit()) is None:
        raise ActionFailed(Message(Code.ARCHIVE_OVERTAKEN))
    return at
