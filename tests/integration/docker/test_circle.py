"""The whole circle on what people run: PostgreSQL, Docker, S3, Redis
and a real code-server. The home comes back byte by byte.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.docker import BASE, CODE_SERVER, DOCKER, LIGHT, NO_CODE_SERVER, TestEngine
from tests.support.installation import BY, Installation, installed
from tests.support.redis import REDIS, running_redis
from tests.support.s3 import S3, running_s3, set_environment
from tests.support.stores import PASSWORD_HASH
from tests.support.trees import picture
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.docker.volumes import home_name
from codehub.adapters.system.machine import SystemIdentity
from codehub.app.control import garbage_collector
from codehub.core.access import Role
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import InstanceBackend, Spec, StorageBackend, Workspace

pytestmark = [DOCKER, S3, REDIS]


Start = Callable[..., AbstractAsyncContextManager[Installation]]


@pytest.fixture
async def started(engine: TestEngine, tmp_path: Path) -> AsyncIterator[Start]:
    """Start codehub with Docker, S3 and Redis, all of them real. What it
    has made there goes with the test, and nothing else.
    """
    made: set[str] = set()
    async with running_s3() as s3, running_redis() as redis:
        settings = {
            "instance_backend": "local-docker",
            "archive_url": f"s3://{await s3.new_bucket()}/archives",
            "redis_url": redis.url,
            "helper_image": BASE,
        }

        @asynccontextmanager
        async def start(**changes: Any) -> AsyncIterator[Installation]:
            async with installed(tmp_path, **settings, **changes) as installation:
                made.add(installation.stored.installation)
                yield installation

        with set_environment({"DOCKER_HOST": engine.url, **s3.environment()}):
            yield start
    for installation in made:
        engine.remove_labelled(installation)


def spec(workspace_id: UUID, *, ide: str, image: str, storage: StorageBackend) -> Spec:
    made = in_backends(InstanceBackend.LOCAL_DOCKER, storage, workspace_id)
    return replace(made, ide=ide, image_ref=image)


async def begin(installation: Installation, workspace_id: UUID, wanted: Spec) -> None:
    await installation.stored.access.add_user(
        OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role=Role.MEMBER
    )
    made = await installation.service.create(workspace_id, wanted, BY)
    assert isinstance(made, Workspace)
    await installation.arrives(workspace_id, Phase.RUNNING)


async def purge(installation: Installation, workspace_id: UUID) -> None:
    await installation.service.delete(workspace_id, BY, purge=True)
    await installation.arrives(workspace_id, Phase.DELETED)
    collector = garbage_collector(installation.settings, installation.stored, installation.backends)
    collected = await collector.collect(dry_run=True)
    assert (collected.removed, collected.unknown, collected.unreachable) == ((), (), ())
    # What was being thrown away when the workspace was seen gone is garbage, and is collected as such.
    for storage in installation.backends.storage.values():
        await storage.remove_leftovers(datetime.now(UTC) + timedelta(hours=1))
        assert await storage.list_leftovers() == []


@NO_CODE_SERVER
async def test_a_workspace_goes_round_the_whole_circle_with_real_code_server(
    engine: TestEngine, started: Start
) -> None:
    engine.build_code_server()
    workspace_id = SystemIdentity().new_id()
    wanted = spec(workspace_id, ide="code-server", image=CODE_SERVER, storage=StorageBackend.DOCKER_VOLUME)
    async with started() as installation:
        await begin(installation, workspace_id, wanted)
        assert await installation.answers(workspace_id, "/healthz") == 200
        home = engine.path_of(home_name(workspace_id))
        (home / "notes.txt").write_bytes(b"every byte")
        (home / "notes.txt").chmod(0o640)
        await installation.wish(workspace_id, DesiredState.STANDBY)
        assert engine.find(f"containers/codehub-ws-{workspace_id}/json") is None
        before = picture(os.fsencode(home))
        archived = await installation.wish(workspace_id, DesiredState.ARCHIVED)
        assert archived.status.archive_key is not None
        assert engine.find(f"volumes/{home_name(workspace_id)}") is None
        await installation.wish(workspace_id, DesiredState.STANDBY)
        assert picture(os.fsencode(engine.path_of(home_name(workspace_id)))) == before
        await installation.wish(workspace_id, DesiredState.RUNNING)
        assert await installation.answers(workspace_id, "/healthz") == 200
        container = engine.ask("GET", f"containers/codehub-ws-{workspace_id}/json")["Id"]
    # Stopping codehub leaves the container, and the next start finds it again.
    async with started() as installation:
        await installation.arrives(workspace_id, Phase.RUNNING)
        assert engine.ask("GET", f"containers/codehub-ws-{workspace_id}/json")["Id"] == container
        assert (await installation.stored.api.get(workspace_id)).status.restarts == ()
        await purge(installation, workspace_id)
        assert engine.labelled(installation.stored.installation) == [
            f"codehub-{installation.stored.installation}"
        ]


@pytest.mark.parametrize("storage", [StorageBackend.LOCAL_DIR, StorageBackend.OBJECT_STORE])
async def test_other_homes_of_containers_go_round_too(
    tmp_path: Path, engine: TestEngine, started: Start, storage: StorageBackend
) -> None:
    workspace_id = SystemIdentity().new_id()
    wanted = spec(workspace_id, ide="http", image=LIGHT, storage=storage)
    async with started(storage_backend=storage) as installation:
        await begin(installation, workspace_id, wanted)
        home = (
            tmp_path / wanted.home_store_key
            if storage is StorageBackend.LOCAL_DIR
            else engine.path_of(home_name(workspace_id))
        )
        (home / "notes").write_bytes(b"every byte")
        if (
            storage is StorageBackend.OBJECT_STORE
        ):  # it never rests: a wish for STANDBY is recorded as ARCHIVED
            await installation.service.set_wish(workspace_id, DesiredState.STANDBY, BY)
            await installation.arrives(workspace_id, Phase.ARCHIVED)
            assert not home.exists()
        else:
            await installation.wish(workspace_id, DesiredState.ARCHIVED)
        await installation.wish(workspace_id, DesiredState.RUNNING)
        assert (home / "notes").read_bytes() == b"every byte"
        assert await installation.answers(workspace_id, "/healthz") == 200
        await purge(installation, workspace_id)


async def test_an_image_that_can_not_be_had_is_an_error_that_people_see(started: Start) -> None:
    workspace_id = SystemIdentity().new_id()
    wanted = spec(workspace_id, ide="http", image="Not A Name", storage=StorageBackend.DOCKER_VOLUME)
    async with started() as installation:
        await installation.stored.access.add_user(
            OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role=Role.MEMBER
        )
        await installation.service.create(workspace_id, wanted, BY)
        row = await installation.fails(workspace_id)
        assert row.status.error_info is not None
        assert row.status.error_info.reason == "ImagePullFailed"
