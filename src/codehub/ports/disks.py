"""Disks of homes: their free space, and what each home uses."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from codehub.core.disk_space import DiskSpace
from codehub.ports.storage import Home


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What an instance has in memory now, and what it takes of processors: a platform tells one or the
    other.
    """

    memory_mb: int
    cpu_s: float | None = None
    """The time that it has taken so far."""
    cpu: float | None = None
    """How many it has kept busy lately."""


class Disk(Protocol):
    async def room(self) -> DiskSpace | None:
        """Return what is free where homes lie, or None where that can't be seen from here.

        Cheap: asked before every start.
        """

    async def bind(self, home: Home, most_mb: int) -> None:
        """Limit the size of this home, where the filesystem can. Elsewhere its use is only measured."""

    async def used_mb(self, home: Home) -> int | None:
        """Return what this home uses, or None if that could not be told in time."""


class Gauge(Protocol):
    """An InstanceController that can also measure its instances."""

    async def spent(self, workspace_id: UUID) -> ResourceUse | None:
        """Return what this instance takes, or None if it does not run or nobody counts."""


class Reserve(Protocol):
    """Room that is kept for the database, until it needs it."""

    async def hold(self) -> None:
        """Take it, if it is not held and there is plenty."""

    async def release(self) -> bool:
        """Give it to the database, and say whether there was any."""
