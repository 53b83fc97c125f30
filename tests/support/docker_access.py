"""A Docker world, and the way in. Apart from the others: not everybody can import a Docker client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from tests.support.docker import BASE, TestEngine
from tests.support.docker_world import DockerWorld, docker_world
from tests.support.programs import program

from codehub.adapters.docker.instance_access import DockerInstanceAccess
from codehub.adapters.system.machine import SystemClock


class DockerAccessWorld:
    has_loopback = True

    def __init__(self, world: DockerWorld) -> None:
        self.world = world
        self.instances = world.instances
        self.access = DockerInstanceAccess(world.connection, helper_image=BASE, clock=SystemClock())
        self.make_volume, self.identity = world.make_volume, world.identity
        self.fall_ill, self.die = world.fall_ill, world.die

    def program(self, *call: object) -> tuple[str, ...]:
        name, *arguments = call
        return program(str(name), *arguments)

    def uid_of(self, workspace_id: UUID) -> int:
        del workspace_id
        return 1000


@asynccontextmanager
async def docker_access_world(engine: TestEngine) -> AsyncIterator[DockerAccessWorld]:
    async with docker_world(engine) as world:
        access_world = DockerAccessWorld(world)
        try:
            yield access_world
        finally:
            await access_world.access.close()
