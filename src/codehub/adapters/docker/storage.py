"""Homes as Docker volumes, archived and restored by a helper container, streaming.

Refuses a volume other than the one named.
"""

import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import UUID

import structlog

from codehub.adapters.archiving_storage import ArchivingStorage
from codehub.adapters.docker.containers import UID, Mount
from codehub.adapters.docker.engine import ROLE, Engine
from codehub.adapters.docker.job import HELPER, PLACE, Check, Task, end_job, job, run_job
from codehub.adapters.docker.unremovable import list_unremovable, retry_removal
from codehub.adapters.docker.volumes import Volumes, WorkspaceVolumes, home_name, trial_name
from codehub.adapters.gnutar import (
    ACLS,
    CAPABILITIES,
    PACK,
    UNPACK,
    check_packed,
    check_unpacked,
    other_filesystem,
    unpack_failure,
)
from codehub.adapters.workspace_locks import WorkspaceLocks
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.observation import Volume
from codehub.ports.archives import Archives
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Home, Report, RestoredVolume, ignore_progress
from codehub.ports.system import Identity

log = structlog.get_logger()

_OWN = f"chown {UID}:{UID} {PLACE} && chmod 700 {PLACE}"
_EMPTY = Task(f"{_OWN} && sync -f {PLACE}", CAPABILITIES)
# tar leaves other filesystems out and says nothing. Only if all directories are found to be on one does it
# begin.
_OTHERS = b"!"
_ONE_FILESYSTEM = (
    r"""here=$(stat -c %d .); """
    r"""first_other() { find . -xdev -type d -printf '%D %P\0' | grep -zvm1 "^$here " | """
    r"""cut -zd' ' -f2- | tr '\0\n' '\n '; }; """
    r"""[ "$(find . -xdev -type d -printf '%D\n' | sort -u)" = "$here" ] || """
    r"""{ printf '!%s\n' "$(first_other)"; exit 1; }; """
)
# First a line with the size, for showing progress; then the stream. Pipes and device nodes hold nothing and
# are named to tar one by one, all in one call: with more of them than fit, xargs refuses.
_SPECIAL = r"find . -xdev \( -type b -o -type c -o -type p \) -printf '--exclude=./%P\0'"
_PACK = Task(
    (
        f"{_ONE_FILESYSTEM}du -sxB1 . | cut -f1; {{ {_SPECIAL}; printf '.\\0'; }} | xargs -0 -x -n 100000 "
        f"-s 1048576 {shlex.join(PACK)}"
    ),
    ("DAC_OVERRIDE",),
    read_only=True,
)
_DONE = b"done"
# tar accepts an input that ends between two members. So the helper prints _DONE over the same connection.
_UNPACK, _UNPACK_ACLS = (
    Task(f"{_OWN} && {shlex.join(tar)} && sync -f {PLACE} && printf {_DONE.decode()}", CAPABILITIES)
    for tar in (UNPACK, (*UNPACK, ACLS))
)
_SIZE_BYTES_MAX = 32
_AS_MADE, _CHANGED = b"as-made", b"changed"
_KILLED = 128


