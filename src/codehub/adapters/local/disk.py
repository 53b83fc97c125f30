"""The filesystem that homes of this machine lie on: its free room, what each home uses, and a reserve for the
database beside them.
"""

import asyncio
import os
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from codehub.adapters.filesystems import MB, free_mb
from codehub.adapters.local.directories import report_outages
from codehub.adapters.local.programs import run_program
from codehub.adapters.local.quota import Quota, find_quota
from codehub.adapters.threads import BlockingReads, in_thread
from codehub.core.disk_space import DiskSpace
from codehub.ports.storage import Home

if TYPE_CHECKING:
    from uuid import UUID

log = structlog.get_logger()

_MEASURE_S_MAX = 30.0
# At the lowest priority, behind every user's work.
_MEASURE = ("nice", "-n", "19", "du", "-s", "-x", "-B", "1M", "--")


class LocalDisk:
    """The Disk below a root directory. Its floor holds for `data_dir` too, which may be on another disk."""

    def __init__(
        self, root: Path, *, floor_mb: int, quota: Quota | None = None, data_dir: Path | None = None
    ) -> None:
        self._root = root
        self._data_dir = data_dir or root
        self._quota = quota
        self._limited: set[UUID] = set()
        self._floor_mb = floor_mb
        self._reads = BlockingReads(str(root))

    async def room(self) -> DiskSpace:
        return DiskSpace(await self._reads.ask(self._free_mb), self._floor_mb)

    def _free_mb(self) -> int:
        """Return the least that is free, of the homes' disk and the database's."""
        with report_outages(self._root):
            return min(free_mb(self._root), free_mb(self._data_dir))

    async def bind(self, home: Home, most_mb: int) -> None:
        if self._quota is None:
            return
        try:
            await in_thread(self._quota.bind, self._root / home.home_store_key, home.workspace_id, most_mb)
        except (
            OSError,
            RecursionError,
        ) as error:  # a start does not fail because of it: the home is measured instead
            log.warning("home_not_bound", workspace_id=str(home.workspace_id), reason=str(error))
            self._limited.discard(home.workspace_id)
        else:
            self._limited.add(home.workspace_id)

    async def used_mb(self, home: Home) -> int | None:
        if self._quota is not None and home.workspace_id in self._limited:
            return await in_thread(self._quota.used_mb, home.workspace_id)
        return await measure_mb(self._root / home.home_store_key)


class FileReserve:
    """A file that reserves space for the database, to be released when the disk is full."""

    def __init__(self, directory: Path, *, size_mb: int, floor_mb: int) -> None:
        self._path = directory / "reserve"
        self._size_mb = size_mb
        self._floor_mb = floor_mb

    async def hold(self) -> None:
        await in_thread(self._hold)

    def _hold(self) -> None:
        if self._path.exists() or free_mb(self._path.parent) < self._floor_mb + self._size_mb:
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, self._size_mb * MB)
        except OSError:  # a filesystem that can't reserve space, or has none left
            self._path.unlink(missing_ok=True)
        finally:
            os.close(fd)

    async def release(self) -> bool:
        return await in_thread(self._release)

    def _release(self) -> bool:
        with suppress(FileNotFoundError):
            self._path.unlink()
            return True
        return False


def usable_quota(root: Path) -> Quota | None:
    """Return the quotas of the filesystem that homes lie on, if it has any."""
    result = find_quota(root)
    return result if isinstance(result, Quota) else None


async def measure_mb(path: Path) -> int | None:
    """Measure a directory. What can't be read is left out; None if it takes too long."""
    try:
        async with (
            asyncio.timeout(_MEASURE_S_MAX),
            run_program((*_MEASURE, str(path)), feeds_it=False) as du,
            aclosing(du.parts()) as parts,
        ):
            output = b"".join([part async for part in parts])
    except TimeoutError:
        return None
    size = output.split(b"\t")[0]
    return int(size) if size.isdigit() else None
