"""Images from a registry: fetched with progress when they are
missing; a refusal is for good, an outage is none.
"""

import base64
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.docker import DOCKER
from tests.support.docker_world import DockerWorld
from tests.support.instances import new_spec
from tests.support.ports import free_port
from tests.support.registry import REGISTRY, running_registry, slow_line

from codehub.adapters.docker.credentials import auth_header
from codehub.core.errors import ErrorReason
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount

pytestmark = [DOCKER, REGISTRY]

BALLAST_BYTES = 3_000_000

MEMBER = "ann:$2b$04$2h1xW0IfcgdFwSQ2lSRiT.vVOwB4z1bZ9e81mHx0O09Ec3iCGXVIK\n"  # open sesame


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[str]:
    async with running_registry(tmp_path) as address:
        yield address


def push(world: DockerWorld, image: str, auth: str = "e30=") -> None:
    """Put a small image, with a layer that nobody has, into the registry, and forget it here."""
    # A program that needs no library and ends at once.
    files = {"init": Path("/usr/bin/tini-static").read_bytes(), "ballast": os.urandom(BALLAST_BYTES)}
    dockerfile = 'FROM scratch\nCOPY init /init\nCOPY ballast /ballast\nENTRYPOINT ["/init", "-h"]'
    world.engine.build(image, dockerfile, files)
    world.engine.push(image, auth)


async def test_a_missing_image_is_fetched_and_says_how_far_it_is(world: DockerWorld, registry: str) -> None:
    push(world, f"{registry}/team/light:1")
    heard: list[Amount] = []
    # Slow from the middle of the ballast on until that was heard of: the
    # engine tells only now and then, and not of what is over.
    async with slow_line(registry, BALLAST_BYTES // 2) as (far_away, is_fast):
        image = f"{far_away}/team/light:1"
        spec = new_spec(image_ref=image)

        def hear(amount: Amount) -> None:
            heard.append(amount)
            if amount.total is not None and amount.total > BALLAST_BYTES:
                is_fast.set()

        await world.instances.start(spec, await world.make_volume(spec), hear)
    assert world.inspect(spec.workspace_id)["Config"]["Image"] == image
    assert {amount.stage for amount in heard} == {"pull"}
    assert [amount.done for amount in heard] == sorted(amount.done for amount in heard)
    assert heard[-1].done == heard[-1].total
    assert heard[-1].done > BALLAST_BYTES
    await world.instances.delete(spec.workspace_id)
    world.engine.ask("DELETE", f"images/{image}", force=1)


async def test_an_image_that_the_registry_does_not_have_fails_for_good(
    world: DockerWorld, registry: str
) -> None:
    spec = new_spec(image_ref=f"{registry}/team/nothing:1")
    volume_id = await world.make_volume(spec)
    with pytest.raises(ActionFailed, match="ImageUnavailable") as failed:
        await world.instances.start(spec, volume_id)
    assert failed.value.reason is ErrorReason.IMAGE_PULL_FAILED
    assert await world.instances.list_all() == {}


async def test_a_registry_that_lets_us_not_in_fails_for_good(world: DockerWorld, tmp_path: Path) -> None:
    async with running_registry(tmp_path, closed=True) as address:
        spec = new_spec(image_ref=f"{address}/team/light:1")
        volume_id = await world.make_volume(spec)
        with pytest.raises(ActionFailed) as failed:
            await world.instances.start(spec, volume_id)
    assert failed.value.reason is ErrorReason.IMAGE_PULL_FAILED


async def test_a_registry_that_knows_docker_s_own_login_lets_us_in(
    world: DockerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    async with running_registry(tmp_path, closed=True, members=MEMBER) as address:
        image = f"{address}/team/light:1"
        config = {"auths": {address: {"auth": base64.b64encode(b"ann:open sesame").decode()}}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        push(world, image, auth_header(image, tmp_path / "config.json")["X-Registry-Auth"])
        spec = new_spec(image_ref=image)
        await world.instances.start(spec, await world.make_volume(spec))
        assert world.inspect(spec.workspace_id)["Config"]["Image"] == image
    await world.instances.delete(spec.workspace_id)
    world.engine.ask("DELETE", f"images/{image}", force=1)


async def test_a_name_that_is_none_fails_for_good(world: DockerWorld) -> None:
    spec = new_spec(image_ref="Not A Name!")
    volume_id = await world.make_volume(spec)
    with pytest.raises(ActionFailed) as failed:
        await world.instances.start(spec, volume_id)
    assert failed.value.reason is ErrorReason.IMAGE_PULL_FAILED


async def test_a_registry_that_is_away_is_an_outage(world: DockerWorld) -> None:
    spec = new_spec(image_ref=f"127.0.0.1:{free_port()}/team/light:1")
    volume_id = await world.make_volume(spec)
    with pytest.raises(BackendUnreachable, match="RegistryUnreachable"):
        await world.instances.start(spec, volume_id)


async def test_a_helper_image_that_can_not_be_had_is_told_as_such(world: DockerWorld, registry: str) -> None:
    world.storage.helper_image = f"{registry}/team/helper:1"
    with pytest.raises(ActionFailed, match=r"ImageUnavailable image=\S+/team/helper:1") as failed:
        await world.make_volume(new_spec())
    assert failed.value.reason is ErrorReason.IMAGE_PULL_FAILED