class DockerStorage(ArchivingStorage):
    """The StorageProvider on Docker volumes. After a kill at any step, the same call again does the rest."""

    def __init__(
        self,
        engine: Engine,
        *,
        helper_image: str,
        archives: Archives,
        identity: Identity,
        pipes: Path | None = None,
    ) -> None:
        """`pipes`: a directory that the engine sees too, if there is one.

        Archived data then bypasses the engine.
        """
        super().__init__(archives)
        self._engine = engine
        self.helper_image = helper_image
        self.pipes = pipes
        self.volumes = Volumes(engine, identity)
        self._locks = WorkspaceLocks()

    async def prepare(self) -> None:
        """Mark the engine as this installation's.

        For the first start alone: afterwards a missing mark is an outage.
        """
        await self.volumes.prepare()

    async def locate(self, workspace_id: UUID) -> tuple[Mount, str | None]:
        """Return where the home is, and which volume that is: None if there is none that is complete."""
        volumes = await self.volumes.inspect(workspace_id)
        return Mount("volume", home_name(workspace_id)), volumes.volume_id

    async def provision(self, home: Home, *, replaces: str | None = None) -> str:
        async with self._locks.of(home.workspace_id):
            volumes = await self.volumes.inspect(home.workspace_id)
            if volumes.volume_id is not None:
                # With both it would pass for half a volume, if it ever lost its seal.
                if volumes.volume_id in volumes.makings:
                    await self.volumes.seal(home.workspace_id, volumes.volume_id)
                return volumes.volume_id
            _refuse_other(volumes, replaces)
            volume_id = await self._make_anew(home, volumes, None)
            check = partial(self.volumes.require_unsealed, home.workspace_id, volume_id)
            await run_job(self._engine, self.helper_image, home.workspace_id, _EMPTY, check=check)
            await self.volumes.seal(home.workspace_id, volume_id)
            return volume_id

    async def adopt(self, home: Home, lost: str) -> str:
        """Seal it again. A volume's label can't change: it is the one that it was, under its own id."""
        async with self._locks.of(home.workspace_id):
            volumes = await self.volumes.inspect(home.workspace_id)
            if not volumes.exists:
                raise ActionFailed(Message(Code.NOTHING_TO_ADOPT), reason=ErrorReason.DATA_LOST)
            if volumes.home != lost:
                raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": lost}))
            if volumes.volume_id is None:
                await self._clear(home.workspace_id)
                await self.volumes.refuse_in_use(home.workspace_id)
                await self.volumes.seal(home.workspace_id, lost)
            return lost

    async def restore(
        self, home: Home, archive_key: str, report: Report, *, replaces: str | None = None
    ) -> RestoredVolume:
        async with self._locks.of(home.workspace_id):
            volumes = await self._replaceable(home, replaces)
            if volumes.volume_id is not None:
                await self._with_acls_if_kept(lambda acls: self._try(home, archive_key, acls=acls))
            volume_id = await self._with_acls_if_kept(
                lambda acls: self._replace(home, archive_key, report, replaces, acls=acls)
            )
            await self.volumes.seal(home.workspace_id, volume_id)
            return RestoredVolume(volume_id, archive_key)

    async def _replaceable(self, home: Home, replaces: str | None) -> WorkspaceVolumes:
        """Return what is there, if a restore may take its place."""
        volumes = await self.volumes.inspect(home.workspace_id)
        _refuse_other(volumes, replaces)
        return volumes

    async def _replace(
        self, home: Home, archive_key: str, report: Report, replaces: str | None, *, acls: bool
    ) -> str:
        """Unpack the archive into a new volume in place of what is there."""
        volumes = await self._replaceable(home, replaces)
        async with aclosing(self._read_archive(archive_key, report, acls=acls)) as parts:
            # Read before anything is replaced: the archive may be missing.
            first = await anext(parts, memoryview(b""))
            volume_id = await self._make_anew(home, volumes, archive_key)
            check = partial(self.volumes.require_unsealed, home.workspace_id, volume_id)
            await self._unpack(home, _UNPACK_ACLS if acls else _UNPACK, first, parts, check=check)
        return volume_id

    async def delete_volume(self, home: Home, volume_id: str | None) -> None:
        async with self._locks.of(home.workspace_id):
            volumes = await self.volumes.inspect(home.workspace_id)
            if volumes.exists and volumes.name != volume_id:
                raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))
            await self._clear(home.workspace_id)
            await self.volumes.remove(home.workspace_id, volumes)

    async def is_worked_on(self, home: Home, volume_id: str, *, since: datetime | None = None) -> bool:
        async with self._locks.of(home.workspace_id):
            volumes = await self.volumes.inspect(home.workspace_id)
            if volumes.volume_id != volume_id:
                raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))
            check = partial(self.volumes.require, home.workspace_id, volume_id)
            task = _changed_since(volumes.seals[volume_id][1], since)
            async with job(self._engine, self.helper_image, home.workspace_id, task, check=check) as helper:
                output, code = await helper.read_output(), await helper.exit_code()
        # Only explicit output shows that nothing was changed: no output may mean that the engine went away.
        if output in (_AS_MADE, _CHANGED):
            return output == _CHANGED
        if code == 0 or code >= _KILLED:
            raise BackendUnreachable(Message(Code.DOCKER_CUT_OFF, {"text": repr(output)}))
        return True

    async def list_volumes(self) -> Mapping[UUID, Volume]:
        return _volumes(await self.volumes.list_all())

    async def list_unmarked(self) -> Mapping[UUID, Volume]:
        """Return what there is though the mark is missing: for whoever has to decide whether this is the
        right engine.
        """
        return _volumes(await self.volumes.list_unmarked())

    async def list_leftovers(self) -> Sequence[str]:
        """Return what work that died has left: helpers, seals of homes that are gone, trials, unfinished
        uploads.
        """
        volumes = await self.volumes.list_all()
        return [
            *(f"helper {workspace_id}" for workspace_id, _ in await self._helpers()),
            *(
                f"container {container.name}, which Docker can't remove"
                for container in await list_unremovable(self._engine)
            ),
            *(
                name
                for workspace_id, workspace_volumes in volumes.items()
                for name, _ in workspace_volumes.leftovers(workspace_id)
            ),
            *await self._archives.list_leftovers(),
        ]

    async def remove_leftovers(self, older_than: datetime) -> int:
        removed = await self._archives.remove_leftovers(older_than)
        for workspace_id, made_at in await self._helpers():
            if made_at < older_than:
                await end_job(self._engine, workspace_id)
                removed += 1
        for container in await list_unremovable(self._engine):
            removed += await retry_removal(self._engine, container)
        for workspace_id in await self.volumes.list_all():
            async with self._locks.of(workspace_id):
                volumes = await self.volumes.inspect(workspace_id)
                for name, made_at in volumes.leftovers(workspace_id):
                    if made_at < older_than:
                        await self.volumes.drop_leftover(name)
                        removed += 1
        return removed

    async def _make_anew(self, home: Home, volumes: WorkspaceVolumes, archive_key: str | None) -> str:
        """Make a new volume in place of what was found there.

        Refuses if that is in use, or something else by now.
        """
        await self._clear(home.workspace_id)
        await self.volumes.remove(home.workspace_id, volumes)
        return await self.volumes.make(home.workspace_id, archive_key)

    async def _clear(self, workspace_id: UUID) -> None:
        """Remove what would keep Docker from removing the volume: a helper, and what was set aside."""
        await end_job(self._engine, workspace_id)
        for container in await list_unremovable(self._engine):
            if container.workspace_id == workspace_id:
                await retry_removal(self._engine, container)

    async def _require(self, home: Home, volume_id: str) -> None:
        await self.volumes.require(home.workspace_id, volume_id)

    async def _pack(self, home: Home, report: Report) -> AsyncGenerator[bytes, None]:
        async with job(self._engine, self.helper_image, home.workspace_id, _PACK, pipes=self.pipes) as helper:
            async with aclosing(helper.parts()) as parts:
                size, rest = _size(await anext(parts, b""))
                done = 0
                async for part in _after(rest, parts):
                    done += len(part)
                    report(Amount("archive", done, max(done, size)))
                    yield part
            check_packed(await helper.exit_code(), helper.error_output)

    async def _try(self, home: Home, archive_key: str, *, acls: bool) -> None:
        """Unpack the archive beside a whole home that it is to replace: a restore that fails leaves what was
        there.
        """
        task = replace(_UNPACK_ACLS if acls else _UNPACK, volume_name=trial_name)
        async with aclosing(self._read_archive(archive_key, ignore_progress, acls=acls)) as parts:
            first = await anext(parts, memoryview(b""))
            await self.volumes.make_trial(home.workspace_id)
            await self._unpack(home, task, first, parts)

    async def _unpack(
        self,
        home: Home,
        task: Task,
        first: memoryview,
        parts: AsyncIterator[memoryview],
        *,
        check: Check | None = None,
    ) -> None:
        """Unpack the stream into a new volume. What the stream raises comes before what tar says."""
        async with job(self._engine, self.helper_image, home.workspace_id, task, check=check) as helper:
            is_cut = False
            try:
                await helper.write(first)
                async for part in parts:
                    await helper.write(part)
                helper.streams.end_input()
            except OSError:
                is_cut = True
                # tar may stop reading first, having failed; whether the archive is to blame, its other parts
                # tell.
                async for _ in parts:
                    pass
            output, code = await helper.read_output(), await helper.exit_code()
            if output == _DONE and code == 0 and not is_cut:
                check_unpacked(code, helper.error_output)
                return
            failure = unpack_failure(code, helper.error_output)
            misses_input = is_cut and failure.reason is ErrorReason.ARCHIVE_CORRUPTED
            if code == 0 or not helper.error_output or misses_input:
                raise BackendUnreachable(Message(Code.DOCKER_CUT_OFF, {"text": repr(output)}))
            raise failure

    async def _helpers(self) -> list[tuple[UUID, datetime]]:
        """Return helpers that have ended, or were never started: whoever made them is gone."""
        containers = await self._engine.list_labelled("containers/json", {ROLE: HELPER}, all=True)
        return [
            (
                UUID(container["Labels"]["codehub.workspace"]),
                datetime.fromtimestamp(container["Created"], UTC),
            )
            for container in containers
            if container["State"] != "running"
        ]


