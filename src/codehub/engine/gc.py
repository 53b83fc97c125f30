"""Garbage collection: looks at everything the backends hold, removes
what the core says may go, reports what nobody knows.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from codehub.core.archives import work_counts_from
from codehub.core.garbage import BackendItem, Leftover, Removal, Sorted, Thing, sort_garbage, to_be_read
from codehub.core.judge import holds_lost_archive, may_replace
from codehub.core.messages import Code, Message
from codehub.core.observation import Volume
from codehub.core.operations import Phase
from codehub.core.requests import is_purge_asked
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.engine.backends import Backends, distinct
from codehub.engine.observe import committed_archives
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Home, StorageProvider
from codehub.ports.store import ControllerStore

log = structlog.get_logger()

Backend = InstanceBackend | StorageBackend


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round did, or would do: removed, failed (with why), unknown to the database, left of
    forgotten workspaces, archives that are newer than what their workspaces name, backends it could not
    look at, left-overs of what died half way, and how many old events were forgotten.
    """

    removed: tuple[Removal, ...]
    failed: tuple[tuple[Removal, Message], ...]
    unknown: tuple[BackendItem, ...]
    forgotten: tuple[BackendItem, ...]
    newer: tuple[BackendItem, ...]
    unreachable: tuple[Message, ...]
    leftovers: tuple[str, ...]
    events: int


