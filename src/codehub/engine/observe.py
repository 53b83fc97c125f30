"""Observe: backends in, what is there out. One list per backend, never
one call per workspace; a list that fails is blindness.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import structlog

from codehub.core.archives import CommittedArchive
from codehub.core.judge import needs_archive_look, needs_archives_look
from codehub.core.observation import Archive, Instance, Observation, Unmarked, Unobserved, Volume
from codehub.core.operations import Operation
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.engine.backends import Backends, distinct
from codehub.engine.workspace_cache import Pair
from codehub.ports.backends import ActionFailed, BackendUnreachable, MarkMissing
from codehub.ports.storage import StorageProvider
from codehub.ports.system import Clock

log = structlog.get_logger()
T = TypeVar("T")
K = TypeVar("K")
A = TypeVar("A")

_LOOK_S_MAX = 10.0
_CHECK_INTERVAL_S_MIN = 1.0
_HEADS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Looks:
    """What the lists said. A backend that this process does not have can't be reached from here."""

    instances: Mapping[InstanceBackend, Mapping[UUID, Instance] | Unobserved]
    volumes: Mapping[StorageBackend, Mapping[UUID, Volume] | Unobserved | Unmarked]

    def of(self, workspace: Workspace, archive: "ArchiveLook") -> Observation:
        return Observation(
            self.instance(workspace),
            self.volume(workspace),
            archive.archive,
            archive.archives_left,
            archive.archives,
        )

    def pair(self, workspace: Workspace) -> Pair:
        return self.instance(workspace), self.volume(workspace)

    def instance(self, workspace: Workspace) -> Instance | Unobserved | None:
        return _pick(
            self.instances.get(workspace.spec.instance_backend, Unobserved.UNREACHABLE), workspace.id
        )

    def volume(self, workspace: Workspace) -> Volume | Unobserved | Unmarked | None:
        look = self.volumes.get(workspace.spec.storage_backend, Unobserved.UNREACHABLE)
        return look if isinstance(look, Unmarked) else _pick(look, workspace.id)


@dataclass(frozen=True, slots=True)
class CloseLooks:
    """What a look at single instances said. Of anything else it says nothing."""

    instances: Mapping[UUID, Instance | Unobserved | None]

    def of(self, workspace: Workspace, archive: "ArchiveLook") -> Observation:
        instance = self.instances.get(workspace.id, Unobserved.NOT_LOOKED)
        return Observation(
            instance, Unobserved.NOT_LOOKED, archive.archive, archive.archives_left, archive.archives
        )


@dataclass(frozen=True, slots=True)
class ArchiveLook:
    """What was seen of a workspace's archive, and of all its archives."""

    archive: Archive | Unobserved | None = Unobserved.NOT_LOOKED
    archives_left: bool | Unobserved = Unobserved.NOT_LOOKED
    archives: tuple[CommittedArchive, ...] | Unobserved = Unobserved.NOT_LOOKED


def _pick(look: Mapping[UUID, T] | Unobserved, workspace_id: UUID) -> T | Unobserved | None:
    return look if isinstance(look, Unobserved) else look.get(workspace_id)


