"""Lookups of the proxy: the people of credentials, and workspaces, many at once, so that requests share
queries.
"""

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

from codehub.core.progress import Progress
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.instances import Upstream
from codehub.ports.store import LoadedWorkspaces


class Credential(NamedTuple):
    """What a request shows: the value of the session's or a door's cookie, or a token."""

    kind: Literal["session", "token", "door"]
    secret: bytes


class CredentialLookup(Protocol):
    async def people(self, credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
        """Return whom these belong to, those of them that are valid now. Raises StoreUnavailable."""

    async def note_use(self, credentials: Collection[Credential]) -> None:
        """Note that these are in use: a session then lasts anew. Written at most once an hour for each.

        Raises StoreUnavailable.
        """


class WorkspaceLocator(Protocol):
    async def look(self, workspace_ids: Collection[UUID]) -> LoadedWorkspaces:
        """Return these workspaces, those of them that exist. Raises StoreUnavailable."""

    async def upstream(self, workspace: Workspace) -> Upstream | None:
        """Return where its running instance listens, from what is observed now. Raises BackendUnreachable."""

    async def progress(self, workspace_id: UUID) -> Progress | None:
        """Return how far its operation is, if it moves bytes."""