class GarbageCollector:
    def __init__(
        self,
        store: ControllerStore,
        backends: Backends,
        *,
        grace: timedelta,
        history_kept: timedelta = timedelta(days=90),
    ) -> None:
        self._store = store
        self._backends = backends
        self._grace = grace
        self._history_kept = history_kept

    async def collect(self, *, dry_run: bool = False, orphans: bool = False) -> Collected:
        """Run one round. A dry run only says what it would do;
        `orphans` also removes what the database does not know.
        """
        unreachable: list[Message] = []
        # Looked at before the rows are read: what is made meanwhile
        # is in neither, and can't be taken for unknown.
        items = {item: backend async for backend, item in self._look(unreachable)}
        looked = await self._store.changes(None)
        rows = {row.id: row for row in looked.workspaces}
        items = await self._read_closer(items, rows, looked.now, unreachable)
        result = sort_garbage(items, rows, looked.now, grace=self._grace)
        removals = _removals(result, orphans=orphans)
        failed = {} if dry_run else await self._remove_all(removals, items, orphans=orphans)
        leftovers = await self._leftovers(unreachable)
        events = 0
        if not dry_run:
            await self._discard_leftovers(looked.now - self._grace)
            events = await self._store.forget_history(self._history_kept)
        return Collected(
            tuple(removal for removal in removals if removal not in failed),
            tuple(failed.items()),
            () if orphans else result.unknown,
            result.forgotten,
            result.newer,
            tuple(unreachable),
            leftovers,
            events,
        )

    async def _look(self, unreachable: list[Message]) -> AsyncIterator[tuple[Backend, BackendItem]]:
        for backend, instances in self._backends.instances.items():
            try:
                for workspace_id in await instances.list_all():
                    yield backend, BackendItem(Thing.INSTANCE, workspace_id, None)
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(_backend_failure(backend, error))
        for home, storage in self._backends.storage.items():
            try:
                for workspace_id, volume in (await storage.list_volumes()).items():
                    yield (
                        home,
                        BackendItem(
                            Thing.VOLUME,
                            workspace_id,
                            volume.volume_id,
                            bears=volume.bears,
                            made_from=volume.made_from,
                        ),
                    )
                for archive in await storage.list_archives():
                    owner = UUID(archive.key.split("/")[0])
                    yield (
                        home,
                        BackendItem(
                            Thing.ARCHIVE, owner, archive.key, archive.modified_at, archive.committed
                        ),
                    )
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(_backend_failure(home, error))

    async def _read_closer(
        self,
        items: Mapping[BackendItem, Backend],
        rows: Mapping[UUID, Workspace],
        now: datetime,
        unreachable: list[Message],
    ) -> dict[BackendItem, Backend]:
        """Read what the `.meta` of archives say, where that decides: a list does not tell which is newer."""
        closer = dict(items)
        for workspace_id in to_be_read(items, rows, now, self._grace):
            listed = [
                each for each in items if each.thing is Thing.ARCHIVE and each.workspace_id == workspace_id
            ]
            backend = items[listed[0]]
            for each in listed:
                del closer[each]
            try:
                read = await self._archives_of(backend, workspace_id)
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(_backend_failure(backend, error))
            else:
                closer |= dict.fromkeys(read, backend)
        return closer

    async def _archives_of(self, backend: Backend, workspace_id: UUID) -> Sequence[BackendItem]:
        assert isinstance(backend, StorageBackend)
        archives = await self._backends.storage[backend].list_archives_of(workspace_id)
        return [
            BackendItem(
                Thing.ARCHIVE,
                workspace_id,
                archive.key,
                archive.modified_at,
                archive.committed,
                archive.committed_at,
            )
            for archive in archives
        ]

    async def _remove_all(
        self, removals: Sequence[Removal], everything: Mapping[BackendItem, Backend], *, orphans: bool
    ) -> Mapping[Removal, Message]:
        """Remove what may go, and return what did not, with why."""
        lies_there: dict[UUID, list[BackendItem]] = defaultdict(list)
        for item in everything:
            lies_there[item.workspace_id].append(item)
        failed = {}
        for removal in removals:
            item = removal.item
            beside = lies_there[item.workspace_id]
            why = await self._remove(item, everything[item], beside, orphans=orphans)
            if why is not None:
                failed[removal] = why
        return failed

    async def _remove(
        self, item: BackendItem, backend: Backend, beside: Sequence[BackendItem], *, orphans: bool
    ) -> Message | None:
        """Remove it and return why not, if so. `beside`: all that lies there of its workspace. Each look may
        take minutes, so the row is read before them and once more right before anything goes.
        """
        # A round may take long. What is needed by now stays.
        latest = await self._store.load([item.workspace_id])
        rows = {row.id: row for row in latest.workspaces}
        row = rows.get(item.workspace_id)
        try:
            beside = await self._look_at_archives(beside, row)
            again = sort_garbage(beside, rows, latest.now, grace=self._grace)
            removable = {(each.item.thing, each.item.name) for each in _removals(again, orphans=orphans)}
            if (item.thing, item.name) not in removable:
                return Message(Code.NEEDED_BY_NOW)
            if not orphans and row is not None and (why := await self._in_the_way(item, row)):
                return why
            if item.thing is Thing.VOLUME and await self._has_instance(item.workspace_id):
                return Message(Code.INSTANCE_RUNS_ON_IT)  # the row may be older than both (contract 8)
            if row is not None and list((await self._store.load([row.id])).workspaces) != [row]:
                return Message(Code.CHANGED_MEANWHILE)
            await self._delete(item, backend, row)
        except (ActionFailed, BackendUnreachable) as error:
            return error.message
        log.info("garbage_removed", thing=item.thing, workspace_id=str(item.workspace_id), name=item.name)
        return None

    async def _look_at_archives(
        self, beside: Sequence[BackendItem], row: Workspace | None
    ) -> Sequence[BackendItem]:
        """Look at the workspace's archives themselves: a list takes one for whole
        whose `.meta` was cut, and does not tell which is newer.
        """
        if row is None or row.spec.storage_backend not in self._backends.storage:
            return beside
        others = [item for item in beside if item.thing is not Thing.ARCHIVE]
        return [*others, *await self._archives_of(row.spec.storage_backend, row.id)]

    async def _in_the_way(self, item: BackendItem, row: Workspace) -> Message | None:
        """Return why a volume stays that its workspace, which rests in its archive or is deleted,
        does not name: somebody worked on it. What runs on it stays with it.
        """
        volume, storage = await self._volume_of(item, row)
        is_over = row.status.phase is Phase.DELETED and not is_purge_asked(row.spec)
        if volume is None or not (is_over or row.status.phase is Phase.ARCHIVED):
            return None
        if not may_replace(row.status, volume):
            return Message(Code.ITEM_UNIDENTIFIED)
        if volume.volume_id is None:
            return None
        home = Home(row.id, row.spec.home_store_key)
        deleted_at = row.spec.deleted_at
        since = work_counts_from(deleted_at) if is_over and deleted_at is not None else None
        if await storage.is_worked_on(home, volume.volume_id, since=since):
            return Message(
                Code.ITEM_WORKED_ON if row.spec.forgotten_at is None else Code.ITEM_WORKED_ON_SINCE
            )
        if volume.made_from in (None, row.status.archive_key):
            return None
        archives = await committed_archives(storage, row.id)
        return Message(Code.ITEM_LAST_COPY) if holds_lost_archive(row.status, volume, archives) else None

    async def _has_instance(self, workspace_id: UUID) -> bool:
        for instances in distinct(self._backends.instances):
            if await instances.status(workspace_id) is not None:
                return True
        return False

    async def _volume_of(self, item: BackendItem, row: Workspace) -> tuple[Volume | None, StorageProvider]:
        """Return the volume that would go, or lose what runs on it."""
        storage = self._backends.storage.get(row.spec.storage_backend)
        if storage is None:
            raise BackendUnreachable(Message(Code.NO_ADAPTER, {"backend": str(row.spec.storage_backend)}))
        if item.thing is Thing.VOLUME:
            return Volume(item.name, item.bears, item.made_from), storage
        if item.thing is Thing.ARCHIVE:
            return None, storage
        return (await storage.list_volumes()).get(row.id), storage

    async def _delete(self, item: BackendItem, backend: Backend, row: Workspace | None) -> None:
        if isinstance(backend, InstanceBackend):
            await self._backends.instances[backend].delete(item.workspace_id)
        elif item.thing is Thing.VOLUME:
            home = Home(item.workspace_id, row.spec.home_store_key if row else "")
            await self._backends.storage[backend].delete_volume(home, item.name or item.bears)
        else:
            assert item.name is not None
            await self._backends.storage[backend].delete_archive(item.name)

    async def _leftovers(self, unreachable: list[Message]) -> tuple[str, ...]:
        leftovers: list[str] = []
        for storage in distinct(self._backends.storage):
            try:
                leftovers += await storage.list_leftovers()
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(error.message)
        return tuple(leftovers)

    async def _discard_leftovers(self, older_than: datetime) -> None:
        for storage in distinct(self._backends.storage):
            try:
                await storage.remove_leftovers(older_than)
            except (ActionFailed, BackendUnreachable) as error:
                log.warning("leftovers_not_removed", reason=str(error))


def _backend_failure(backend: Backend, error: ActionFailed | BackendUnreachable) -> Message:
    return Message(Code.OF_BACKEND, {"backend": str(backend), "message": error.message})


def _removals(result: Sorted, *, orphans: bool) -> tuple[Removal, ...]:
    unknown = result.unknown if orphans else ()
    return (
        *result.removals,
        *(Removal(item, Leftover.UNKNOWN) for item in unknown),
    )
