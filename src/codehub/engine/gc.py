"""Garbage collection: looks at everything the backends hold, removes what the core says may go, reports what nobody knows."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from codehub.core.garbage import Found, Removal, Sorted, Thing, sort_garbage
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.engine.platforms import Platforms, distinct
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Home, StorageProvider
from codehub.ports.store import ControllerStore

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round did, or would do: removed, failed (with why), unknown to the database, left of forgotten workspaces, backends it could
    not look at, left-overs of what died half way, and how many old events were forgotten."""

    removed: tuple[Removal, ...]
    failed: tuple[tuple[Removal, str], ...]
    unknown: tuple[Found, ...]
    forgotten: tuple[Found, ...]
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
        result = sort_garbage(found, rows, looked.now, grace=self._grace)
        removals = (*result.removals, *(_orphans(result) if orphans else ()))
        failed = (
            []
            if dry_run
            else [
                (removal, why)
                for removal in removals
                if (why := await self._remove(removal, found, rows, orphans=orphans)) is not None
            ]
        )
        failures = {removal for removal, _why in failed}
        removed = tuple(removal for removal in removals if removal not in failures)
        unknown = () if orphans else result.unknown
        leftovers = [
            left
            for storage in distinct(self._platforms.storage)
            for left in await self._leftovers(storage, unreachable)
        ]
        if not dry_run:
            for storage in distinct(self._platforms.storage):
                await self._discard(storage, looked.now - self._grace)
        events = 0 if dry_run else await self._store.forget_history(self._history_kept)
        return Collected(
            removed,
            tuple(failed),
            unknown,
            result.forgotten,
            tuple(unreachable),
            tuple(leftovers),
            events,
        )

    async def _leftovers(self, storage: StorageProvider, unreachable: list[str]) -> Sequence[str]:
        try:
            return await storage.list_leftovers()
        except BackendUnreachable as error:
            unreachable.append(str(error))
            return ()

    async def _discard(self, storage: StorageProvider, older_than: datetime) -> None:
        try:
            await storage.remove_leftovers(older_than)
        except (ActionFailed, BackendUnreachable) as error:
            log.warning("leftovers_not_removed", reason=str(error))

    async def _look(
        self, unreachable: list[str]
    ) -> AsyncIterator[tuple[InstanceBackend | StorageBackend, Found]]:
        for backend, instances in self._platforms.instances.items():
            try:
                for workspace_id in await instances.list_all():
                    yield backend, Found(Thing.INSTANCE, workspace_id, None)
            except BackendUnreachable as error:
                unreachable.append(f"{backend}: {error}")
        for home, storage in self._platforms.storage.items():
            try:
                for workspace_id, volume in (await storage.list_volumes()).items():
                    yield home, Found(Thing.VOLUME, workspace_id, volume.volume_id)
                for archive in await storage.list_archives():
                    owner = UUID(archive.key.split("/")[0])
                    yield (
                        home,
                        Found(Thing.ARCHIVE, owner, archive.key, archive.modified_at, archive.committed),
                    )
            except BackendUnreachable as error:
                unreachable.append(f"{home}: {error}")

    async def _remove(
        self,
        removal: Removal,
        everything: Mapping[Found, InstanceBackend | StorageBackend],
        rows: Mapping[UUID, Workspace],
        *,
        orphans: bool,
    ) -> str | None:
        """Remove it and return why not, if so."""
        found, backend = removal.found, everything[removal.found]
        row = rows.get(found.workspace_id)
        # A round may take long. What is needed by now stays.
        latest = await self._store.load([found.workspace_id])
        known = {each.id: each for each in latest.workspaces}
        again = sort_garbage(everything, known, latest.now, grace=self._grace)
        if found not in {each.found for each in (*again.removals, *(_orphans(again) if orphans else ()))}:
            return "It is needed by now."
        home = Home(found.workspace_id, row.spec.home_store_key if row else "")
        try:
            if isinstance(backend, InstanceBackend):
                await self._platforms.instances[backend].delete(found.workspace_id)
            elif found.thing is Thing.VOLUME:
                await self._platforms.storage[backend].delete_volume(home, found.name)
            else:
                assert found.name is not None
                await self._platforms.storage[backend].delete_archive(found.name)
        except (ActionFailed, BackendUnreachable) as error:
            return str(error)
        log.info("garbage_removed", thing=found.thing, workspace_id=str(found.workspace_id), name=found.name)
        return None


def _orphans(result: Sorted) -> tuple[Removal, ...]:
    return tuple(Removal(found, "The database does not know its workspace.") for found in result.unknown)
