"""The whole circle on this machine: real PostgreSQL, a real IDE in its sandbox, a home that comes back byte by byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, SPEC

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.control import control, garbage_collector, make_service
from codehub.app.database import Stores, database, stores
from codehub.app.local import local_platform
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import InstanceBackend, Workspace
from codehub.engine.platforms import Platforms
from codehub.engine.system import System
from codehub.ports.instances import UnixUpstream
from codehub.service.workspaces import By, WorkspaceService
from codehub.settings import Settings, load_settings

BY = By("ann", "the test")
ARRIVES_S_MAX = 60.0


@dataclass
class Installation:
    settings: Settings
    stored: Stores
    platforms: Platforms
    service: WorkspaceService

    async def arrives(self, workspace_id: UUID, phase: Phase) -> Workspace:
        async with asyncio.timeout(ARRIVES_S_MAX):
            while True:
                row = await self.stored.api.get(workspace_id)
                assert row.status.error_info is None or not row.status.error_info.is_terminal, (
                    row.status.error_info
                )
                if row.status.phase is phase and row.status.operation is Operation.NONE:
                    return row
                await asyncio.sleep(0.05)

    async def wish(self, workspace_id: UUID, wanted: DesiredState) -> Workspace:
        await self.service.set_wish(workspace_id, wanted, BY)
        return await self.arrives(workspace_id, Phase(wanted.value))

    async def answers(self, workspace_id: UUID) -> int:
        upstream = await self.platforms.instances[InstanceBackend.LOCAL_PROCESS].resolve_upstream(
            workspace_id
        )
        assert isinstance(upstream, UnixUpstream)
        transport = httpx.AsyncHTTPTransport(uds=str(upstream.path))
        async with httpx.AsyncClient(transport=transport, base_url="http://ide") as client:
            return (await client.get(f"/w/{workspace_id}/api")).status_code


@asynccontextmanager
async def installed(data_dir: Path) -> AsyncIterator[Installation]:
    """Everything that `codehub up` runs but the web server."""
    settings = load_settings(data_dir=data_dir, ide="jupyterlab", idle_period_seconds=1)
    system = System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    async with AsyncExitStack() as stack:
        connect_args = await stack.enter_async_context(database(settings, system))
        stored = await stack.enter_async_context(stores(connect_args, system))
        local = await stack.enter_async_context(local_platform(settings, stored, system, stops=True))
        await stack.enter_async_context(control(settings, stored, local.platforms, system))
        yield Installation(settings, stored, local.platforms, make_service(settings, stored))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def test_a_workspace_goes_round_the_whole_circle_with_a_real_ide(data_dir: Path) -> None:
    workspace_id = SystemIdentity().new_id()
    key = f"users/{OWNER_ID}/workspaces/{workspace_id}/home"
    home = data_dir / key
    async with installed(data_dir) as installation:
        await installation.stored.api.create_user(
            OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role="member"
        )
        spec = replace(SPEC, ide="jupyterlab", home_store_key=key)
        made = await installation.service.create(workspace_id, spec, BY)
        assert isinstance(made, Workspace)
        await installation.arrives(workspace_id, Phase.RUNNING)
        assert await installation.answers(workspace_id) == 200
        (home / "notes.txt").write_bytes(b"every byte")
        (home / "notes.txt").chmod(0o640)
        await installation.wish(workspace_id, DesiredState.STANDBY)
        archived = await installation.wish(workspace_id, DesiredState.ARCHIVED)
        assert archived.status.archive_key is not None
        assert not home.exists()
        await installation.wish(workspace_id, DesiredState.RUNNING)
        assert (home / "notes.txt").read_bytes() == b"every byte"
        assert (home / "notes.txt").stat().st_mode & 0o777 == 0o640
        assert await installation.answers(workspace_id) == 200
    # Stopping codehub stops the IDE; its wish stays, and the next start brings it back.
    async with installed(data_dir) as installation:
        await installation.arrives(workspace_id, Phase.RUNNING)
        assert await installation.answers(workspace_id) == 200
        assert (await installation.stored.api.get(workspace_id)).status.restarts == ()
        await installation.service.delete(workspace_id, BY, purge=True)
        await installation.arrives(workspace_id, Phase.DELETED)
        assert not home.exists()
        collected = await garbage_collector(
            installation.settings, installation.stored, installation.platforms
        ).collect(dry_run=True)
        assert (collected.removed, collected.unknown, collected.unreachable) == ((), (), ())
