"""The platforms that this process can reach: one adapter per backend that workspaces may name."""

from collections.abc import Mapping
from dataclasses import dataclass

from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.ports.instances import InstanceController
from codehub.ports.storage import StorageProvider


@dataclass(frozen=True, slots=True)
class Platforms:
    """A workspace whose backend is not among them can't be looked at from here: an outage, as far as this process knows."""

    instances: Mapping[InstanceBackend, InstanceController]
    storage: Mapping[StorageBackend, StorageProvider]
