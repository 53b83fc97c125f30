"""Where it is kept which ports of workspaces more than their owners may enter."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from codehub.core.requests import Refused
from codehub.core.shared_ports import ShareRecord
from codehub.core.visibility import SharedPort
from codehub.core.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ShareRuled:
    """What was ruled, and the workspace."""

    ruling: SharedPort | Refused
    workspace: Workspace


ShareRule = Callable[[Workspace, Mapping[int, SharedPort], datetime], ShareRecord]


class SharedPorts(Protocol):
    async def shared(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Mapping[int, SharedPort]]:
        """Return the ports that are shared now, by the database's time: of workspaces that have any."""

    async def amend(self, workspace_id: UUID, rule: ShareRule) -> ShareRuled:
        """Lock the workspace, apply `rule` to what is shared, and store what it accepts with its events.

        Hints follow the commit. Raises UnknownWorkspace.
        """
