"""An opened platform: what runs workspaces and holds their homes, as the rest of the wiring is given it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from codehub.core.observation import Volume
from codehub.core.workspace import StorageBackend
from codehub.engine.backends import Backends
from codehub.ports.storage import StorageProvider


class HomeStore(StorageProvider, Protocol):
    """A store of homes: it can be marked as this installation's, and listed even without its mark."""

    async def prepare(self) -> None:
        """Mark it as this installation's."""

    async def list_unmarked(self) -> Mapping[UUID, Volume]:
        """Return all volumes, mark or not."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The backends, the default IDE, every IDE there is, and what people must know about this machine."""

    backends: Backends
    ide: str
    ides: tuple[str, ...]
    home_stores: Mapping[StorageBackend, HomeStore]
    warnings: tuple[str, ...] = ()
