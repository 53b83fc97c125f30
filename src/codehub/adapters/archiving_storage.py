"""What every kind of home shares: archives go in and out by their keys, whatever holds the home. Touches no volume itself."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from codehub.adapters.gnutar import KeepsNoAcls
from codehub.core.observation import Archive
from codehub.ports.archives import Archives, Attribute, Check, LongerThanSaid
from codehub.ports.archives import archive_key as key_of
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Home, MayCommit, Report, StoredArchive, tell_nobody

_EMPTY_TAR = bytes(10240)
T = TypeVar("T")


class ArchivingStorage(ABC):
    """The half of a StorageProvider that asks the archive store."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self._keeps_acls = True

    @abstractmethod
    async def _require(self, home: Home, volume_id: str) -> None:
        """Refuse unless this very volume is there and complete."""

    @abstractmethod
    def _packed(self, home: Home, report: Report) -> AsyncGenerator[bytes, None]:
        """Yield the home as a tar stream."""

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
            at = await _require_turn(may_commit)
            await self._require(home, volume_id)
            return at

        await self._write(
            archives, key, lambda heard: self._packed(home, heard), report, check, refused=self._ungiven()
        )
        return key

    async def create_empty_archive(self, home: Home, op_id: UUID, may_commit: MayCommit) -> str:
        key = key_of(home.workspace_id, op_id)
        if not await self._archives.secure(key):
            await self._archives.write(key, _nothing(), tell_nobody, lambda: _require_turn(may_commit))
        return key

    async def copy_archive(
        self, home: Home, archive_key: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        key = key_of(home.workspace_id, op_id)
        if not await self._archives.secure(key):
            await self._write(
                self._archives,
                key,
                lambda heard: _copied(self._archives.read(archive_key, heard)),
                report,
                lambda: _require_turn(may_commit),
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

    def _ungiven(self) -> Collection[Attribute]:
        """Return what a file can't be given here: a home with such a file is not archived."""
        return ()

    async def _with_acls_if_kept(self, restore: Callable[[bool], Awaitable[T]]) -> T:
        """Restore with ACLs; where none can be kept, without: that is refused if the archive holds one."""
        if self._keeps_acls:
            try:
                return await restore(True)
            except KeepsNoAcls:
                self._keeps_acls = False
        return await restore(False)

    def _opened(self, key: str, report: Report, *, acls: bool = True) -> AsyncGenerator[memoryview, None]:
        return self._archives.read(key, report, refused=() if acls else (Attribute.ACL,))

    async def _write(
        self,
        archives: Archives,
        key: str,
        stream: Callable[[Report], AsyncGenerator[bytes, None]],
        report: Report,
        check: Check,
        *,
        refused: Collection[Attribute] = (),
    ) -> None:
        size = size_min = 0

        def heard(amount: Amount) -> None:
            nonlocal size
            size = max(amount.total or 0, size_min)
            report(amount)

        while True:
            try:
                async with aclosing(stream(heard)) as tar:
                    return await archives.write(key, tar, report, check, size=lambda: size, refused=refused)
            except LongerThanSaid as longer:
                size_min = 2 * longer.size  # not every filesystem tells how much it holds

    async def _read_through(self, key: str) -> None:
        """Read the whole archive and find it good: before what it is to replace is touched."""
        async with aclosing(self._archives.read(key, tell_nobody)) as parts:
            async for _ in parts:
                pass


async def _copied(parts: AsyncGenerator[memoryview, None]) -> AsyncGenerator[bytes, None]:
    """Yield parts that stay good when the next is asked for."""
    async with aclosing(parts):
        async for part in parts:
            yield bytes(part)


async def _nothing() -> AsyncGenerator[bytes, None]:
    yield _EMPTY_TAR


async def _require_turn(may_commit: MayCommit) -> datetime:
    """Return the database's time. Refuse to commit what belongs to an operation that is somebody else's by now."""
    if (at := await may_commit()) is None:
        raise ActionFailed("the operation was taken over: its archive is not committed")
    return at
