"""Opens the platform: what runs workspaces and holds their homes. Refuses a backend that does not exist."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from codehub.app.archives import find_unmarked
from codehub.app.database import ApiStores
from codehub.app.errors import CannotStart
from codehub.core.observation import Volume
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.engine.platforms import Platforms
from codehub.engine.system import System
from codehub.ports.storage import StorageProvider
from codehub.settings import Settings


class HomeStore(StorageProvider, Protocol):
    """A store of homes: it can be marked as this installation's, and listed even without its mark."""

    async def prepare(self) -> None:
        """Mark it as this installation's."""

    async def list_unmarked(self) -> Mapping[UUID, Volume]:
        """Return all volumes, mark or not."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The backends, the default IDE, every IDE there is, and what people must know about this machine."""

    backends: Platforms
    ide: str
    ides: tuple[str, ...]
    home_stores: Mapping[StorageBackend, HomeStore]
    warnings: tuple[str, ...] = ()


@asynccontextmanager
async def platform(
    settings: Settings, stores: ApiStores, system: System, *, stops: bool
) -> AsyncIterator[Platform]:
    """Yield the platform. `stops`: end its instances at the end, if they can't outlive it; their wishes stay,
    and the next start brings them back.
    """
    marks = find_unmarked(await stores.api.places_in_use())
    match settings.instance_backend:
        case InstanceBackend.LOCAL_DOCKER:
            from codehub.app.docker import docker_platform  # noqa: PLC0415  # not imported without Docker

            opened = docker_platform(settings, stores, system, marks)
        case InstanceBackend.LOCAL_PROCESS:
            from codehub.app.local import local_platform  # noqa: PLC0415

            opened = local_platform(settings, stores, system, marks, stops=stops)
        case _:
            raise CannotStart(
                f"CODEHUB_INSTANCE_BACKEND={settings.instance_backend} is not there yet: set it to local-process or local-docker"
            )
    async with opened as host_platform:
        yield host_platform
