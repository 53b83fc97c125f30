"""What is cut off in the middle: an input that ends too soon is no home, a look that ends
too soon says nothing, and who stood still meanwhile touches nobody's.
"""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.cut_line import cut_line
from tests.support.docker import BASE, DOCKER, Docker
from tests.support.patience import PATIENCE_S
from tests.support.storages import OnDocker, docker_storage, granted, new_home, unheard

from codehub.adapters.docker.attach import AttachedStreams
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.observation import Volume
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Home

pytestmark = DOCKER

FILES = {f"file {number}": bytes([number]) * 3000 for number in range(40)}


@pytest.fixture
async def storage(docker: Docker, tmp_path: Path) -> AsyncIterator[OnDocker]:
    async with docker_storage(await docker(), tmp_path) as made:
        yield made


async def an_archive(storage: OnDocker, home: Home) -> str:
    volume_id = await storage.provider.provision(home)
    storage.write(home, FILES)
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    await storage.provider.delete_volume(home, volume_id)
    return key


@asynccontextmanager
async def another_controller(storage: OnDocker, url: str | None = None) -> AsyncIterator[DockerStorage]:
    engine = Engine(url or storage.engine.url, installation=storage.install_id)
    try:
        yield DockerStorage(engine, helper_image=BASE, archives=storage.archives, identity=SystemIdentity())
    finally:
        await engine.close()


async def test_an_archive_of_which_only_a_part_arrived_is_no_home(storage: OnDocker, tmp_path: Path) -> None:
    home = new_home()
    key = await an_archive(storage, home)
    tar = b"".join([bytes(part) async for part in storage.archives.read(key, unheard)])
    with tarfile.open(fileobj=io.BytesIO(tar)) as read:
        between_two = read.getmembers()[20].offset  # where tar itself sees nothing wrong
    async with (
        cut_line(storage.engine.socket, tmp_path / "line", between_two) as url,
        another_controller(storage, url) as cut,
    ):
        with pytest.raises(BackendUnreachable, match="DockerCutOff"):
            await cut.restore(home, key, unheard)
    assert (await storage.provider.list_volumes())[home.workspace_id].volume_id is None
    await storage.provider.restore(home, key, unheard)
    assert storage.files(home) == FILES


async def test_a_look_through_a_home_of_which_nothing_arrived_does_not_say_that_it_is_as_it_was_made(
    storage: OnDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = new_home()
    volume_id = await storage.provider.provision(home)
    monkeypatch.setattr(AttachedStreams, "read_frame", lambda _streams: None)
    with pytest.raises(BackendUnreachable, match="DockerCutOff"):
        await storage.provider.is_worked_on(home, volume_id)


def held_up(
    call: Callable[..., Any], *, before: bool
) -> tuple[Callable[..., Any], asyncio.Event, asyncio.Event]:
    """Return the call as it is made by a process that stands still right
    before or after it, with what tells that and lets it go on.
    """
    stands, goes_on = asyncio.Event(), asyncio.Event()

    async def held(*args: Any) -> Any:
        done = None if before else await call(*args)
        stands.set()
        await goes_on.wait()
        return await call(*args) if before else done

    return held, stands, goes_on


@pytest.mark.parametrize("moment", ["after its volume was made", "before it is sealed"])
async def test_a_restore_that_stood_still_touches_nothing_of_the_home_that_took_its_place(
    storage: OnDocker, moment: str
) -> None:
    home = new_home()
    key = await an_archive(storage, home)
    async with another_controller(storage) as stopped:
        volumes: Any = stopped.volumes
        if moment == "before it is sealed":
            volumes.seal, stands, goes_on = held_up(volumes.seal, before=True)
        else:
            volumes.make, stands, goes_on = held_up(volumes.make, before=False)
        restoring = asyncio.ensure_future(stopped.restore(home, key, unheard))
        async with asyncio.timeout(PATIENCE_S):
            await stands.wait()
        restored = await storage.provider.restore(home, key, unheard)
        storage.write(home, {"file 1": b"edited by its owner"})
        goes_on.set()
        with pytest.raises(ActionFailed):
            await restoring
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(restored.volume_id)}
    assert storage.files(home) == FILES | {"file 1": b"edited by its owner"}
