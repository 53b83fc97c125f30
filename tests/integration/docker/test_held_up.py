"""Starts that get nowhere, with a real engine: a registry that can't be
reached, a container that ends. Their owner is not locked out.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.docker import BASE, DOCKER, LIGHT, TestEngine
from tests.support.installation import BY, Installation, installed
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.s3 import set_environment
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.system.machine import SystemIdentity
from codehub.core.access import Role
from codehub.core.operations import DesiredState, Phase
from codehub.core.requests import Refused
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace, holdup
from codehub.ports.store import Ruled

pytestmark = DOCKER


@pytest.fixture
async def installation(engine: TestEngine, tmp_path: Path) -> AsyncIterator[Installation]:
    with set_environment({"DOCKER_HOST": engine.url}):
        async with installed(tmp_path, instance_backend="local-docker", helper_image=BASE) as made:
            await made.stored.access.add_user(
                OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role=Role.MEMBER
            )
            yield made
    engine.remove_labelled(made.stored.installation)


async def create_unreachable(installation: Installation) -> UUID:
    """Make a workspace whose image is in a registry that nobody serves, and wait until that holds it up."""
    return await create_stuck(installation, f"127.0.0.1:{free_port()}/team/light:1")


async def create_stuck(installation: Installation, image: str) -> UUID:
    workspace_id = SystemIdentity().new_id()
    spec = in_backends(InstanceBackend.LOCAL_DOCKER, StorageBackend.DOCKER_VOLUME, workspace_id)
    made = await installation.service.create(workspace_id, replace(spec, ide="http", image_ref=image), BY)
    assert isinstance(made, Workspace)

    async def is_held_up() -> bool:
        return holdup((await installation.stored.api.get(workspace_id)).status) is not None

    await until(is_held_up)
    return workspace_id


async def until_accepted(ask: Callable[[], Awaitable[Ruled]]) -> None:
    """Ask, and again while a try is just being made."""

    async def is_accepted() -> bool:
        return not isinstance((await ask()).ruling, Refused)

    await until(is_accepted)


@pytest.mark.parametrize("wanted", [DesiredState.STANDBY, DesiredState.ARCHIVED])
async def test_its_owner_is_not_locked_out(installation: Installation, wanted: DesiredState) -> None:
    workspace_id = await create_unreachable(installation)
    await until_accepted(lambda: installation.service.set_wish(workspace_id, wanted, BY))
    await installation.arrives(workspace_id, Phase(wanted.value))


async def test_another_image_is_taken_at_the_next_try(installation: Installation) -> None:
    workspace_id = await create_unreachable(installation)
    await installation.service.change(workspace_id, lambda _spec: {"image_ref": LIGHT}, None, BY)
    await until_accepted(lambda: installation.service.set_wish(workspace_id, DesiredState.RUNNING, BY))
    await installation.arrives(workspace_id, Phase.RUNNING)


async def test_it_can_be_deleted(installation: Installation) -> None:
    workspace_id = await create_unreachable(installation)
    await until_accepted(lambda: installation.service.delete(workspace_id, BY))
    await installation.arrives(workspace_id, Phase.DELETED)


async def test_a_container_that_ends_while_it_starts_says_how_and_another_image_mends_it(
    installation: Installation,
) -> None:
    workspace_id = await create_stuck(installation, f"{LIGHT}:crashes")
    error = (await installation.stored.api.get(workspace_id)).status.error_info
    assert error is not None
    assert (error.context["exit_code"], error.context["last_lines"]) == ("1", "the light server starts")
    await installation.service.change(workspace_id, lambda _spec: {"image_ref": LIGHT}, None, BY)
    await until_accepted(lambda: installation.service.set_wish(workspace_id, DesiredState.RUNNING, BY))
    await installation.arrives(workspace_id, Phase.RUNNING)
