"""The platforms that the contract of a way into instances is proved on."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID

from tests.support.instances import InstanceWorld, LocalWorld, MemoryWorld, local_world
from tests.support.programs import MEMORY_PROGRAMS, program

from codehub.adapters.local.instance_access import LocalInstanceAccess
from codehub.adapters.memory.instance_access import MemoryInstanceAccess
from codehub.ports.instance_access import InstanceAccess


class AccessWorld(InstanceWorld, Protocol):
    """One platform. To join the contract, make one of these and name it in the fixture."""

    @property
    def access(self) -> InstanceAccess: ...

    @property
    def has_loopback(self) -> bool:
        """Whether an instance has a loopback of its own."""

    def program(self, *call: object) -> tuple[str, ...]:
        """Return the argv of a program of tests/support/programs.py."""

    def uid_of(self, workspace_id: UUID) -> int:
        """Return the uid that a workspace's commands have in there."""


class MemoryAccessWorld(MemoryWorld):
    has_loopback = True

    def __init__(self) -> None:
        super().__init__()
        self.access = MemoryInstanceAccess(self.instances, MEMORY_PROGRAMS)

    def program(self, *call: object) -> tuple[str, ...]:
        return tuple(map(str, call))

    def uid_of(self, workspace_id: UUID) -> int:
        del workspace_id
        return 1000


def memory_access_world() -> MemoryAccessWorld:
    return MemoryAccessWorld()


class LocalAccessWorld:
    """A local world, and the way in."""

    def __init__(self, world: LocalWorld) -> None:
        self.world = world
        self.instances = world.instances
        self.access = LocalInstanceAccess(world.instances)
        self.make_volume, self.identity = world.make_volume, world.identity
        self.fall_ill, self.die = world.fall_ill, world.die

    @property
    def has_loopback(self) -> bool:
        return not self.instances.shares_network

    def program(self, *call: object) -> tuple[str, ...]:
        name, *arguments = call
        return program(str(name), *arguments)

    def uid_of(self, workspace_id: UUID) -> int:
        uid = self.instances.uid_of(workspace_id)
        return os.geteuid() if uid is None else uid


@asynccontextmanager
async def local_access_world(*, sandbox: bool = True) -> AsyncIterator[LocalAccessWorld]:
    async with local_world(sandbox=sandbox) as world:
        yield LocalAccessWorld(world)
