"""Time to live: whoever has been idle for long enough gets another wish, through the same service as everybody's."""

from codehub.core.idle import UNUSED
from codehub.core.requests import Accepted
from codehub.ports.store import ControllerStore
from codehub.service.workspaces import By, WorkspaceService

_BY = By("ttl", UNUSED)


async def apply_ttl(store: ControllerStore, service: WorkspaceService) -> int:
    """Run one round and return how many wishes it changed. Whoever is busy just waits for the next round."""
    idle = await store.load_idle()
    ruled = [await service.let_sleep(workspace.id, _BY) for workspace in idle.workspaces]
    return sum(isinstance(found.ruling, Accepted) for found in ruled)
