"""Containers that others change at the same time, engines that go away, servers that are slow, crash or
hang.
"""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from tests.support.docker import DOCKER, LIGHT
from tests.support.docker_world import DockerWorld
from tests.support.engine import ManualClock
from tests.support.instances import become_healthy, new_spec
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.docker import instances
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.instances import DockerInstances
from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.docker.volumes import WorkspaceVolumes, home_name, seal_name
from codehub.adapters.health import answer_status
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.observation import Instance
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import Upstream
from codehub.ports.storage import Home

pytestmark = DOCKER


async def test_controllers_that_start_at_once_make_one_container(world: DockerWorld) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    others = [world.controller() for _ in range(3)]
    await asyncio.gather(*(each.start(spec, volume_id) for each in others))
    await become_healthy(world.instances, spec.workspace_id)
    assert list(await world.instances.list_all()) == [spec.workspace_id]


async def test_starts_and_deletes_of_many_controllers_end_as_the_last_one_wants(world: DockerWorld) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)

    async def trouble(controller: DockerInstances, number: int) -> None:
        for turn in range(2):
            with suppress(ActionFailed):  # outpaced by the others: the engine tries again
                if (number + turn) % 2:
                    await controller.delete(spec.workspace_id)
                else:
                    await controller.start(spec, volume_id)

    await asyncio.gather(*(trouble(world.controller(), number) for number in range(4)))
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    await world.instances.delete(spec.workspace_id)
    assert await world.instances.list_all() == {}
    assert list(await world.storage.list_volumes()) == [spec.workspace_id]


async def test_a_provision_that_comes_late_finds_the_home_that_runs(world: DockerWorld) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    assert await world.storage.provision(Home(spec.workspace_id, "")) == volume_id
    await become_healthy(world.instances, spec.workspace_id)


