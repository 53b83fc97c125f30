"""What a container may and what it may not: limits, rights, neighbours, ports, and whose objects are
touched.
"""

import asyncio

import pytest
from tests.support.docker import DOCKER, LIGHT
from tests.support.docker_world import DockerWorld
from tests.support.groups import groups_of
from tests.support.instances import become_healthy, new_spec
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.docker.containers import Mount
from codehub.adapters.docker.groups import ParentGroup
from codehub.adapters.docker.instances import DockerInstances
from codehub.adapters.docker.network import ensure_network
from codehub.adapters.groups import ROOT, Totals, is_unified
from codehub.adapters.system.machine import SystemClock
from codehub.core.workspace import Resources
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec, TcpUpstream

pytestmark = DOCKER


async def test_a_container_is_made_as_the_wire_contract_says(world: DockerWorld) -> None:
    spec = new_spec(resources=Resources(memory_mb=300, cpus=0.5, pids=77))
    workspace_id = await world.run(spec)
    container = world.inspect(workspace_id)
    assert container["Name"] == f"/codehub-ws-{workspace_id}"
    labels = container["Config"]["Labels"]
    assert labels["codehub.install"] == world.install_id
    assert labels["codehub.workspace"] == str(workspace_id)
    assert labels["codehub.role"] == "instance"
    host = container["HostConfig"]
    assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (300 << 20, 500_000_000, 77)
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Init"] is True
    assert host["Privileged"] is False
    assert host["NetworkMode"] == "codehub"
    (mount,) = container["Mounts"]
    assert (mount["Type"], mount["Name"], mount["Destination"]) == (
        "volume",
        f"ws-{workspace_id}-home",
        "/home/coder",
    )
    assert {each["HostIp"] for each in container["NetworkSettings"]["Ports"]["8080/tcp"]} == {"127.0.0.1"}


async def test_inside_it_is_an_ordinary_user_in_a_home_of_its_own(world: DockerWorld) -> None:
    workspace_id = await world.run()
    assert (await world.inside(workspace_id, "id -u; id -g; pwd; echo $HOME")).split() == [
        *("1000", "1000", "/home/coder", "/home/coder")
    ]
    assert await world.inside(workspace_id, "echo kept > ~/notes && cat ~/notes") == "kept\n"
    status = await world.inside(workspace_id, "cat /proc/self/status")
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert (await world.inside(workspace_id, "ls /var/run/docker.sock 2>&1 | tail -1")).count(
        "No such file"
    ) == 1
    assert "docker-init" in await world.inside(workspace_id, "cat /proc/1/cmdline")


