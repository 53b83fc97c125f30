"""Garbage collection: looks at everything the backends hold, removes what the core says may go, reports what nobody knows."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from codehub.core.garbage import Found, Leftover, Removal, Sorted, Thing, sort_garbage, to_be_read
from codehub.core.judge import holds_lost_archive, may_replace
from codehub.core.observation import Volume
from codehub.core.operations import Phase
from codehub.core.requests import is_purge_asked
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.engine.observe import committed_archives
from codehub.engine.platforms import Platforms, distinct
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Home, StorageProvider
from codehub.ports.store import ControllerStore

log = structlog.get_logger()

_NEWER_THAN_KNOWN = "Somebody worked on it, and its workspace knows nothing of that: the database is older. `--orphans` removes it."
_LAST_COPY = "The archive that it was restored from is gone, and its workspace knows nothing of it. `--orphans` removes it."
_UNIDENTIFIED = "Its files are there, but not what says which volume it is, so that nobody knows what they are. `--orphans` removes it."
_WORKED_ON_SINCE = "Somebody worked on it after the deletion that was forgotten, and no file goes by that. `--orphans` removes it."
Backend = InstanceBackend | StorageBackend


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round did, or would do: removed, failed (with why), unknown to the database, left of forgotten workspaces, archives that are
    newer than what their workspaces name, backends it could not look at, left-overs of what died half way, and how many old events were forgotten."""

    removed: tuple[Removal, ...]
    failed: tuple[tuple[Removal, str], ...]
    unknown: tuple[Found, ...]
    forgotten: tuple[Found, ...]
    newer: tuple[Found, ...]
    unreachable: tuple[str, ...]
    leftovers: tuple[str, ...]
    events: int