def _refuse_other(volumes: WorkspaceVolumes, replaces: str | None) -> None:
    if volumes.name not in (None, replaces):
        raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": replaces}))


def _volumes(volumes: Mapping[UUID, WorkspaceVolumes]) -> Mapping[UUID, Volume]:
    return {
        key: workspace_volumes.volume
        for key, workspace_volumes in volumes.items()
        if workspace_volumes.volume is not None
    }


def _changed_since(sealed_at: datetime, since: datetime | None) -> Task:
    """Say whether anything was changed after the second in which the home was sealed: Docker tells no more of
    it. And after `since`.
    """
    moments = [sealed_at.timestamp() + 1, *([] if since is None else [since.timestamp()])]
    find = f"find . -newerct @{max(moments):.6f} -printf {_CHANGED.decode()} -quit"
    script = f'found=$({find}) && printf %s "${{found:-{_AS_MADE.decode()}}}"'
    return Task(script, ("DAC_OVERRIDE",), read_only=True)


def _size(first: bytes) -> tuple[int, bytes]:
    """Split the first part into the line with the size and what follows it.

    Refuses what the helper has refused.
    """
    line, _, rest = first.partition(b"\n")
    if line.startswith(_OTHERS):
        raise other_filesystem(os.fsdecode(line.removeprefix(_OTHERS)))
    if len(line) > _SIZE_BYTES_MAX or not line.isdigit():
        raise BackendUnreachable(Message(Code.DOCKER_CUT_OFF, {"text": repr(line[:100])}))
    return int(line), rest


async def _after(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for part in parts:
        yield part
