"""The ways into ports of workspaces: who may enter one, what leads there, and what of its traffic is use."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from codehub.core.visibility import SharedPort, Visibility, visibility_at
from codehub.core.workspace import Workspace
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.shared_ports import SharedPorts
from codehub.proxy.engine.runtime import DialAddress
from codehub.proxy.engine.targets import Monitor


class PortAddress(DialAddress, Protocol):
    """What leads to a port."""

    @property
    def refusal(self) -> ActionFailed | BackendUnreachable | None:
        """Why the last dial came to nothing, if it did."""


@dataclass(frozen=True, slots=True)
class PortWays:
    shared: SharedPorts
    ceiling: Visibility
    address_of: Callable[[Workspace, int], PortAddress | None]
    """None: nothing leads into this workspace from here."""
    monitor_of: Callable[[Workspace], Monitor | None] = lambda _workspace: None

    async def load(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Mapping[int, SharedPort]]:
        return await self.shared.shared(workspace_ids)

    def visibility(
        self, shares: Mapping[int, SharedPort] | None, port: int, now: datetime | None
    ) -> Visibility:
        """Return who may enter it at this time. While nothing is known it is private."""
        if shares is None or now is None:
            return Visibility.PRIVATE
        return visibility_at(shares.get(port), now, self.ceiling)
