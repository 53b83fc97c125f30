"""A whole installation in this process: everything that `codehub up`
runs but the web server, on whatever the settings name.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from tests.support.patience import PATIENCE_S

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.control import control, make_service
from codehub.app.database import Stores, database, stores
from codehub.app.open_platform import open_platform
from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Workspace
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.instances import UnixUpstream
from codehub.service.workspaces import WorkspaceService
from codehub.settings import Settings, load_settings

BY = By("ann", verbatim("the test"))


@dataclass
class Installation:
    settings: Settings
    stored: Stores
    backends: Backends
    service: WorkspaceService

    async def arrives(self, workspace_id: UUID, phase: Phase) -> Workspace:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                row = await self.stored.api.get(workspace_id)
                assert row.status.error_info is None or not row.status.error_info.is_terminal, (
                    row.status.error_info
                )
                if row.status.phase is phase and row.status.operation is Operation.NONE:
                    return row
                await asyncio.sleep(0.05)

    async def fails(self, workspace_id: UUID) -> Workspace:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                row = await self.stored.api.get(workspace_id)
                if row.status.phase is Phase.ERROR:
                    return row
                await asyncio.sleep(0.05)

    async def wish(self, workspace_id: UUID, wanted: DesiredState) -> Workspace:
        await self.service.set_wish(workspace_id, wanted, BY)
        return await self.arrives(workspace_id, Phase(wanted.value))

    async def answers(self, workspace_id: UUID, path: str) -> int:
        """Ask the IDE, as the proxy would, and return the status of its answer."""
        instances = next(iter(self.backends.instances.values()))
        upstream = await instances.resolve_upstream(workspace_id)
        assert upstream is not None
        uds = str(upstream.path) if isinstance(upstream, UnixUpstream) else None
        base = (
            "http://ide" if isinstance(upstream, UnixUpstream) else f"http://{upstream.host}:{upstream.port}"
        )
        transport = httpx.AsyncHTTPTransport(uds=uds)
        async with httpx.AsyncClient(transport=transport, base_url=base, timeout=PATIENCE_S) as client:
            return (await client.get(path)).status_code


@asynccontextmanager
async def installed(data_dir: Path, **changes: Any) -> AsyncIterator[Installation]:
    settings = load_settings(data_dir=data_dir, idle_period_seconds=1, **changes)
    system = System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    async with AsyncExitStack() as stack:
        connect_args = await stack.enter_async_context(database(settings, system))
        stored = await stack.enter_async_context(stores(connect_args, system, settings.redis_url))
        platform = await stack.enter_async_context(open_platform(settings, stored, system, stops=True))
        await stack.enter_async_context(control(settings, stored, platform.backends, system))
        yield Installation(settings, stored, platform.backends, make_service(settings, stored))
