"""A container that the engine can't remove, as a killed dockerd
leaves them: it is set aside, and nothing waits for it.
"""

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.docker import BASE, DOCKER
from tests.support.docker_world import DockerWorld
from tests.support.instances import become_healthy, new_spec

from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.backends import EngineFailed
from codehub.ports.storage import Home

pytestmark = DOCKER


class Nail:
    """Nails a file of a container's layer down, so that Docker can't remove the layer."""

    def __init__(self, world: DockerWorld) -> None:
        self._world = world
        self._nailed: list[Path] = []

    def down(self, workspace_id: UUID) -> None:
        place = Path(self._world.inspect(workspace_id)["GraphDriver"]["Data"]["UpperDir"]) / "nailed"
        place.touch()
        done = subprocess.run(["chattr", "+i", place], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"files can't be nailed down here: {done.stderr.strip()}")
        self._nailed.append(place)

    def let_go(self) -> None:
        while self._nailed:
            subprocess.run(["chattr", "-i", self._nailed.pop()], check=True)


@pytest.fixture
def nail(world: DockerWorld) -> Iterator[Nail]:
    made = Nail(world)
    yield made
    made.let_go()


async def test_a_container_that_can_t_be_removed_is_set_aside_told_and_removed_when_it_can_be(
    world: DockerWorld, homes: DockerStorage, nail: Nail
) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    nail.down(spec.workspace_id)
    dead = world.inspect(spec.workspace_id)["Id"]

    await world.instances.delete(spec.workspace_id)
    assert await world.instances.status(spec.workspace_id) is None
    assert await world.instances.list_all() == {}
    assert world.engine.ask("GET", f"containers/{dead}/json")["State"]["Status"] == "dead"
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    await world.instances.delete(spec.workspace_id)

    home = Home(spec.workspace_id, spec.home_store_key)
    with pytest.raises(EngineFailed, match="ContainerHoldsVolume"):
        await homes.delete_volume(home, volume_id)
    (leftover,) = await leftover_containers(homes)
    assert dead[:12] in leftover
    nail.let_go()
    await homes.delete_volume(home, volume_id)
    assert await leftover_containers(homes) == []
    assert world.engine.find(f"containers/{dead}/json") is None


async def test_gc_removes_what_was_set_aside_once_it_can(
    world: DockerWorld, homes: DockerStorage, nail: Nail
) -> None:
    workspace_id = await world.run()
    nail.down(workspace_id)
    await world.instances.delete(workspace_id)
    ages_ago = datetime.now(UTC) - timedelta(days=1)
    assert await homes.remove_leftovers(ages_ago) == 0
    nail.let_go()
    assert await homes.remove_leftovers(ages_ago) == 1
    assert await leftover_containers(homes) == []


async def leftover_containers(storage: DockerStorage) -> list[str]:
    return [leftover for leftover in await storage.list_leftovers() if leftover.startswith("container")]


@pytest.fixture
async def homes(world: DockerWorld, tmp_path: Path) -> DockerStorage:
    """The world's homes, with archives."""
    objects = Objects(tmp_path.as_uri(), installation=world.install_id)
    await objects.prepare()
    return DockerStorage(
        world.connection, helper_image=BASE, archives=ObjectArchives(objects), identity=SystemIdentity()
    )
