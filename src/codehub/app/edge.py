"""The edge in `codehub up`: where workspaces are, from the stores and the platforms, for the proxy to ask."""

from collections.abc import Collection, Mapping
from uuid import UUID

from codehub.core.progress import Progress
from codehub.core.workspace import InstanceBackend, Workspace
from codehub.ports.instances import InstanceController, Upstream
from codehub.ports.store import ApiStore, ControllerStore, Loaded


class StoredPlaces:
    """Rows from the store, addresses from what the instances' backend sees now."""

    def __init__(
        self,
        rows: ControllerStore,
        api: ApiStore,
        instances: Mapping[InstanceBackend, InstanceController],
    ) -> None:
        self._rows = rows
        self._api = api
        self._instances = instances

    async def look(self, workspace_ids: Collection[UUID]) -> Loaded:
        return await self._rows.load(list(workspace_ids))

    async def upstream(self, workspace: Workspace) -> Upstream | None:
        instances = self._instances.get(workspace.spec.instance_backend)
        return None if instances is None else await instances.resolve_upstream(workspace.id)

    async def progress(self, workspace_id: UUID) -> Progress | None:
        return (await self._api.progress([workspace_id])).get(workspace_id)
