"""Instances: what runs a workspace's IDE. All calls are idempotent: already done is success."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

from codehub.core.observation import Instance
from codehub.core.workspace import Resources, StorageBackend
from codehub.ports.storage import Report, ignore_progress


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """What is to run. An instance that exists but no longer matches it is made anew."""

    workspace_id: UUID
    storage_backend: StorageBackend
    """What holds its home."""
    home_store_key: str
    image_ref: str
    ide: str
    resources: Resources
    environment: tuple[tuple[str, str], ...] = ()
    """What its IDE has in its environment beside what each has."""


@dataclass(frozen=True, slots=True)
class TcpUpstream:
    """Where an instance listens: a port on this machine or in the instances' network."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class UnixUpstream:
    """Where an instance listens: a socket that only its sandbox and codehub see."""

    path: Path


Upstream = TcpUpstream | UnixUpstream


class InstanceController(Protocol):
    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = ignore_progress) -> None:
        """Run it on this very volume, and never make one. Returns when it was told to run, not when it is
        ready.

        An instance that does not match the spec, or is unhealthy for good, is replaced. Refuses any other
        volume. What has to be fetched first reports how far it is (stage "pull").
        """

    async def delete(self, workspace_id: UUID) -> None:
        """Return when no instance of this workspace is left."""

    async def status(self, workspace_id: UUID) -> Instance | None:
        """Look at one instance, its health included."""

    async def list_all(self) -> Mapping[UUID, Instance]:
        """Look at all instances of this installation, health included.

        Complete, or raises BackendUnreachable.
        """

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        """Return where the running instance listens, from what is observed alone."""

    def logs(self, workspace_id: UUID, *, tail: int = 200, follow: bool = False) -> AsyncIterator[bytes]:
        """Yield the instance's output, oldest first."""

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[UUID]]:
        """Yield workspaces whose instance changed. Hints: any of them may be missing."""
