"""Waking a workspace by a visit: however many ask at once, the wish is recorded once."""

import asyncio
from uuid import UUID

import structlog

from codehub.core.amendments import By
from codehub.core.messages import Code, Message
from codehub.core.visit import Visitor
from codehub.ports.store import Ruled
from codehub.ports.system import Tasks
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.policy.entrances import CachedWorkspace
from codehub.service.workspaces import WorkspaceService

log = structlog.get_logger()


class Waker:
    def __init__(self, service: WorkspaceService, *, tasks: Tasks) -> None:
        self._service = service
        self._tasks = tasks
        self._waking: dict[UUID, asyncio.Future[Ruled]] = {}

    async def wake(self, head: RequestHead, cached: CachedWorkspace, person: Visitor) -> Ruled:
        workspace_id = cached.workspace.id
        waking = self._waking.get(workspace_id)
        if waking is None:
            by = By(person, Message(Code.VISITED), head.request_id.decode("ascii"))
            waking = asyncio.get_running_loop().create_future()
            self._waking[workspace_id] = waking
            self._tasks.spawn(self._wish(workspace_id, by, waking), name="wake")
        ruled = await asyncio.shield(waking)
        cached.workspace = ruled.workspace
        return ruled

    async def _wish(self, workspace_id: UUID, by: By, waking: asyncio.Future[Ruled]) -> None:
        try:
            ruled = await self._service.wake(workspace_id, by)
        except Exception as failed:  # noqa: BLE001  # whoever waits for it is told
            waking.set_exception(failed)
            waking.exception()
        else:
            log.info("woken", workspace_id=str(workspace_id), actor=by.actor)
            waking.set_result(ruled)
        finally:
            del self._waking[workspace_id]
