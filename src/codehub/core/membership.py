"""Who handles which workspace: the live controllers and a workspace
in, one of them out. The same everywhere, without talking.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from codehub.core.workspace import InstanceBackend, Workspace


@dataclass(frozen=True, slots=True)
class Member:
    """A controller that lives: where it runs, and the backends it can reach."""

    id: UUID
    host: str
    backends: frozenset[str]

    def reaches(self, workspace: Workspace) -> bool:
        return {workspace.spec.instance_backend, workspace.spec.storage_backend} <= self.backends


Members = Mapping[UUID, Member]


def handler_of(workspace: Workspace, members: Members) -> UUID | None:
    """Return who handles it, by rendezvous hashing: when a member
    comes or goes, only what it handles changes hands.
    """
    able = [member.id for member in members.values() if member.reaches(workspace)]
    return max(able, key=lambda member: _weight(member, workspace.id), default=None)


def machine_of(backend: InstanceBackend, members: Collection[Member], *, host: str) -> str | None:
    """Return the other machine that this backend belongs to, if it is one that belongs to a single
    machine.
    """
    if backend is not InstanceBackend.LOCAL_PROCESS:
        return None
    others = (member.host for member in members if backend in member.backends and member.host != host)
    return next(others, None)


def _weight(member: UUID, workspace: UUID) -> bytes:
    return blake2b(member.bytes + workspace.bytes, digest_size=8).digest()
