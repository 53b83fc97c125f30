"""An installation on a Docker engine, as the contract of instances wants it.
Apart from the others: not everybody can import a Docker client.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from tests.support.docker import BASE, TestEngine
from tests.support.instances import become_healthy, new_spec, post_to

from codehub.adapters.docker.containers import Mount
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.instances import DockerInstances
from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home


class DockerWorld:
    """An installation on a Docker engine: homes are volumes, instances are containers."""

    def __init__(self, engine: TestEngine, install_id: str = "") -> None:
        self.engine = engine
        self.install_id = install_id or str(SystemIdentity().new_id())
        self.connection = Engine(engine.url, installation=self.install_id)
        # Its archives are never asked for here.
        archives = ObjectArchives(Objects("file:///nowhere", installation=self.install_id))
        self.storage = DockerStorage(
            self.connection, helper_image=BASE, archives=archives, identity=SystemIdentity()
        )
        self.instances = self.controller()

    def controller(self, **changes: Any) -> DockerInstances:
        """Return another controller of the same instances, as another process would have."""
        return DockerInstances(self.connection, self.home_of, **{"clock": SystemClock(), **changes})

    async def home_of(self, spec: InstanceSpec) -> tuple[Mount, str | None]:
        return await self.storage.locate(spec.workspace_id)

    async def make_volume(self, spec: InstanceSpec) -> str:
        return await self.storage.provision(Home(spec.workspace_id, spec.home_store_key))

    async def run(self, spec: InstanceSpec | None = None) -> UUID:
        """Bring a workspace up on a volume of its own."""
        spec = spec or new_spec()
        await self.instances.start(spec, await self.make_volume(spec))
        await become_healthy(self.instances, spec.workspace_id)
        return spec.workspace_id

    def inspect(self, workspace_id: UUID) -> Any:
        return self.engine.find(f"containers/codehub-ws-{workspace_id}/json")

    async def identity(self, workspace_id: UUID) -> object:
        return self.inspect(workspace_id)["Id"]

    async def fall_ill(self, workspace_id: UUID) -> None:
        await post_to(self.instances, workspace_id, "/ill")

    async def die(self, workspace_id: UUID) -> None:
        await post_to(self.instances, workspace_id, "/die")

    async def inside(self, workspace_id: UUID, command: str) -> str:
        """Run a command as a person in the workspace's terminal would, and return what it says."""
        return await post_to(self.instances, workspace_id, "/run", command)


@asynccontextmanager
async def docker_world(engine: TestEngine) -> AsyncIterator[DockerWorld]:
    world = DockerWorld(engine)
    await world.storage.prepare()
    await world.instances.open()
    try:
        yield world
    finally:
        engine.remove_labelled(world.install_id)
        await world.connection.close()
