"""Two recoveries of one error, the second while the controller
answers the first: the later one counts, and nothing else.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from tests.support.engine import BY, EVERYONE, Plane

from codehub.core.errors import ErrorReason
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import RecoverChoice
from codehub.engine.controller import WorkspaceController

THESIS = {"thesis": b"the last chapter"}
ACCEPT: Mapping[str, Any] = {"accept_loss": True}
ADOPT: Mapping[str, Any] = {"choice": RecoverChoice.ADOPT}
NEWEST: Mapping[str, Any] = {"choice": RecoverChoice.NEWEST}


async def unidentified(
    plane: Plane, controller: WorkspaceController, wish: DesiredState = DesiredState.STANDBY
) -> UUID:
    """A workspace in ERROR: its home holds what no archive holds,
    and its identity is lost. Its archive is empty.
    """
    workspace_id = await plane.create(DesiredState.ARCHIVED)
    await plane.converge(controller)
    for wanted in (DesiredState.RUNNING, DesiredState.STANDBY):
        await plane.service.set_wish(workspace_id, wanted, BY)
        await plane.converge(controller)
        if wanted is DesiredState.RUNNING:
            plane.instances.write(workspace_id, "thesis", THESIS["thesis"])
    plane.storage.lose_identity(workspace_id)
    await plane.service.set_wish(workspace_id, wish, BY)
    await plane.converge(controller)
    error = (await plane.get(workspace_id)).status.error_info
    assert error is not None
    assert error.reason is ErrorReason.DATA_LOST
    return workspace_id


async def recover_twice(
    plane: Plane,
    controller: WorkspaceController,
    workspace_id: UUID,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
) -> None:
    """Recover it, and once more just before the controller writes what it makes of the first."""

    interrupted: list[str] = []

    async def interrupt(point: str) -> None:
        if point == "persist.before_commit" and not interrupted:
            interrupted.append(point)
            await plane.service.recover(workspace_id, BY, **second)

    await plane.service.recover(workspace_id, BY, **first)
    plane.hook = interrupt
    await controller.run_pass(EVERYONE)
    assert interrupted
    await plane.converge(controller)


@pytest.mark.parametrize("first", [ACCEPT, NEWEST], ids=["accept", "newest"])
async def test_a_loss_that_is_taken_back_before_anything_began_is_not_carried_out(
    plane: Plane, first: Mapping[str, Any]
) -> None:
    controller = plane.controller()
    workspace_id = await unidentified(plane, controller)
    await recover_twice(plane, controller, workspace_id, first, ADOPT)
    assert (await plane.get(workspace_id)).status.phase is Phase.STANDBY
    assert plane.storage.files(workspace_id) == THESIS


async def test_an_adoption_that_is_taken_back_is_not_begun(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await unidentified(plane, controller)
    key = (await plane.get(workspace_id)).status.archive_key
    await recover_twice(plane, controller, workspace_id, ADOPT, NEWEST)
    status = (await plane.get(workspace_id)).status
    assert (status.phase, status.archive_key, status.home_ctx.restore_marker) == (Phase.STANDBY, key, key)
    assert plane.storage.files(workspace_id) == {}


async def test_a_loss_that_is_taken_back_is_not_recorded_though_nothing_begins_with_it(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await unidentified(plane, controller, DesiredState.ARCHIVED)
    await recover_twice(plane, controller, workspace_id, ACCEPT, ADOPT)
    status = (await plane.get(workspace_id)).status
    assert status.phase is Phase.ARCHIVED
    assert status.archive_key is not None
    assert plane.storage.archived_files(status.archive_key) == THESIS


async def test_the_same_recovery_twice_is_one(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await unidentified(plane, controller)
    await recover_twice(plane, controller, workspace_id, ADOPT, ADOPT)
    status = (await plane.get(workspace_id)).status
    assert (status.phase, status.error_info) == (Phase.STANDBY, None)
    assert plane.storage.files(workspace_id) == THESIS
