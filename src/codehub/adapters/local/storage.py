"""Homes as directories of this machine, archived to and restored from an object store.

Refuses a volume other than the one named.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from uuid import UUID

import structlog

from codehub.adapters.archiving_storage import ArchivingStorage
from codehub.adapters.local.homes import Homes, OwnerOf
from codehub.adapters.local.survey import is_changed_since
from codehub.adapters.local.tar import Tar, write_out
from codehub.adapters.local.trash import Trash
from codehub.adapters.threads import BlockingReads, in_thread
from codehub.core.messages import Code, Message
from codehub.core.observation import Volume
from codehub.ports.archives import Archives, Attribute
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home, Report, RestoredVolume
from codehub.ports.system import Identity

log = structlog.get_logger()

IsInUse = Callable[[UUID], Awaitable[bool]]


class LocalStorage(ArchivingStorage):
    """The StorageProvider on directories. After a kill at any step, the same call again does the rest."""

    def __init__(
        self,
        root: Path,
        *,
        installation: str,
        archives: Archives,
        identity: Identity,
        is_in_use: IsInUse,
        owner_of: OwnerOf = lambda _workspace_id: None,
        data_dir: Path | None = None,
    ) -> None:
        """`data_dir`: the data directory, unless that is the root."""
        super().__init__(archives)
        self.homes = Homes(
            root, installation=installation, identity=identity, owner_of=owner_of, data_dir=data_dir
        )
        self._is_in_use = is_in_use
        self._tar = Tar()
        self._trash = Trash(after=lambda path: self.homes.forget_empty(path.parent))
        self._reads = BlockingReads(str(root))

    async def prepare(self) -> None:
        """Mark the root as this installation's.

        For the first start alone: afterwards a missing mark is an outage.
        """
        await in_thread(self.homes.prepare)

    async def locate(self, home: Home) -> tuple[Path, str | None]:
        """Return where the home is, and which volume lies there: None if there is none that is complete."""
        return await in_thread(self.homes.locate, home)

    async def provision(self, home: Home, *, replaces: str | None = None) -> str:
        _, volume_found = await self.locate(home)
        if volume_found is None:
            await self._refuse_in_use(home)
        volume_id = await in_thread(self.homes.provision, home, replaces)
        await self._tidy(home)
        return volume_id

    async def adopt(self, home: Home, lost: str) -> str:
        await self._refuse_in_use(home)
        return await in_thread(self.homes.adopt, home, lost)

    async def restore(
        self, home: Home, archive_key: str, report: Report, *, replaces: str | None = None
    ) -> RestoredVolume:
        await self._tidy(home)
        if not await self._tar.is_sandboxed():
            # Nothing is unpacked before the whole archive was read and found good.
            await self._read_through(archive_key)
        volume_id = await self._with_acls_if_kept(
            lambda acls: self._replace(home, archive_key, report, replaces, acls=acls)
        )
        return RestoredVolume(volume_id, archive_key)

    async def _replace(
        self, home: Home, archive_key: str, report: Report, replaces: str | None, *, acls: bool
    ) -> str:
        """Unpack the archive beside the home, and then put it in its place."""
        staging = await in_thread(self.homes.stage, home, replaces)
        try:
            async with aclosing(self._read_archive(archive_key, report, acls=acls)) as parts:
                await self._tar.unpack(_touch_while_reading(staging, parts), staging / "home", acls=acls)
            await write_out(staging)
            await self._refuse_in_use(home)
            return await in_thread(self.homes.put_in_place, home, staging, archive_key, replaces)
        except ActionFailed:
            # The next try may need the disk space of this one.
            await self._tidy(home)
            await self.wait_until_empty()
            raise
        finally:
            await self._tidy(home)

    async def delete_volume(self, home: Home, volume_id: str | None) -> None:
        if not home.home_store_key:
            found_home = await in_thread(self.homes.find, home.workspace_id)
            if found_home is None:
                return
            home = found_home
        await self._refuse_in_use(home)
        await in_thread(self.homes.remove, home, volume_id)
        await self._tidy(home)
        await in_thread(self.homes.forget_empty, self.homes.directory(home))

    async def wait_until_empty(self) -> None:
        """Return when the trash is removed, as far as possible."""
        await self._trash.wait_until_empty()

    async def is_worked_on(self, home: Home, volume_id: str, *, since: datetime | None = None) -> bool:
        await self._require(home, volume_id)
        return await is_changed_since(self.homes.path(home), self.homes.completion(home), since)

    async def list_volumes(self) -> Mapping[UUID, Volume]:
        return await self._reads.ask(self.homes.list_all)

    async def list_unmarked(self) -> Mapping[UUID, Volume]:
        """Return what there is though the mark is missing: for whoever has to decide whether this is the
        right place.
        """
        return await self._reads.ask(self.homes.list_unmarked)

    async def list_leftovers(self) -> Sequence[str]:
        """Return what interrupted work has left of homes and archives."""
        homes = [path for path, _ in await in_thread(self.homes.leftovers)]
        leftovers = [str(path) for path in homes if path not in self._trash.paths]
        return [*leftovers, *await self._archives.list_leftovers()]

    async def remove_leftovers(self, older_than: datetime) -> int:
        """Remove such leftovers, and return their number.

        One that is still written is younger than any grace time.
        """
        trash = []
        for path, modified_at in await in_thread(self.homes.leftovers):
            if modified_at < older_than:
                try:
                    trash.append(await in_thread(self.homes.discard_leftover, path))
                except OSError as error:
                    log.warning("leftover_not_removed", path=str(path), reason=str(error))
        trashed = [path for path in trash if path is not None]
        self._trash.put(trashed)
        await self._trash.wait_until_empty()
        removed = len(trashed) - len(await in_thread(_filter_existing, trashed))
        return removed + await self._archives.remove_leftovers(older_than)

    async def _require(self, home: Home, volume_id: str) -> None:
        await in_thread(self.homes.require, home, volume_id)

    def _pack(self, home: Home, report: Report) -> AsyncGenerator[bytes, None]:
        return self._tar.pack(self.homes.path(home), report)

    def _unsupported_attributes(self) -> Collection[Attribute]:
        return () if os.geteuid() == 0 else (Attribute.CAPABILITY,)

    async def _refuse_in_use(self, home: Home) -> None:
        if await self._is_in_use(home.workspace_id):
            raise ActionFailed(Message(Code.VOLUME_IN_USE))

    async def _tidy(self, home: Home) -> None:
        """Move what an earlier call has left beside the home to the trash. It is removed later."""
        try:
            self._trash.put(await in_thread(self.homes.trash_unfinished, home))
        except ActionFailed as error:
            log.warning("leftovers_not_removed", workspace_id=str(home.workspace_id), reason=str(error))


def _filter_existing(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if path.exists()]


async def _touch_while_reading(
    staging: Path, parts: AsyncGenerator[memoryview, None]
) -> AsyncGenerator[memoryview, None]:
    """Touch the staging directory, so that a restore of hours does not look like an interrupted one."""
    async for part in parts:
        with suppress(FileNotFoundError):  # a later restore has removed it: put_in_place will report that
            os.utime(staging)
        yield part
