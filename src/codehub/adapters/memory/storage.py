"""Storage in memory: homes as dictionaries of files, archives as copies of them that count only once
committed.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from codehub.adapters.memory.contents import Disk, Files, Object
from codehub.adapters.memory.faults import Faults, no_faults
from codehub.adapters.memory.finalizers import Finalizers
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.observation import Archive, Volume
from codehub.ports.archives import archive_key as key_of
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Home, MayCommit, Report, RestoredVolume, StoredArchive
from codehub.ports.system import Identity


class MemoryStorage:
    """A fault point is "storage.<call>.before_effect", "….between_effects" or "….after_effect", or
    "storage.<look>".
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        identity: Identity,
        faults: Faults = no_faults,
        disks: dict[UUID, Disk] | None = None,
        objects: dict[str, Object] | None = None,
    ) -> None:
        """`disks` and `objects` hold what there is: a simulator gives dictionaries that report each
        change.
        """
        self._now = now
        self._identity = identity
        self._faults = faults
        self._disks: dict[UUID, Disk] = {} if disks is None else disks
        self._objects: dict[str, Object] = {} if objects is None else objects
        self._jobs: dict[UUID, object] = {}
        self.finalizers = Finalizers()
        self.is_in_use: Callable[[UUID], bool] = lambda _workspace_id: False
        self.made: list[UUID] = []
        self.destroyed: list[UUID] = []

    async def provision(self, home: Home, *, replaces: str | None = None) -> str:
        await self._faults("storage.provision.before_effect")
        disk = await self._present(home)
        if disk is None or disk.volume_id is None:
            _refuse_other(disk, replaces)
            await self._make_room(home, disk)
            disk = self._disks[home.workspace_id] = Disk(None)
            await self._faults("storage.provision.between_effects")
            disk.volume_id = self._new_volume(home)
        await self._faults("storage.provision.after_effect")
        return disk.volume_id

    async def adopt(self, home: Home, lost: str) -> str:
        await self._faults("storage.adopt.before_effect")
        disk = await self._present(home)
        if disk is None:
            raise ActionFailed(Message(Code.NOTHING_TO_ADOPT), reason=ErrorReason.DATA_LOST)
        if disk.volume_id is None:
            if disk.former_id != lost:
                raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": lost}))
            self._refuse_in_use(home)
            disk.volume_id, disk.former_id = lost, None
        elif disk.volume_id != lost:
            raise ActionFailed(Message(Code.HAS_IDENTITY))
        await self._faults("storage.adopt.after_effect")
        return lost

    async def restore(
        self, home: Home, archive_key: str, report: Report, *, replaces: str | None = None
    ) -> RestoredVolume:
        await self._faults("storage.restore.before_effect")
        archive = self._committed_archive(archive_key)
        disk = await self._present(home)
        _refuse_other(disk, replaces)
        await self._make_room(home, disk)
        if disk is not None and disk.volume_id is not None:
            self.destroyed.append(home.workspace_id)
        job = self._begin_job(home)
        disk = self._disks[home.workspace_id] = Disk(
            None, dict(archive.files), archive.files, made_from=archive_key
        )
        await self._faults("storage.restore.between_effects")
        self._check_job(home, job)
        report(Amount("restore", _size(archive.files), _size(archive.files)))
        disk.volume_id = volume_id = self._new_volume(home)
        await self._faults("storage.restore.after_effect")
        return RestoredVolume(volume_id, archive_key)

    async def archive(
        self, home: Home, volume_id: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        await self._faults("storage.archive.before_effect")
        key = key_of(home.workspace_id, op_id)
        if not self._is_committed(key):
            job = self._begin_job(home)
            files = dict(self.require(home.workspace_id, volume_id).files)
            self._objects[key] = Object(files, self._now())
            report(Amount("archive", _size(files), _size(files)))
            await self._faults("storage.archive.between_effects")
            at = await may_commit()
            self._check_job(home, job)
            self.require(home.workspace_id, volume_id)
            self._commit(key, at)
        await self._faults("storage.archive.after_effect")
        return key

    async def create_empty_archive(self, home: Home, op_id: UUID, may_commit: MayCommit) -> str:
        await self._faults("storage.create_empty_archive.before_effect")
        key = key_of(home.workspace_id, op_id)
        if not self._is_committed(key):
            self._objects[key] = Object({}, self._now())
            await self._faults("storage.create_empty_archive.between_effects")
            self._commit(key, await may_commit())
        await self._faults("storage.create_empty_archive.after_effect")
        return key

    async def copy_archive(
        self, home: Home, archive_key: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        await self._faults("storage.copy_archive.before_effect")
        key = key_of(home.workspace_id, op_id)
        if not self._is_committed(key):
            files = self._committed_archive(archive_key).files
            self._objects[key] = Object(files, self._now())
            report(Amount("restore", _size(files), _size(files)))
            await self._faults("storage.copy_archive.between_effects")
            self._commit(key, await may_commit())
        await self._faults("storage.copy_archive.after_effect")
        return key

    async def delete_volume(self, home: Home, volume_id: str | None) -> None:
        await self._faults("storage.delete_volume.before_effect")
        disk = self._disks.get(home.workspace_id)
        if disk is not None:
            if disk.name != volume_id:
                raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))
            self._refuse_in_use(home)
            await self._end(home.workspace_id)
            self.destroyed.append(home.workspace_id)
        await self._faults("storage.delete_volume.after_effect")

    async def is_worked_on(self, home: Home, volume_id: str, *, since: datetime | None = None) -> bool:
        await self._faults("storage.is_worked_on")
        disk = self.require(home.workspace_id, volume_id)
        is_later = since is None or (disk.written_at is not None and disk.written_at > since)
        return disk.files != disk.as_made and is_later

    async def list_volumes(self) -> Mapping[UUID, Volume]:
        await self._faults("storage.list_volumes")
        return self.volumes()

    async def head_archive(self, archive_key: str) -> Archive | None:
        await self._faults("storage.head_archive")
        archive = self._objects.get(archive_key)
        return None if archive is None else Archive(committed=archive.committed)

    async def has_archives(self, workspace_id: UUID) -> bool:
        await self._faults("storage.has_archives")
        return any(key.startswith(f"{workspace_id}/") for key in self._objects)

    async def list_archives(self) -> Sequence[StoredArchive]:
        await self._faults("storage.list_archives")
        return [
            StoredArchive(key, _size(archive.files), archive.modified_at, archive.has_meta)
            for key, archive in self._objects.items()
        ]

    async def list_archives_of(self, workspace_id: UUID) -> Sequence[StoredArchive]:
        await self._faults("storage.list_archives_of")
        return [
            StoredArchive(
                key,
                _size(archive.files),
                archive.modified_at,
                archive.committed,
                archive.committed_at if archive.committed else None,
                archive.committed and not archive.files,
                _digest(archive.files) if archive.committed else None,
            )
            for key, archive in self._objects.items()
            if key.startswith(f"{workspace_id}/")
        ]

    async def delete_archive(self, archive_key: str) -> None:
        await self._faults("storage.delete_archive.before_effect")
        self._objects.pop(archive_key, None)
        await self._faults("storage.delete_archive.after_effect")

    async def purge(self, home: Home) -> None:
        await self._faults("storage.purge.before_effect")
        for key in [key for key in self._objects if key.startswith(f"{home.workspace_id}/")]:
            self._objects.pop(key, None)  # another purge may have been faster
            await self._faults("storage.purge.between_effects")
        await self._faults("storage.purge.after_effect")

    async def list_leftovers(self) -> Sequence[str]:
        return []

    async def remove_leftovers(self, older_than: datetime) -> int:
        del older_than
        return 0

    @property
    def disks(self) -> Mapping[UUID, Disk]:
        """Every volume that is there, half or whole, whatever faults there are."""
        return self._disks

    @property
    def objects(self) -> Mapping[str, Object]:
        """Every archive that is there, committed or not, whatever faults there are."""
        return self._objects

    def volumes(self) -> Mapping[UUID, Volume]:
        """What is listed. What is ending is there until it is gone."""
        return {
            workspace_id: Volume(disk.volume_id, disk.former_id, disk.made_from)
            for workspace_id, disk in self._disks.items()
        }

    def hold(self, workspace_id: UUID) -> None:
        """Let what is deleted of it from now on stay, as ending, until it is released."""
        self.finalizers.hold(workspace_id)

    def release(self, workspace_id: UUID) -> None:
        """Let what was deleted meanwhile go."""
        disk = self._disks.get(workspace_id)
        if disk is not None and disk.is_ending:
            del self._disks[workspace_id]
        self.finalizers.release(workspace_id)

    def require(self, workspace_id: UUID, volume_id: str) -> Disk:
        """Return this very volume. Refuses unless it is there, complete, and to stay."""
        disk = self._disks.get(workspace_id)
        if disk is None or disk.volume_id != volume_id:
            raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))
        if disk.is_ending:
            raise BackendUnreachable(_held(workspace_id))
        return disk

    def volume_id(self, workspace_id: UUID) -> str | None:
        disk = self._disks.get(workspace_id)
        return None if disk is None else disk.volume_id

    def write(self, workspace_id: UUID, path: str, content: bytes) -> None:
        disk = self._disks[workspace_id]
        disk.files[path] = content
        disk.written_at = self._now()

    def files(self, workspace_id: UUID) -> Files | None:
        """Return what the home holds, or None if there is no complete volume."""
        disk = self._disks.get(workspace_id)
        return None if disk is None or disk.volume_id is None else dict(disk.files)

    def archived_files(self, archive_key: str) -> Files | None:
        archive = self._objects.get(archive_key)
        return archive.files if archive is not None and archive.committed else None

    def archive_keys(self) -> frozenset[str]:
        """The keys of all archives, committed or not."""
        return frozenset(self._objects)

    def put_archive(self, archive_key: str, files: Files, committed_at: datetime) -> None:
        """Add one committed archive that no row records."""
        self._objects[archive_key] = Object(files, committed_at, True, committed_at)

    def uncommit_archive(self, archive_key: str) -> None:
        """Remove its `.meta`."""
        self._objects[archive_key] = replace(
            self._objects[archive_key], has_meta=False, committed_at=None, is_damaged=False
        )

    def leave_half_a_volume(self, workspace_id: UUID, files: Files) -> None:
        """Add a volume that was never completed."""
        self._disks[workspace_id] = Disk(None, dict(files))

    def lose_volume(self, workspace_id: UUID) -> None:
        self._disks.pop(workspace_id, None)

    def lose_identity(self, workspace_id: UUID) -> None:
        """Remove the volume's identity. Its files stay."""
        disk = self._disks.get(workspace_id)
        if disk is not None and disk.volume_id is not None:
            self._disks[workspace_id] = replace(disk, volume_id=None, former_id=disk.volume_id)

    def lose_archive(self, archive_key: str) -> None:
        self._objects.pop(archive_key, None)

    def damage_archive(self, archive_key: str) -> None:
        """Cut its `.meta`: a list still shows both halves."""
        self._objects[archive_key] = replace(self._objects[archive_key], is_damaged=True)

    async def _present(self, home: Home) -> Disk | None:
        """Return the volume that is there to stay. One that is ending is waited for."""
        disk = self._disks.get(home.workspace_id)
        if disk is None or not disk.is_ending:
            return disk
        await self._end(home.workspace_id)
        return None

    async def _make_room(self, home: Home, disk: Disk | None) -> None:
        """Let a new volume take the place of this one. One that is held has to go first."""
        self._refuse_in_use(home)
        if disk is not None and home.workspace_id in self.finalizers:
            await self._end(home.workspace_id)
        if (there := self._disks.get(home.workspace_id)) is not None and there is not disk:
            raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": None}))

    async def _end(self, workspace_id: UUID) -> None:
        """Delete it, and return when it is gone. Who waits gives up after a time; the deletion does not."""
        if workspace_id not in self.finalizers:
            del self._disks[workspace_id]
            return
        disk = self._disks[workspace_id]
        if not disk.is_ending:
            disk.is_ending = True
            self._disks[workspace_id] = disk
        if not await self.finalizers.is_released(workspace_id):
            raise BackendUnreachable(_held(workspace_id))

    def _begin_job(self, home: Home) -> object:
        """Register a job. One per workspace: the old one then fails."""
        job = self._jobs[home.workspace_id] = object()
        return job

    def _check_job(self, home: Home, job: object) -> None:
        if self._jobs[home.workspace_id] is not job:
            raise ActionFailed(Message(Code.NEWER_JOB))

    def _refuse_in_use(self, home: Home) -> None:
        if self.is_in_use(home.workspace_id):
            raise ActionFailed(Message(Code.VOLUME_IN_USE))

    def _new_volume(self, home: Home) -> str:
        self.made.append(home.workspace_id)
        return str(self._identity.new_id())

    def _is_committed(self, key: str) -> bool:
        return key in self._objects and self._objects[key].committed

    def _committed_archive(self, archive_key: str) -> Object:
        archive = self._objects.get(archive_key)
        if archive is None or not archive.has_meta:
            raise ActionFailed(
                Message(Code.ARCHIVE_NOT_THERE, {"key": archive_key}), reason=ErrorReason.DATA_LOST
            )
        if archive.is_damaged:
            raise ActionFailed(
                Message(Code.ARCHIVE_DAMAGED, {"key": archive_key, "problem": Message(Code.CHECKSUM_WRONG)}),
                reason=ErrorReason.ARCHIVE_CORRUPTED,
            )
        return archive

    def _commit(self, key: str, at: datetime | None) -> None:
        if at is None:
            raise ActionFailed(Message(Code.ARCHIVE_OVERTAKEN))
        if key not in self._objects:  # garbage collection was faster than an abandoned job
            raise ActionFailed(Message(Code.ARCHIVE_NOT_THERE, {"key": key}))
        self._objects[key] = replace(self._objects[key], has_meta=True, committed_at=at)


def _refuse_other(disk: Disk | None, replaces: str | None) -> None:
    if disk is not None and disk.name not in (None, replaces):
        raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": replaces}))


def _held(workspace_id: UUID) -> Message:
    return Message(Code.CLAIM_HELD, {"claim": str(workspace_id), "finalizers": ["memory"]})


def _digest(files: Files) -> str:
    return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()


def _size(files: Files) -> int:
    return sum(len(content) for content in files.values())
