"""Execute: one step of one workspace in, an outcome out. Asks right
before it acts whether the row still carries the operation.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from codehub.core.archives import archive_made_since, newest_facts, work_counts_from
from codehub.core.ceilings import clamp, may_run
from codehub.core.errors import ErrorReason
from codehub.core.judge import holds_lost_archive, may_replace
from codehub.core.messages import Code, Message, verbatim
from codehub.core.observation import Instance, Volume
from codehub.core.operations import Operation, Step
from codehub.core.plan import Act
from codehub.core.requests import is_purge_asked, is_purge_due
from codehub.core.transitions import Done, Failed, Outcome, Unreached
from codehub.core.workspace import (
    HomeCtx,
    Spec,
    StorageBackend,
    Workspace,
    is_as_restored,
    start_facts,
)
from codehub.engine.backends import Backends
from codehub.engine.observe import committed_archives
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import InstanceController, InstanceSpec
from codehub.ports.storage import Home, MayCommit, Report, StorageProvider
from codehub.ports.store import StoreUnavailable

log = structlog.get_logger()

# Asked of the database: its time, if the row still carries this operation's id.
OperationTime = Callable[[UUID, UUID], Awaitable[datetime | None]]

_LAST_LINES, _LAST_LINES_BYTES_MAX, _LAST_LINES_S_MAX = 12, 1_500, 5.0
_FILLS = frozenset({Step.PROVISION, Step.RESTORE, Step.START})
LONG_STEPS = frozenset({Step.ARCHIVE, Step.COPY_ARCHIVE, Step.RESTORE})
_TICK = timedelta(microseconds=1)


class Superseded(Exception):
    """The row carries another op_id by now: whoever issued that acts, and this process must not."""


class Executor:
    def __init__(self, backends: Backends, operation_time: OperationTime) -> None:
        self._backends = backends
        self._operation_time = operation_time

    async def run(
        self, workspace: Workspace, act: Act, volume: Volume | None, since: datetime, report: Report
    ) -> Outcome:
        """Do the step. `volume` is the one that was seen, `since` when the attempt began. Raises
        Superseded.
        """
        op_id = workspace.status.op_id
        assert op_id is not None
        facts = start_facts(workspace.spec) if act.step is Step.START else {}
        try:
            await self._require_room(workspace.spec.storage_backend, act.step)
            await self._require(workspace.id, op_id)
            return await self._do(workspace, act.step, op_id, volume, since, report)
        except Superseded:
            raise
        except (BackendUnreachable, StoreUnavailable) as error:
            return Unreached(_outage(error), since, facts)
        except ActionFailed as error:
            return Failed(error.reason, error.message, {**error.context, **facts}, error.is_engines_own)
        except Exception as error:  # an adapter's mistake must not stop the loop: it is retried, then shown
            log.exception("step_failed_unexpectedly", workspace_id=str(workspace.id), step=act.step)
            return Failed(ErrorReason.ACTION_FAILED, verbatim(f"{type(error).__name__}: {error}"), facts)

    async def explain_end(self, workspace: Workspace, ended: Instance) -> Outcome:
        """Return the failure of a start whose instance has ended: with what, and what it said last."""
        lines = await self._last_lines(workspace)
        code = "unknown" if ended.exit_code is None else str(ended.exit_code)
        message = Message(Code.ENDED_EARLY, {"exit_code": code})
        if lines:
            message = Message(Code.ENDED_SAYING, {"exit_code": code, "lines": lines})
        if ended.why is not None:
            message = ended.why
        facts = {"exit_code": code, "last_lines": lines, **start_facts(workspace.spec)}
        return Failed(ErrorReason.ACTION_FAILED, message, facts)

    async def _last_lines(self, workspace: Workspace) -> str:
        instances = self._backends.instances.get(workspace.spec.instance_backend)
        output = b""
        if instances is None:
            return ""
        try:
            async with asyncio.timeout(_LAST_LINES_S_MAX):
                async for part in instances.logs(workspace.id, tail=_LAST_LINES):
                    output = (output + part)[-_LAST_LINES_BYTES_MAX:]
        except (BackendUnreachable, ActionFailed, TimeoutError) as error:
            log.info("last_lines_unknown", workspace_id=str(workspace.id), reason=str(error))
        return readable_text(output)

    async def _require(self, workspace_id: UUID, op_id: UUID) -> None:
        if await self._operation_time(workspace_id, op_id) is None:
            raise Superseded

    def _adapters(self, spec: Spec) -> tuple[InstanceController, StorageProvider]:
        instances = self._backends.instances.get(spec.instance_backend)
        storage = self._backends.storage.get(spec.storage_backend)
        if instances is None or storage is None:
            raise BackendUnreachable(Message(Code.NO_ADAPTER, {"backend": str(spec.instance_backend)}))
        return instances, storage

    async def _require_room(self, backend: StorageBackend, step: Step) -> None:
        """Hold what would fill a disk that is nearly full. It waits
        as for an outage; whatever makes room goes on.
        """
        disk = self._backends.disks.get(backend)
        if disk is None or step not in _FILLS:
            return
        room = await disk.room()
        if room is not None and room.is_short:
            raise BackendUnreachable(room.message)

    async def _do(
        self,
        workspace: Workspace,
        step: Step,
        op_id: UUID,
        volume: Volume | None,
        since: datetime,
        report: Report,
    ) -> Done:
        instances, storage = self._adapters(workspace.spec)
        resources = clamp(self._backends.ceilings, workspace.spec.resources)
        home = Home(workspace.id, workspace.spec.home_store_key, resources.disk_mb)
        status = workspace.status
        volume_id = None if volume is None else volume.volume_id
        if status.operation is Operation.DELETING and is_purge_due(workspace.spec, since):
            await self._refuse_later_work(storage, workspace, op_id, volume)
        if step in (Step.ARCHIVE, Step.CREATE_EMPTY_ARCHIVE, Step.COPY_ARCHIVE):
            return Done(archive_key=await self._make_archive(storage, workspace, step, op_id, report))
        match step:
            case Step.PROVISION:
                return Done(volume_id=await storage.provision(home, replaces=status.home_ctx.replaces))
            case Step.ADOPT:
                return await _adopt(storage, home, status.home_ctx)
            case Step.RESTORE:
                assert status.archive_key is not None
                await self._refuse_newer(storage, workspace, volume, Code.NOT_REPLACED)
                replaces = volume_id or status.home_ctx.replaces
                restored = await storage.restore(home, status.archive_key, report, replaces=replaces)
                return Done(volume_id=restored.volume_id, restore_marker=restored.marker)
            case Step.START:
                assert status.home_ctx.volume_id is not None
                await self._start(instances, workspace, status.home_ctx.volume_id, report)
            case Step.DELETE_INSTANCE:
                await instances.delete(workspace.id)
            case Step.DELETE_VOLUME:
                await self._delete_volume(storage, workspace, volume, since)
            case Step.PURGE_ARCHIVES:
                await storage.purge(home)
        return Done()

    async def _start(
        self, instances: InstanceController, workspace: Workspace, volume_id: str, report: Report
    ) -> None:
        spec = _instance_spec(workspace, self._backends)
        disk = self._backends.disks.get(workspace.spec.storage_backend)
        if disk is not None:
            await disk.bind(Home(workspace.id, workspace.spec.home_store_key), spec.resources.disk_mb)
        await instances.start(spec, volume_id, report)

    async def _make_archive(
        self, storage: StorageProvider, workspace: Workspace, step: Step, op_id: UUID, report: Report
    ) -> str:
        async def may_commit() -> datetime | None:
            return await self._commit_time(storage, workspace.id, op_id)

        home, key = Home(workspace.id, workspace.spec.home_store_key), workspace.status.archive_key
        if step is Step.CREATE_EMPTY_ARCHIVE:
            return await storage.create_empty_archive(home, op_id, may_commit)
        if step is Step.COPY_ARCHIVE:
            assert key is not None
            return await storage.copy_archive(home, key, op_id, report, may_commit)
        return await self._archive_if_changed(storage, workspace, op_id, report, may_commit)

    async def _archive_if_changed(
        self,
        storage: StorageProvider,
        workspace: Workspace,
        op_id: UUID,
        report: Report,
        may_commit: MayCommit,
    ) -> str:
        """Return the key of an archive that holds the home: the one
        that it was restored from, if it is as it was then.
        """
        home, status = Home(workspace.id, workspace.spec.home_store_key), workspace.status
        volume_id, key = status.home_ctx.volume_id, status.archive_key
        assert volume_id is not None
        if key is not None and is_as_restored(status) and status.conditions.archive_ready.is_true:
            if not await storage.is_worked_on(home, volume_id):
                return key
            await self._require(workspace.id, op_id)
        return await storage.archive(home, volume_id, op_id, report, may_commit)

    async def _commit_time(
        self, storage: StorageProvider, workspace_id: UUID, op_id: UUID
    ) -> datetime | None:
        """Return when an archive of this operation counts as committed: after
        all that are there, though a clock was set back since.
        """
        archives = await storage.list_archives_of(workspace_id)
        at = await self._operation_time(workspace_id, op_id)
        if at is None:
            return None
        return max([at, *(each.committed_at + _TICK for each in archives if each.committed_at is not None)])

    async def _delete_volume(
        self, storage: StorageProvider, workspace: Workspace, volume: Volume | None, now: datetime
    ) -> None:
        """Delete what was archived just now, what a purge is due for, or what no archive need hold."""
        is_deletion = workspace.status.operation is Operation.DELETING
        if is_deletion and not is_purge_due(workspace.spec, now):
            if not may_replace(workspace.status, volume):
                raise ActionFailed(Message(Code.IDENTITY_LOST), reason=ErrorReason.DATA_LOST)
            await self._refuse_newer(storage, workspace, volume, Code.NOT_DELETED)
        name = None if volume is None else volume.name
        await storage.delete_volume(Home(workspace.id, workspace.spec.home_store_key), name)

    async def _refuse_later_work(
        self, storage: StorageProvider, workspace: Workspace, op_id: UUID, volume: Volume | None
    ) -> None:
        """Refuse to let the end of the trash's time take what was worked on after the
        deletion. A purge that a person asked for may. Of a home whose identity is lost
        nothing tells when it was worked on, so that it takes a word of its own.
        """
        spec = workspace.spec
        if is_purge_asked(spec) or spec.deleted_at is None:
            return
        since = max(spec.deleted_at, _accepted_at(spec) or spec.deleted_at)
        is_accepted = since > spec.deleted_at
        worked_since = since if is_accepted else work_counts_from(spec.deleted_at)
        home = Home(workspace.id, spec.home_store_key)
        volume_id, is_unidentified = None, False
        if volume is not None:
            volume_id = volume.volume_id
            is_unidentified = volume_id is None and volume.bears is not None and not is_accepted
        if is_unidentified or (volume_id and await storage.is_worked_on(home, volume_id, since=worked_since)):
            raise ActionFailed(Message(Code.WORKED_ON_SINCE), reason=ErrorReason.DATA_LOST)
        if volume is not None:
            await self._refuse_last_copy(storage, workspace, volume)
        archives = await committed_archives(storage, workspace.id)
        if (later := archive_made_since(workspace.status, archives, since)) is not None:
            raise ActionFailed(
                Message(Code.ARCHIVED_SINCE, {"at": f"{later.order:%Y-%m-%d %H:%M:%S} UTC"}),
                reason=ErrorReason.DATA_LOST,
                context=newest_facts(later),
            )
        await self._require(workspace.id, op_id)  # such looks may have taken long

    async def _refuse_newer(
        self, storage: StorageProvider, workspace: Workspace, volume: Volume | None, refusal: Code
    ) -> None:
        """Refuse to destroy a volume that somebody worked in, though the row does not name it: it is
        newer than the row, as after an older dump of the database was restored, and that takes a person's
        word. One that is as it was made was left by a restore that was never recorded.
        """
        home, op_id = Home(workspace.id, workspace.spec.home_store_key), workspace.status.op_id
        if volume is None or volume.volume_id is None or op_id is None:
            return
        if await storage.is_worked_on(home, volume.volume_id, since=_accepted_at(workspace.spec)):
            raise ActionFailed(Message(refusal), reason=ErrorReason.DATA_LOST)
        await self._refuse_last_copy(storage, workspace, volume)
        await self._require(workspace.id, op_id)  # such a look may have taken long

    async def _refuse_last_copy(self, storage: StorageProvider, workspace: Workspace, volume: Volume) -> None:
        """Refuse to destroy what is left of an archive that is gone, though nobody worked on it."""
        if volume.made_from in (None, workspace.status.archive_key):
            return  # as it is nearly always: what is there was left by a restore that was never recorded
        if holds_lost_archive(workspace.status, volume, await committed_archives(storage, workspace.id)):
            raise ActionFailed(Message(Code.LAST_COPY), reason=ErrorReason.DATA_LOST)


def _outage(error: BackendUnreachable | StoreUnavailable) -> Message:
    if not str(error):
        return Message(Code.NO_ANSWER)
    return error.message if isinstance(error, BackendUnreachable) else verbatim(str(error))


async def _adopt(storage: StorageProvider, home: Home, known: HomeCtx) -> Done:
    assert known.volume_id is not None
    volume_id = await storage.adopt(home, known.volume_id)
    return Done(volume_id=volume_id, restore_marker=known.restore_marker)


def readable_text(output: bytes) -> str:
    """Return a program's output without control characters, which a terminal or a page might obey. Lines
    stay.
    """
    text = output.decode("utf-8", "replace")
    characters = (c if c.isprintable() or c == "\n" else " " for c in text.replace("\r\n", "\n"))
    return "".join(characters).strip()


def _accepted_at(spec: Spec) -> datetime | None:
    """Return when a person accepted a loss: that counts for what was there then, and for nothing later."""
    return spec.recover_at if spec.recover_accepts_loss else None


def _instance_spec(workspace: Workspace, backends: Backends) -> InstanceSpec:
    """Return what is to run, within the ceilings of today: the
    row may be older. An image can't be made to fit.
    """
    spec, ceilings = workspace.spec, backends.ceilings
    if not may_run(ceilings.images, spec):
        raise ActionFailed(
            Message(Code.IMAGE_NOT_ALLOWED, {"image": spec.image_ref}),
            reason=ErrorReason.IMAGE_PULL_FAILED,
            context={"image": spec.image_ref},
        )
    resources = clamp(ceilings, spec.resources)
    if resources != spec.resources:
        log.info("resources_clamped", workspace_id=str(workspace.id), given=asdict(resources))
    return InstanceSpec(
        workspace.id,
        spec.storage_backend,
        spec.home_store_key,
        spec.image_ref,
        spec.ide,
        resources,
        tuple(sorted(backends.environment_of(workspace).items())),
    )
