"""A command or a port goes in, a way into a container comes out. Refuses containers of others."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from codehub.adapters.docker.containers import Container, container_name, parse_inspection
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.exec_session import exec_session
from codehub.adapters.docker.instances import ROLE_INSTANCE
from codehub.adapters.docker.relay import Relays
from codehub.adapters.listeners import LOOK, look
from codehub.ports.instance_access import (
    ByteStream,
    Command,
    CommandSession,
    Listener,
    NothingListens,
    NotRunning,
)
from codehub.ports.system import Clock


class DockerInstanceAccess:
    """The InstanceAccess of the local-docker backend. Until `close`, on one event loop."""

    def __init__(self, engine: Engine, *, helper_image: str, clock: Clock) -> None:
        self._engine = engine
        self._relays = Relays(engine, helper_image, clock)

    async def close(self) -> None:
        await self._relays.close()

    @asynccontextmanager
    async def exec(self, workspace_id: UUID, command: Command) -> AsyncIterator[CommandSession]:
        container = await self._require_running(workspace_id)
        async with exec_session(self._engine, container.id, command) as session:
            yield session

    @asynccontextmanager
    async def relay(self, workspace_id: UUID, port: int) -> AsyncIterator[ByteStream]:
        container = await self._require_running(workspace_id)
        if port == container.ide_port:
            raise NothingListens(port)
        async with self._relays.relay(workspace_id, container.id, port) as stream:
            yield stream

    async def listening(self, workspace_id: UUID) -> Sequence[Listener]:
        container = await self._require_running(workspace_id)
        async with exec_session(self._engine, container.id, LOOK) as session:
            return await look(session, ide_port=container.ide_port)

    async def _require_running(self, workspace_id: UUID) -> Container:
        inspection = await self._engine.find(f"containers/{container_name(workspace_id)}/json")
        container = None if inspection is None else parse_inspection(inspection)
        if (
            container is None
            or not container.running
            or not self._engine.owns(container.labels, ROLE_INSTANCE)
        ):
            raise NotRunning
        return container
