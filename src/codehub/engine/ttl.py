"""Time to live: whoever has been idle for long enough gets
another wish, through the same service as everybody's.
"""

from dataclasses import dataclass

from codehub.core.amendments import By
from codehub.core.messages import Code, Message
from codehub.core.requests import Accepted
from codehub.ports.store import ControllerStore
from codehub.service.workspaces import WorkspaceService

_BY = By("ttl", Message(Code.UNUSED))


@dataclass(frozen=True, slots=True)
class TtlManager:
    store: ControllerStore
    service: WorkspaceService

    async def run_round(self) -> int:
        """Run one round and return how many wishes it changed. Whoever is busy just waits for the next
        round.
        """
        idle = await self.store.load_idle()
        answers = [await self.service.let_sleep(workspace.id, _BY) for workspace in idle.workspaces]
        return sum(isinstance(answer.ruling, Accepted) for answer in answers)
