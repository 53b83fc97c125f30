"""The platforms that this process can reach: one adapter per backend that workspaces may name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from codehub.core.ceilings import Ceilings
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.ports.disks import Disk, Gauge
from codehub.ports.instances import InstanceController
from codehub.ports.storage import StorageProvider

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Platforms:
    """A workspace whose backend is not among them can't be looked at from here: an outage, as far as this process knows."""

    instances: Mapping[InstanceBackend, InstanceController]
    storage: Mapping[StorageBackend, StorageProvider]
    ceilings: Ceilings = field(default_factory=Ceilings)
    """What a start gives at most, and which images it runs: rows may be older than these."""
    disks: Mapping[StorageBackend, Disk] = field(default_factory=dict)
    """What the homes of each backend lie on, where that can be seen."""
    gauges: Mapping[InstanceBackend, Gauge] = field(default_factory=dict)


def distinct(backends: Mapping[Any, A]) -> Sequence[A]:
    """Return each adapter once, however many backends it serves."""
    return list({id(adapter): adapter for adapter in backends.values()}.values())
