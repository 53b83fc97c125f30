"""A command in a container has exactly the rights of its IDE; a relay's
helper has none, and stays no longer than it is needed.
"""

import asyncio
from uuid import UUID

import pytest
from tests.support.docker import BASE, DOCKER
from tests.support.docker_world import DockerWorld
from tests.support.patience import until

from codehub.adapters.docker.instance_access import DockerInstanceAccess
from codehub.adapters.docker.relay import ROLE_RELAY
from codehub.adapters.system.machine import SystemClock
from codehub.ports.instance_access import ByteSource, Command, NothingListens

pytestmark = DOCKER

_RIGHTS = (
    "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status;"
    " readlink /proc/self/ns/*; grep -E 'processes|files' /proc/self/limits; umask"
)


def way_into(world: DockerWorld) -> DockerInstanceAccess:
    return DockerInstanceAccess(world.connection, helper_image=BASE, clock=SystemClock())


async def output_of(world: DockerWorld, workspace_id: UUID, script: str) -> str:
    access = way_into(world)
    async with access.exec(workspace_id, Command(("sh", "-c", script))) as session:
        await session.input.close()
        output, _ = await asyncio.gather(_text(session.output), _text(session.error_output))
        return output


async def _text(source: ByteSource) -> str:
    data = b""
    while part := await source.read():
        data += part
    return data.decode()


def helpers(world: DockerWorld) -> list[object]:
    filters = f'{{"label":["codehub.install={world.install_id}","codehub.role={ROLE_RELAY}"]}}'
    return list(world.engine.ask("GET", "containers/json", all=1, filters=filters))


async def test_a_command_has_the_rights_of_the_ide(world: DockerWorld) -> None:
    workspace_id = await world.run()
    by_command = await output_of(world, workspace_id, _RIGHTS)
    assert by_command.split() == (await world.inside(workspace_id, _RIGHTS)).split()


async def test_nothing_of_codehub_is_in_its_environment(
    world: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEHUB_DATABASE_URL", "postgres://secret")
    workspace_id = await world.run()
    assert "secret" not in await output_of(world, workspace_id, "env; cat /proc/[0-9]*/environ 2>&1")


async def test_a_helper_goes_with_the_way_in(world: DockerWorld) -> None:
    workspace_id = await world.run()
    access = way_into(world)
    with pytest.raises(NothingListens):
        async with access.relay(workspace_id, 4321):
            pass
    assert len(helpers(world)) == 1
    await access.close()

    async def is_gone() -> bool:
        return helpers(world) == []

    await until(is_gone)
