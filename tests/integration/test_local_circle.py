"""The whole circle on this machine: real PostgreSQL, a real IDE
in its sandbox, a home that comes back byte by byte.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.installation import BY, installed
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.system.machine import SystemIdentity
from codehub.app.control import garbage_collector
from codehub.core.access import Role
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def test_a_workspace_goes_round_the_whole_circle_with_a_real_ide(data_dir: Path) -> None:
    workspace_id = SystemIdentity().new_id()
    spec = in_backends(InstanceBackend.LOCAL_PROCESS, StorageBackend.LOCAL_DIR, workspace_id)
    home = data_dir / spec.home_store_key
    async with installed(data_dir, ide="jupyterlab") as installation:
        await installation.stored.access.add_user(
            OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role=Role.MEMBER
        )
        made = await installation.service.create(workspace_id, replace(spec, ide="jupyterlab"), BY)
        assert isinstance(made, Workspace)
        await installation.arrives(workspace_id, Phase.RUNNING)
        assert await installation.answers(workspace_id, f"/w/{workspace_id}/api") == 200
        (home / "notes.txt").write_bytes(b"every byte")
        (home / "notes.txt").chmod(0o640)
        await installation.wish(workspace_id, DesiredState.STANDBY)
        archived = await installation.wish(workspace_id, DesiredState.ARCHIVED)
        assert archived.status.archive_key is not None
        assert not home.exists()
        await installation.wish(workspace_id, DesiredState.RUNNING)
        assert (home / "notes.txt").read_bytes() == b"every byte"
        assert (home / "notes.txt").stat().st_mode & 0o777 == 0o640
        assert await installation.answers(workspace_id, f"/w/{workspace_id}/api") == 200
    # Stopping codehub stops the IDE; its wish stays, and the next start brings it back.
    async with installed(data_dir, ide="jupyterlab") as installation:
        await installation.arrives(workspace_id, Phase.RUNNING)
        assert await installation.answers(workspace_id, f"/w/{workspace_id}/api") == 200
        assert (await installation.stored.api.get(workspace_id)).status.restarts == ()
        await installation.service.delete(workspace_id, BY, purge=True)
        await installation.arrives(workspace_id, Phase.DELETED)
        assert not home.exists()
        collected = await garbage_collector(
            installation.settings, installation.stored, installation.backends
        ).collect(dry_run=True)
        assert (collected.removed, collected.unknown, collected.unreachable) == ((), (), ())
