"""Instances in memory: they run, become healthy after a while, die when told to, and write into the volume
they were started on.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from uuid import UUID

from codehub.adapters.memory.faults import Faults, no_faults
from codehub.adapters.memory.finalizers import Finalizers
from codehub.adapters.memory.storage import MemoryStorage
from codehub.core.messages import Code, Message
from codehub.core.observation import Instance
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceSpec, TcpUpstream, Upstream
from codehub.ports.storage import Report, ignore_progress
from codehub.ports.system import Clock

_PORT = 8080
_HEALTHY = Instance(running=True, healthy=True)
_NOT_HEALTHY = Instance(running=True, healthy=False)
_DEAD = Instance(running=False, healthy=False, has_ended=True, exit_code=1)
_ENDING = Instance(running=False, healthy=False)
# What should have gone long ago may run all the same: nobody tells.
_ENDING_S_MAX = 30.0
_LOST = Message(Code.NODE_LOST, {"node": "memory"})
_OUT_OF_SIGHT = Instance(running=False, healthy=False, is_out_of_sight=True, why=_LOST)


@dataclass(frozen=True, slots=True)
class MemoryInstance:
    """One instance: what it was started with, when it will be healthy, and whether it still runs."""

    spec: InstanceSpec
    volume_id: str
    ready_at: float
    number: int = 0
    running: bool = True
    sick: bool = False
    ending_since: float | None = None
    """When it was deleted, if it is held: until it is released it may run all the same."""


class MemoryInstances:
    """An InstanceController in memory. A fault point is "instances.<call>.before_effect"
    or "….after_effect", "instances.list" or "instances.status".
    """

    def __init__(
        self,
        storage: MemoryStorage,
        *,
        clock: Clock,
        boot_s: float = 0.0,
        faults: Faults = no_faults,
        by_workspace: dict[UUID, MemoryInstance] | None = None,
    ) -> None:
        """`by_workspace` holds what there is: a simulator gives a dictionary that reports each change."""
        self._storage = storage
        self._clock = clock
        self.boot_s = boot_s
        self._faults = faults
        self._instances: dict[UUID, MemoryInstance] = {} if by_workspace is None else by_workspace
        storage.is_in_use = self._instances.__contains__
        self._listeners: dict[asyncio.Queue[UUID], None] = {}
        self.finalizers = Finalizers()
        self.sends_events = True
        """False: as with Docker, which sends no event of a start."""
        self.started: list[UUID] = []
        self.deleted: list[UUID] = []

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = ignore_progress) -> None:
        del report  # nothing is downloaded
        await self._faults("instances.start.before_effect")
        self._storage.require(spec.workspace_id, volume_id)
        instance = self._instances.get(spec.workspace_id)
        while (
            instance is not None
            and self._is_held(instance)
            and not self._is_wanted(instance, spec, volume_id)
        ):
            await self._end(spec.workspace_id)
            self._storage.require(spec.workspace_id, volume_id)
            instance = self._instances.get(spec.workspace_id)
        if instance is None or not self._is_wanted(instance, spec, volume_id):
            self.started.append(spec.workspace_id)
            self._instances[spec.workspace_id] = MemoryInstance(
                spec, volume_id, self._clock.monotonic() + self.boot_s, len(self.started)
            )
            self._notify(spec.workspace_id)
        await self._faults("instances.start.after_effect")

    async def delete(self, workspace_id: UUID) -> None:
        await self._faults("instances.delete.before_effect")
        if workspace_id in self._instances:
            await self._end(workspace_id)
        await self._faults("instances.delete.after_effect")

    async def status(self, workspace_id: UUID) -> Instance | None:
        await self._faults("instances.status")
        instance = self._instances.get(workspace_id)
        return None if instance is None else self.observe(instance)

    async def list_all(self) -> Mapping[UUID, Instance]:
        await self._faults("instances.list")
        return {workspace_id: self.observe(instance) for workspace_id, instance in self._instances.items()}

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        instance = self._instances.get(workspace_id)
        is_running = instance is not None and self.observe(instance).running
        return TcpUpstream("127.0.0.1", _PORT) if is_running else None

    async def logs(
        self, workspace_id: UUID, *, tail: int = 200, follow: bool = False
    ) -> AsyncIterator[bytes]:
        del follow
        for line in [
            b"started\n"
            for instance in self._instances.values()
            if instance.spec.workspace_id == workspace_id
        ][:tail]:
            yield line

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        queue: asyncio.Queue[UUID] = asyncio.Queue()
        self._listeners[queue] = None

        async def follow() -> AsyncIterator[UUID]:
            while True:
                yield await queue.get()

        try:
            yield follow()
        finally:
            self._listeners.pop(queue, None)

    def write(self, workspace_id: UUID, path: str, content: bytes) -> None:
        """Write as the person in this instance would.

        It reaches the volume it was started on, if that is still there.
        """
        instance = self._instances[workspace_id]
        if instance.running and self._storage.volume_id(workspace_id) == instance.volume_id:
            self._storage.write(workspace_id, path, content)

    @property
    def by_workspace(self) -> Mapping[UUID, MemoryInstance]:
        """Every instance that is there, dead or alive. Calls no fault hook."""
        return self._instances

    def exists(self, workspace_id: UUID) -> bool:
        """Whether there is an instance, dead or alive. Calls no fault hook."""
        return workspace_id in self._instances

    def finish_boots(self) -> None:
        """Make every booting instance ready now."""
        self._instances.update(
            {key: replace(instance, ready_at=0.0) for key, instance in self._instances.items()}
        )

    def kill(self, workspace_id: UUID) -> None:
        """Make the instance die: it exists, but does not run."""
        self._instances[workspace_id] = replace(self._instances[workspace_id], running=False)
        self._notify(workspace_id)

    def sicken(self, workspace_id: UUID, *, sick: bool = True) -> None:
        """Make its health checks fail, or pass again."""
        self._instances[workspace_id] = replace(self._instances[workspace_id], sick=sick)

    def vanish(self, workspace_id: UUID) -> None:
        """Remove the instance, without an event."""
        self._instances.pop(workspace_id, None)

    def hold(self, workspace_id: UUID) -> None:
        """Let what is deleted of it from now on stay, as ending, until it is released."""
        self.finalizers.hold(workspace_id)

    def release(self, workspace_id: UUID) -> None:
        """Let what was deleted meanwhile go."""
        instance = self._instances.get(workspace_id)
        if instance is not None and instance.ending_since is not None:
            self._remove(workspace_id)
        self.finalizers.release(workspace_id)

    def observe(self, known: MemoryInstance) -> Instance:
        """Look at an instance that was listed, maybe a while ago: its health is that of what is there now."""
        if not known.running:
            return _DEAD
        now = self._clock.monotonic()
        if known.ending_since is not None:
            return _ENDING if now - known.ending_since < _ENDING_S_MAX else _OUT_OF_SIGHT
        there = self._instances.get(known.spec.workspace_id)
        is_there = there is not None and there.number == known.number and there.running
        is_healthy = is_there and there is not None and not there.sick and now >= there.ready_at
        return _HEALTHY if is_healthy else _NOT_HEALTHY

    async def _end(self, workspace_id: UUID) -> None:
        """Delete it, and return when it is gone. Who waits gives up after a time; the deletion does not."""
        if workspace_id not in self.finalizers:
            self._remove(workspace_id)
            return
        instance = self._instances[workspace_id]
        if instance.ending_since is None:
            self._instances[workspace_id] = replace(instance, ending_since=self._clock.monotonic())
            self._notify(workspace_id)
        if not await self.finalizers.is_released(workspace_id):
            raise BackendUnreachable(_LOST)

    def _remove(self, workspace_id: UUID) -> None:
        del self._instances[workspace_id]
        self.deleted.append(workspace_id)
        self._notify(workspace_id)

    def _is_held(self, instance: MemoryInstance) -> bool:
        return instance.spec.workspace_id in self.finalizers

    def _is_wanted(self, instance: MemoryInstance, spec: InstanceSpec, volume_id: str) -> bool:
        return (
            instance.running
            and not instance.sick
            and instance.ending_since is None
            and instance.spec == spec
            and instance.volume_id == volume_id
        )

    def _notify(self, workspace_id: UUID) -> None:
        for queue in self._listeners if self.sends_events else ():
            queue.put_nowait(workspace_id)
