"""Where people find a workspace: at its own origin, where workspaces have one, and always below the hub's."""

from dataclasses import dataclass

from codehub.core.origins import WorkspaceOrigins
from codehub.core.route import entry_of
from codehub.core.workspace import Workspace


@dataclass(frozen=True, slots=True)
class WorkspaceAddresses:
    base_url: str
    origins: WorkspaceOrigins | None

    def url_of(self, workspace: Workspace) -> str:
        """Return the address that people open."""
        if self.origins is None:
            return self.path_url_of(workspace)
        return self.origins.origin_of(workspace.label) + "/"

    def path_url_of(self, workspace: Workspace) -> str:
        """Return the address that is there in every installation; it leads to the other."""
        return self.base_url + entry_of(workspace.id)

    def link_to(self, workspace: Workspace) -> str:
        """Return what a page of the hub links to, by whatever name somebody has opened that."""
        return entry_of(workspace.id) if self.origins is None else self.url_of(workspace)
