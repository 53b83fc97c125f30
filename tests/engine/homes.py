"""Work in homes that a row names, and in homes that it knows nothing of."""

from collections.abc import Mapping
from uuid import UUID

from tests.support.engine import Plane, wish
from tests.support.storages import unheard

from codehub.core.errors import ErrorReason
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import Status
from codehub.engine.controller import WorkspaceController
from codehub.ports.storage import Home

OLD, NEW = {"thesis": b"chapter one"}, {"thesis": b"chapter two"}
THESIS = {"thesis": b"the last chapter"}


async def work(
    plane: Plane, controller: WorkspaceController, workspace_id: UUID, files: Mapping[str, bytes]
) -> str:
    """Start it, write this, archive it, and return the archive's key."""
    await wish(plane, controller, workspace_id, DesiredState.RUNNING)
    for path, content in files.items():
        plane.instances.write(workspace_id, path, content)
    status = await wish(plane, controller, workspace_id, DesiredState.ARCHIVED)
    assert status.phase is Phase.ARCHIVED
    assert status.archive_key is not None
    return status.archive_key


async def failed(plane: Plane, workspace_id: UUID) -> Status:
    status = (await plane.get(workspace_id)).status
    assert status.error_info is not None
    assert (status.phase, status.error_info.reason) == (Phase.ERROR, ErrorReason.DATA_LOST)
    return status


async def work_in_another_home(plane: Plane, workspace_id: UUID) -> None:
    """Let a home be there that the row knows nothing of, and somebody work in it."""
    row = await plane.get(workspace_id)
    home, key = Home(workspace_id, row.spec.home_store_key), row.status.archive_key
    if key is None:
        await plane.storage.provision(home)
    else:
        await plane.storage.restore(home, key, unheard)
    plane.storage.write(workspace_id, "thesis", THESIS["thesis"])