class GarbageCollector:
    def __init__(
        self,
        store: ControllerStore,
        platforms: Platforms,
        *,
        grace: timedelta,
        history_kept: timedelta = timedelta(days=90),
    ) -> None:
        self._store = store
        self._platforms = platforms
        self._grace = grace
        self._history_kept = history_kept

    async def collect(self, *, dry_run: bool = False, orphans: bool = False) -> Collected:
        """Run one round. A dry run only says what it would do; `orphans` also removes what the database does not know."""
        unreachable: list[str] = []
        # Looked at before the rows are read: what is made meanwhile is in neither, and can't be taken for unknown.
        found = {one: backend async for backend, one in self._look(unreachable)}
        looked = await self._store.changes(None)
        rows = {row.id: row for row in looked.workspaces}
        found = await self._read_closer(found, rows, looked.now, unreachable)
        result = sort_garbage(found, rows, looked.now, grace=self._grace)
        removals = _removals(result, orphans=orphans)
        failed = {} if dry_run else await self._remove_all(removals, found, orphans=orphans)
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

    async def _look(self, unreachable: list[str]) -> AsyncIterator[tuple[Backend, Found]]:
        for backend, instances in self._platforms.instances.items():
            try:
                for workspace_id in await instances.list_all():
                    yield backend, Found(Thing.INSTANCE, workspace_id, None)
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(f"{backend}: {error}")
        for home, storage in self._platforms.storage.items():
            try:
                for workspace_id, volume in (await storage.list_volumes()).items():
                    yield (
                        home,
                        Found(
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
                        Found(Thing.ARCHIVE, owner, archive.key, archive.modified_at, archive.committed),
                    )
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(f"{home}: {error}")

    async def _read_closer(
        self,
        found: Mapping[Found, Backend],
        rows: Mapping[UUID, Workspace],
        now: datetime,
        unreachable: list[str],
    ) -> dict[Found, Backend]:
        """Read what the `.meta` of archives say, where that decides: a list does not tell which is newer."""
        closer = dict(found)
        for workspace_id in to_be_read(found, rows, now, self._grace):
            listed = [
                each for each in found if each.thing is Thing.ARCHIVE and each.workspace_id == workspace_id
            ]
            backend = found[listed[0]]
            for each in listed:
                del closer[each]
            try:
                read = await self._archives_of(backend, workspace_id)
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(f"{backend}: {error}")
            else:
                closer |= dict.fromkeys(read, backend)
        return closer

    async def _archives_of(self, backend: Backend, workspace_id: UUID) -> Sequence[Found]:
        assert isinstance(backend, StorageBackend)
        archives = await self._platforms.storage[backend].list_archives_of(workspace_id)
        return [
            Found(Thing.ARCHIVE, workspace_id, one.key, one.modified_at, one.committed, one.committed_at)
            for one in archives
        ]

    async def _remove_all(
        self, removals: Sequence[Removal], everything: Mapping[Found, Backend], *, orphans: bool
    ) -> Mapping[Removal, str]:
        """Remove what may go, and return what did not, with why."""
        lies_there: dict[UUID, list[Found]] = defaultdict(list)
        for one in everything:
            lies_there[one.workspace_id].append(one)
        failed = {}
        for removal in removals:
            found = removal.found
            beside = lies_there[found.workspace_id]
            why = await self._remove(found, everything[found], beside, orphans=orphans)
            if why is not None:
                failed[removal] = why
        return failed

    async def _remove(
        self, found: Found, backend: Backend, beside: Sequence[Found], *, orphans: bool
    ) -> str | None:
        """Remove it and return why not, if so. `beside`: all that lies there of its workspace. Each look may take minutes, so the row is
        read before them and once more right before anything goes."""
        # A round may take long. What is needed by now stays.
        latest = await self._store.load([found.workspace_id])
        rows = {row.id: row for row in latest.workspaces}
        row = rows.get(found.workspace_id)
        try:
            beside = await self._looked_at(beside, row)
            again = sort_garbage(beside, rows, latest.now, grace=self._grace)
            removable = {(each.found.thing, each.found.name) for each in _removals(again, orphans=orphans)}
            if (found.thing, found.name) not in removable:
                return "It is needed by now."
            if not orphans and row is not None and (why := await self._in_the_way(found, row)):
                return why
            if found.thing is Thing.VOLUME and await self._has_instance(found.workspace_id):
                return "An instance runs on it."  # the row may be older than both (contract 8)
            if row is not None and list((await self._store.load([row.id])).workspaces) != [row]:
                return "Its workspace changed while it was looked at."
            await self._delete(found, backend, row)
        except (ActionFailed, BackendUnreachable) as error:
            return str(error)
        log.info("garbage_removed", thing=found.thing, workspace_id=str(found.workspace_id), name=found.name)
        return None

    async def _looked_at(self, beside: Sequence[Found], row: Workspace | None) -> Sequence[Found]:
        """Look at the workspace's archives themselves: a list takes one for whole whose `.meta` was cut, and does not tell which is newer."""
        if row is None or row.spec.storage_backend not in self._platforms.storage:
            return beside
        others = [one for one in beside if one.thing is not Thing.ARCHIVE]
        return [*others, *await self._archives_of(row.spec.storage_backend, row.id)]

    async def _in_the_way(self, found: Found, row: Workspace) -> str | None:
        """Return why a volume stays that its workspace, which rests in its archive or is deleted, does not name: somebody worked on it.
        What runs on it stays with it."""
        volume, storage = await self._volume_of(found, row)
        is_over = row.status.phase is Phase.DELETED and not is_purge_asked(row.spec)
        if volume is None or not (is_over or row.status.phase is Phase.ARCHIVED):
            return None
        if not may_replace(row.status, volume):
            return _UNIDENTIFIED
        if volume.volume_id is None:
            return None
        home = Home(row.id, row.spec.home_store_key)
        since = row.spec.deleted_at if is_over else None
        if await storage.is_worked_on(home, volume.volume_id, since=since):
            return _NEWER_THAN_KNOWN if row.spec.forgotten_at is None else _WORKED_ON_SINCE
        if volume.made_from in (None, row.status.archive_key):
            return None
        archives = await committed_archives(storage, row.id)
        return _LAST_COPY if holds_lost_archive(row.status, volume, archives) else None

    async def _has_instance(self, workspace_id: UUID) -> bool:
        for instances in distinct(self._platforms.instances):
            if await instances.status(workspace_id) is not None:
                return True
        return False

    async def _volume_of(self, found: Found, row: Workspace) -> tuple[Volume | None, StorageProvider]:
        """Return the volume that would go, or lose what runs on it."""
        storage = self._platforms.storage.get(row.spec.storage_backend)
        if storage is None:
            raise BackendUnreachable("This process has no adapter for its home.")
        if found.thing is Thing.VOLUME:
            return Volume(found.name, found.bears, found.made_from), storage
        if found.thing is Thing.ARCHIVE:
            return None, storage
        return (await storage.list_volumes()).get(row.id), storage

    async def _delete(self, found: Found, backend: Backend, row: Workspace | None) -> None:
        if isinstance(backend, InstanceBackend):
            await self._platforms.instances[backend].delete(found.workspace_id)
        elif found.thing is Thing.VOLUME:
            home = Home(found.workspace_id, row.spec.home_store_key if row else "")
            await self._platforms.storage[backend].delete_volume(home, found.name or found.bears)
        else:
            assert found.name is not None
            await self._platforms.storage[backend].delete_archive(found.name)

    async def _leftovers(self, unreachable: list[str]) -> tuple[str, ...]:
        leftovers: list[str] = []
        for storage in distinct(self._platforms.storage):
            try:
                leftovers += await storage.list_leftovers()
            except (ActionFailed, BackendUnreachable) as error:
                unreachable.append(str(error))
        return tuple(leftovers)

    async def _discard_leftovers(self, older_than: datetime) -> None:
        for storage in distinct(self._platforms.storage):
            try:
                await storage.remove_leftovers(older_than)
            except (ActionFailed, BackendUnreachable) as error:
                log.warning("leftovers_not_removed", reason=str(error))


def _removals(result: Sorted, *, orphans: bool) -> tuple[Removal, ...]:
    unknown = result.unknown if orphans else ()
    return (
        *result.removals,
        *(Removal(found, Leftover.UNKNOWN) for found in unknown),
    )
