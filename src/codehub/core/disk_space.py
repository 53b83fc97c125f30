"""Room on a disk: what is free and what homes use in; whether anything
may start, who grows, and what is worth noting out. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from codehub.core.messages import Code, Message

_GROWTH_MB_MIN = 16
_NOTICED_MB = 16
_NOTICED_SHARE = 0.05
_NOTICED_CPU = 0.1


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """What is free where homes lie, and below what nothing starts."""

    free_mb: int
    floor_mb: int

    @property
    def is_short(self) -> bool:
        return self.free_mb < self.floor_mb

    @property
    def message(self) -> Message:
        return Message(Code.NO_ROOM, {"free": self.free_mb, "floor": self.floor_mb})


@dataclass(frozen=True, slots=True)
class Usage:
    """What a workspace used when it was last measured. None: not measured, or it can't be told here."""

    memory_mb: int | None
    cpu: float | None
    disk_mb: int | None
    at: datetime


def grown_mb(before: Mapping[UUID, int], now: Mapping[UUID, int]) -> Mapping[UUID, int]:
    """Return which homes have grown since they were measured before,
    and by how much. One that is measured first has not.
    """
    grown = {
        workspace_id: used - before[workspace_id]
        for workspace_id, used in now.items()
        if workspace_id in before
    }
    return {workspace_id: more for workspace_id, more in grown.items() if more >= _GROWTH_MB_MIN}


def is_noticeable(before: Usage | None, now: Usage) -> bool:
    """Whether it is worth a write: what people would not see is not written again (contract 14)."""
    if before is None:
        return True
    pairs = ((before.memory_mb, now.memory_mb), (before.disk_mb, now.disk_mb))
    return any(_differ(earlier, later) for earlier, later in pairs) or _differ_in_cpu(before.cpu, now.cpu)


def _differ(before: int | None, now: int | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(before - now) >= max(_NOTICED_MB, _NOTICED_SHARE * max(before, now))


def _differ_in_cpu(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(before - now) >= _NOTICED_CPU