async def test_a_provision_that_looked_before_a_home_was_made_does_not_replace_what_runs(
    world: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a controller which stood still: meanwhile another
    made the home, started it, and somebody worked there.
    """
    spec, late = new_spec(), DockerWorld(world.engine, world.install_id)
    has_looked, may_go_on, inspect = asyncio.Event(), asyncio.Event(), late.storage.volumes.inspect

    async def look_once(workspace_id: UUID) -> WorkspaceVolumes:
        volumes = await inspect(workspace_id)
        has_looked.set()
        await may_go_on.wait()
        return volumes

    monkeypatch.setattr(late.storage.volumes, "inspect", look_once)
    provision = asyncio.create_task(late.storage.provision(Home(spec.workspace_id, "")))
    async with asyncio.timeout(PATIENCE_S):
        await has_looked.wait()
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    thesis = world.engine.path_of(home_name(spec.workspace_id)) / "thesis"
    thesis.write_text("chapter one")
    may_go_on.set()
    try:
        with pytest.raises(ActionFailed, match="OtherVolume"):
            await provision
    finally:
        await late.connection.close()
    assert (await world.storage.locate(spec.workspace_id))[1] == volume_id
    assert thesis.read_text() == "chapter one"
    await become_healthy(world.instances, spec.workspace_id)


async def test_a_provision_does_not_replace_a_home_that_runs_though_its_identity_was_lost(
    world: DockerWorld,
) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    thesis = world.engine.path_of(home_name(spec.workspace_id)) / "thesis"
    thesis.write_text("chapter one")
    world.engine.ask("DELETE", f"volumes/{seal_name(spec.workspace_id, volume_id)}")
    with pytest.raises(ActionFailed, match="VolumeHeld"):
        await world.storage.provision(Home(spec.workspace_id, ""), replaces=volume_id)
    assert thesis.read_text() == "chapter one"
    await become_healthy(world.instances, spec.workspace_id)


class Killed(BaseException):
    """Of a process that was killed: nobody handles it."""


async def test_a_container_that_was_made_and_not_started_is_started(
    world: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between the two."""
    spec, ask = new_spec(), world.connection.ask
    volume_id = await world.make_volume(spec)

    async def die_before_start(method: str, path: str, **options: Any) -> Any:
        if path.endswith("/start"):
            raise Killed
        return await ask(method, path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(world.connection, "ask", die_before_start)
        with pytest.raises(Killed):
            await world.instances.start(spec, volume_id)
    made = await world.identity(spec.workspace_id)
    assert await world.instances.status(spec.workspace_id) == Instance(running=False, healthy=False)
    await world.instances.start(spec, volume_id)
    await become_healthy(world.instances, spec.workspace_id)
    assert await world.identity(spec.workspace_id) == made


async def _is(world: DockerWorld, workspace_id: object, wanted: Instance) -> bool:
    return await world.instances.status(workspace_id) == wanted  # type: ignore[arg-type]


async def test_a_slow_server_is_waited_for_and_not_replaced(world: DockerWorld) -> None:
    spec = new_spec(image_ref=f"{LIGHT}:slow")
    volume_id = await world.make_volume(spec)
    await world.instances.start(spec, volume_id)
    first = await world.identity(spec.workspace_id)
    assert await world.instances.status(spec.workspace_id) == Instance(running=True, healthy=False)
    await world.instances.start(spec, volume_id)
    assert await world.instances.status(spec.workspace_id) == Instance(running=True, healthy=False)
    (world.engine.path_of(home_name(spec.workspace_id)) / "listen").touch()
    await become_healthy(world.instances, spec.workspace_id)
    assert await world.identity(spec.workspace_id) == first


async def test_a_server_that_crashes_is_seen_dead_and_its_words_are_kept(world: DockerWorld) -> None:
    spec = new_spec(image_ref=f"{LIGHT}:crashes")
    await world.instances.start(spec, await world.make_volume(spec))
    dead = Instance(running=False, healthy=False, has_ended=True, exit_code=1)
    await until(lambda: _is(world, spec.workspace_id, dead))
    log = b"".join([piece async for piece in world.instances.logs(spec.workspace_id)])
    assert log == b"the light server starts\n"


async def test_a_server_that_hangs_is_unhealthy_and_replaced_once_its_time_is_up(world: DockerWorld) -> None:
    spec = new_spec(image_ref=f"{LIGHT}:hangs")
    instances = world.controller(boot_s_max=0.0)
    volume_id = await world.make_volume(spec)
    await instances.start(spec, volume_id)
    first = await world.identity(spec.workspace_id)
    assert await instances.status(spec.workspace_id) == Instance(running=True, healthy=False)
    await instances.start(spec, volume_id)
    assert await world.identity(spec.workspace_id) != first


async def test_logs_can_be_followed_to_the_end(world: DockerWorld) -> None:
    workspace_id = await world.run()
    logs = world.instances.logs(workspace_id, follow=True)
    assert await anext(logs) == b"the light server starts\n"
    await world.instances.delete(workspace_id)
    async with asyncio.timeout(PATIENCE_S):
        assert [piece async for piece in logs] == []


async def test_an_engine_that_is_away_is_an_outage() -> None:
    engine = Engine("unix:///nowhere.sock", installation="x")
    archives = ObjectArchives(Objects("file:///nowhere", installation="x"))
    storage = DockerStorage(engine, helper_image="x", archives=archives, identity=SystemIdentity())
    spec = new_spec()
    instances = DockerInstances(engine, lambda _: storage.locate(spec.workspace_id), clock=SystemClock())
    home = Home(spec.workspace_id, "")
    for call in (
        instances.list_all(),
        instances.status(spec.workspace_id),
        instances.start(spec, "v"),
        instances.delete(spec.workspace_id),
        instances.resolve_upstream(spec.workspace_id),
        storage.list_volumes(),
        storage.provision(home),
        storage.delete_volume(home, "v"),
    ):
        with pytest.raises(BackendUnreachable, match="DockerUnreachable"):
            await call
    with pytest.raises(BackendUnreachable):
        async with instances.events() as events:
            await anext(events)
    await engine.close()


async def test_an_engine_without_our_mark_is_an_outage_and_not_an_empty_one(world: DockerWorld) -> None:
    spec = new_spec()
    await world.make_volume(spec)
    world.engine.ask("DELETE", f"volumes/codehub-{world.install_id}")
    home = Home(spec.workspace_id, "")
    for call in (world.storage.list_volumes(), world.storage.provision(Home(new_spec().workspace_id, ""))):
        with pytest.raises(BackendUnreachable, match="MarkToAdopt"):
            await call
    await world.storage.prepare()
    assert list(await world.storage.list_volumes()) == [home.workspace_id]


async def test_a_burst_of_lists_asks_each_container_once(
    world: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = new_spec()
    await world.instances.start(spec, await world.make_volume(spec))
    await become_healthy(world.instances, spec.workspace_id)
    asked = 0

    async def counted(upstream: Upstream, target: str) -> int | None:
        nonlocal asked
        asked += 1
        return await answer_status(upstream, target, PATIENCE_S)

    clock = ManualClock()
    controller = world.controller(clock=clock)
    monkeypatch.setattr(instances, "answer_status", counted)
    for _ in range(3):
        assert await controller.list_all() == {spec.workspace_id: Instance(running=True, healthy=True)}
    assert asked == 1
    clock.seconds += 2
    await controller.list_all()
    assert asked == 2
    await controller.status(spec.workspace_id)
    assert asked == 3
