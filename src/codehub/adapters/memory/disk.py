"""A disk in memory: its free space and the sizes of homes are set by the test."""

from typing import TYPE_CHECKING

from codehub.core.disk_space import DiskSpace
from codehub.ports.storage import Home

if TYPE_CHECKING:
    from uuid import UUID


class MemoryDisk:
    def __init__(self, *, free_mb: int = 100_000, floor_mb: int = 1024) -> None:
        self.free_mb = free_mb
        self.floor_mb = floor_mb
        self.homes_mb: dict[UUID, int] = {}
        self.bound_mb: dict[UUID, int] = {}

    async def room(self) -> DiskSpace:
        return DiskSpace(self.free_mb, self.floor_mb)

    async def bind(self, home: Home, most_mb: int) -> None:
        self.bound_mb[home.workspace_id] = most_mb

    async def used_mb(self, home: Home) -> int | None:
        return self.homes_mb.get(home.workspace_id)