async def test_an_orphan_inside_is_reaped(world: DockerWorld) -> None:
    workspace_id = await world.run()
    await world.inside(workspace_id, "setsid sh -c 'sleep 0 & exec true' & wait")

    async def no_zombies() -> bool:
        defunct = await world.inside(workspace_id, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '")
        return defunct.strip() == "0"

    await until(no_zombies)


async def test_more_processes_than_allowed_are_refused(world: DockerWorld) -> None:
    workspace_id = await world.run(new_spec(resources=Resources(memory_mb=256, cpus=1.0, pids=20)))
    output = await world.inside(
        workspace_id,
        "for i in $(seq 40); do sleep 60 >/dev/null 2>&1 & done 2>&1; kill $(jobs -p) 2>/dev/null",
    )
    assert "Cannot fork" in output or "Resource temporarily unavailable" in output


async def test_one_workspace_can_not_reach_another(world: DockerWorld) -> None:
    caller, other = await asyncio.gather(world.run(), world.run())
    network = world.inspect(other)["NetworkSettings"]["Networks"]["codehub"]
    upstream = await world.instances.resolve_upstream(other)
    assert isinstance(upstream, TcpUpstream)

    async def reaches(host: str, port: int, within_s: float = 2) -> bool:
        script = f"import socket; socket.create_connection(('{host}', {port}), {within_s}); print('reached')"
        return "reached" in await world.inside(caller, f'python3 -S -c "{script}" 2>&1')

    assert await reaches("127.0.0.1", 8080, PATIENCE_S)  # the probe itself works
    assert not await reaches(network["IPAddress"], 8080)
    assert not await reaches(network["Gateway"], upstream.port)
    assert not await reaches(f"codehub-ws-{other}", 8080)


async def test_a_network_that_lets_containers_talk_is_refused(
    world: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"codehub-test-{world.install_id[:8]}"
    monkeypatch.setattr("codehub.adapters.docker.network.NETWORK", name)
    world.engine.ask("POST", "networks/create", body={"Name": name})
    try:
        with pytest.raises(ActionFailed, match="NetworkOpen"):
            await ensure_network(world.connection)
    finally:
        world.engine.ask("DELETE", f"networks/{name}")


async def test_of_two_networks_that_were_made_at_once_one_stays(
    world: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"codehub-test-{world.install_id[:8]}"
    monkeypatch.setattr("codehub.adapters.docker.network.NETWORK", name)
    apart = {"com.docker.network.bridge.enable_icc": "false"}
    made = [
        world.engine.ask("POST", "networks/create", body={"Name": name, "Options": apart})["Id"]
        for _ in range(2)
    ]
    try:
        await ensure_network(world.connection)
        assert world.engine.ask("GET", f"networks/{name}")["Id"] == made[0]
        assert world.engine.find(f"networks/{made[1]}") is None
    finally:
        world.engine.ask("DELETE", f"networks/{name}")


@pytest.mark.parametrize("labels", [{}, {"codehub.install": "another", "codehub.role": "instance"}])
async def test_what_is_not_ours_is_neither_seen_nor_touched(
    world: DockerWorld, labels: dict[str, str]
) -> None:
    spec = new_spec()
    labels = {**labels, "codehub.workspace": str(spec.workspace_id)}
    name = f"codehub-ws-{spec.workspace_id}"
    foreign = world.engine.ask(
        "POST", "containers/create", body={"Image": LIGHT, "Labels": labels}, name=name
    )
    try:
        assert await world.instances.status(spec.workspace_id) is None
        assert await world.instances.list_all() == {}
        volume_id = await world.make_volume(spec)
        with pytest.raises(ActionFailed, match="DockerNotOurs"):
            await world.instances.start(spec, volume_id)
        await world.instances.delete(spec.workspace_id)
        assert world.engine.find(f"containers/{foreign['Id']}/json") is not None
    finally:
        world.engine.ask("DELETE", f"containers/{foreign['Id']}", force=1)


async def test_a_start_whose_home_goes_meanwhile_leaves_no_volume(world: DockerWorld) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    looked = 0

    async def loses_it(asked: InstanceSpec) -> tuple[Mount, str | None]:
        nonlocal looked
        looked += 1
        home = await world.home_of(asked)
        if looked == 1:
            world.engine.ask("DELETE", f"volumes/ws-{spec.workspace_id}-home")
        return home

    instances = DockerInstances(world.connection, loses_it, clock=SystemClock())
    with pytest.raises(ActionFailed, match="NoSuchVolume"):
        await instances.start(spec, volume_id)
    assert await instances.list_all() == {}
    assert world.engine.find(f"volumes/ws-{spec.workspace_id}-home") is None


async def test_two_installations_on_one_engine_do_not_know_each_other(world: DockerWorld) -> None:
    other = DockerWorld(world.engine)
    await other.storage.prepare()
    try:
        ours, theirs = await world.run(), await other.run()
        assert list(await world.instances.list_all()) == [ours]
        assert list(await other.instances.list_all()) == [theirs]
        assert list(await world.storage.list_volumes()) == [ours]
        await world.instances.delete(theirs)
        await become_healthy(other.instances, theirs)
    finally:
        world.engine.remove_labelled(other.install_id)
        await other.connection.close()


async def test_all_containers_are_in_one_group_that_is_bound(world: DockerWorld) -> None:
    group = ParentGroup(world.install_id, Totals(memory_mb=700, pids=500))
    driver = (await world.connection.find("info") or {})["CgroupDriver"]
    world.instances = world.controller(group=group)
    container = world.inspect(await world.run())
    parent = await asyncio.to_thread(group.prepare, driver)
    assert container["HostConfig"]["CgroupParent"] == (parent or "")
    if parent is not None and not is_unified():
        bound = (ROOT / "memory" / parent.lstrip("/") / "memory.limit_in_bytes").read_text()
        assert int(bound) == 700 << 20
    if parent is not None and is_unified():
        assert int((ROOT / parent.lstrip("/") / "memory.max").read_text()) == 700 << 20


async def test_the_group_of_all_containers_goes_with_the_last_one_and_not_before(world: DockerWorld) -> None:
    group = ParentGroup(world.install_id, Totals(memory_mb=700, pids=500))
    world.instances = world.controller(group=group)
    workspace_id = await world.run()
    made = groups_of(world.install_id)
    if not made:
        pytest.skip("this engine's containers are in no group of ours")
    await asyncio.to_thread(group.close)
    assert groups_of(world.install_id) == made, "a container is in it"
    await world.instances.delete(workspace_id)
    await asyncio.to_thread(group.close)
    assert groups_of(world.install_id) == []