class Observer:
    """Looks at the backends, and counts how often in a row an instance's health check failed."""

    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._backends = backends
        self._hosts = distinct(backends.instances)
        self._disks = distinct(backends.storage)
        self._clock = clock
        self._failing: dict[UUID, tuple[int, float]] = {}
        # Adapters whose archives have kept this pass waiting until its patience was over.
        self._silent: set[int] = set()

    async def look(self) -> Looks:
        """Look at everything, all backends side by side. A pass begins with this or with `look_closely`."""
        self._silent.clear()
        hosts, disks = self._hosts, self._disks
        looks: list[Coroutine[Any, Any, Any]] = [
            *(_look("instances", host.list_all) for host in hosts),
            *(_look("volumes", partial(_volumes, disk)) for disk in disks),
        ]
        results = await _side_by_side(looks)
        instances, volumes = results[: len(hosts)], results[len(hosts) :]
        return Looks(
            _by_backend(self._backends.instances, hosts, self._count_all(instances)),
            _by_backend(self._backends.storage, disks, volumes),
        )

    async def look_closely(self, workspaces: Collection[Workspace]) -> CloseLooks:
        """Look at these workspaces' instances one by one, and at
        nothing else: for those that are about to be ready.
        """
        self._silent.clear()
        looks = await _side_by_side([self.look_at_instance(workspace) for workspace in workspaces])
        return CloseLooks({workspace.id: look for workspace, look in zip(workspaces, looks, strict=True)})

    async def look_at_instance(self, workspace: Workspace) -> Instance | Unobserved | None:
        controller = self._backends.instances.get(workspace.spec.instance_backend)
        if controller is None:
            return Unobserved.UNREACHABLE
        instance = await _look("instance", lambda: controller.status(workspace.id))
        return self._count(workspace.id, instance) if isinstance(instance, Instance) else instance

    async def look_at_archives(self, workspaces: Collection[Workspace]) -> Mapping[UUID, ArchiveLook]:
        """Look at the archives of those for whom they matter now, a
        few at a time; the rest is swept now and then.

        A store that does not answer costs the pass one wait: with it
        the rest of its rows is blind, and no other's.
        """
        chosen = [workspace for workspace in workspaces if _concerns_archive(workspace)]
        if not chosen:
            return {}
        gates: dict[int, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_HEADS_AT_ONCE))

        async def look_in_turn(workspace: Workspace) -> ArchiveLook:
            storage = self._backends.storage.get(workspace.spec.storage_backend)
            if storage is None:
                return ArchiveLook(Unobserved.UNREACHABLE)
            async with gates[id(storage)]:
                return await self._look_at_archive(storage, workspace)

        looks = await _side_by_side([look_in_turn(workspace) for workspace in chosen])
        return {workspace.id: look for workspace, look in zip(chosen, looks, strict=True)}

    async def sweep_archives(self, workspaces: Iterable[Workspace]) -> Mapping[UUID, ArchiveLook]:
        """Look at every archive by one list per backend. Says nothing of
        a backend that can't be asked: the next sweep will.
        """

        async def list_archives(storage: StorageProvider) -> Mapping[str, Archive] | Unobserved:
            listed = await self._ask(storage, "archives", storage.list_archives)
            if isinstance(listed, Unobserved):
                return listed
            return {archive.key: Archive(archive.committed) for archive in listed}

        lists = await _side_by_side([list_archives(disk) for disk in self._disks])
        swept = _by_backend(self._backends.storage, self._disks, lists)
        looks: dict[UUID, ArchiveLook] = {}
        for workspace in workspaces:
            listed = swept.get(workspace.spec.storage_backend, Unobserved.UNREACHABLE)
            if workspace.status.archive_key is not None and not isinstance(listed, Unobserved):
                looks[workspace.id] = ArchiveLook(listed.get(workspace.status.archive_key))
        return looks

    async def _look_at_archive(self, storage: StorageProvider, workspace: Workspace) -> ArchiveLook:
        key = workspace.status.archive_key
        archive: Archive | Unobserved | None = Unobserved.NOT_LOOKED
        if key is not None:
            archive = await self._ask(storage, "archive", lambda: storage.head_archive(key))
        archives_left: bool | Unobserved = Unobserved.NOT_LOOKED
        if workspace.status.operation is Operation.DELETING:
            archives_left = await self._ask(storage, "archives", lambda: storage.has_archives(workspace.id))
        archives: tuple[CommittedArchive, ...] | Unobserved = Unobserved.NOT_LOOKED
        if needs_archives_look(workspace):
            archives = await self._ask(storage, "archives", lambda: committed_archives(storage, workspace.id))
        return ArchiveLook(archive, archives_left, archives)

    async def _ask(
        self, storage: StorageProvider, what: str, ask: Callable[[], Awaitable[T]]
    ) -> T | Unobserved:
        """Look at archives, unless their store has kept this pass waiting already."""
        if id(storage) in self._silent:
            return Unobserved.UNREACHABLE
        return await _look(what, ask, gave_up=lambda: self._silent.add(id(storage)))

    def _count_all(
        self, lists: Sequence[Mapping[UUID, Instance] | Unobserved]
    ) -> Sequence[Mapping[UUID, Instance] | Unobserved]:
        """Count on every host. Who is on none of them is gone, unless one of them could not be looked at."""
        listed = [host_list for host_list in lists if not isinstance(host_list, Unobserved)]
        if len(listed) == len(lists):
            for gone in self._failing.keys() - set[UUID]().union(*listed):
                del self._failing[gone]
        return [
            host_list
            if isinstance(host_list, Unobserved)
            else {each: self._count(each, observation) for each, observation in host_list.items()}
            for host_list in lists
        ]

    def _count(self, workspace_id: UUID, instance: Instance) -> Instance:
        """Count a failed check, but not two in the same second: a burst of looks is one check."""
        if instance.healthy or not instance.running:
            self._failing.pop(workspace_id, None)
            return instance
        now = self._clock.monotonic()
        count, last = self._failing.get(workspace_id, (0, now - _CHECK_INTERVAL_S_MIN))
        if now - last >= _CHECK_INTERVAL_S_MIN:
            count, last = count + 1, now
        self._failing[workspace_id] = (count, last)
        return replace(instance, failed_checks=count)


async def committed_archives(storage: StorageProvider, workspace_id: UUID) -> tuple[CommittedArchive, ...]:
    return tuple(
        CommittedArchive(archive.key, archive.committed_at, archive.is_empty, archive.digest)
        for archive in await storage.list_archives_of(workspace_id)
        if archive.committed
    )


def _concerns_archive(workspace: Workspace) -> bool:
    return needs_archive_look(workspace) or workspace.status.operation is Operation.DELETING


async def _volumes(storage: StorageProvider) -> Mapping[UUID, Volume] | Unmarked:
    try:
        return await storage.list_volumes()
    except MarkMissing as missing:
        log.warning("mark_missing", reason=str(missing))
        return Unmarked(missing.mark)


async def _look(
    what: str, ask: Callable[[], Awaitable[T]], *, gave_up: Callable[[], None] = lambda: None
) -> T | Unobserved:
    patience = asyncio.timeout(_LOOK_S_MAX)
    try:
        async with patience:
            return await ask()
    except (BackendUnreachable, ActionFailed, TimeoutError) as error:
        if patience.expired():
            gave_up()
        log.warning("look_failed", what=what, reason=str(error) or "no answer in time")
    except Exception:  # an adapter's mistake blinds us to its backend, not to the others
        log.exception("look_failed_unexpectedly", what=what)
    return Unobserved.UNREACHABLE


async def _side_by_side(looks: Sequence[Coroutine[Any, Any, T]]) -> Sequence[T]:
    """Look at all of these at once. A single look, which is the usual case, needs no task of its own."""
    return [await looks[0]] if len(looks) == 1 else await asyncio.gather(*looks)


def _by_backend(backends: Mapping[K, A], adapters: Sequence[A], results: Sequence[T]) -> Mapping[K, T]:
    of = {id(adapter): result for adapter, result in zip(adapters, results, strict=True)}
    return {backend: of[id(adapter)] for backend, adapter in backends.items()}
