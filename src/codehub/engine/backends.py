"""The backends that this process can reach: one adapter per backend that workspaces may name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from codehub.core.ceilings import Ceilings
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.ports.disks import Disk, Gauge
from codehub.ports.instance_access import InstanceAccess
from codehub.ports.instances import InstanceController
from codehub.ports.storage import StorageProvider

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Backends:
    """A workspace whose backend is none of them can't be looked at
    from here: an outage, as far as this process knows.
    """

    instances: Mapping[InstanceBackend, InstanceController]
    storage: Mapping[StorageBackend, StorageProvider]
    ceilings: Ceilings = field(default_factory=Ceilings)
    """What a start gives at most, and which images it runs: rows may be older than these."""
    disks: Mapping[StorageBackend, Disk] = field(default_factory=dict)
    """What the homes of each backend lie on, where that can be seen."""
    gauges: Mapping[InstanceBackend, Gauge] = field(default_factory=dict)
    accesses: Mapping[InstanceBackend, InstanceAccess] = field(default_factory=dict)
    """The ways into instances."""
    environment_of: Callable[[Workspace], Mapping[str, str]] = lambda _workspace: {}
    """What an instance has in its environment because of where it is reached."""


def distinct(backends: Mapping[Any, A]) -> Sequence[A]:
    """Return each adapter once, however many backends it serves."""
    return list({id(adapter): adapter for adapter in backends.values()}.values())
