"""Back-up and restore of workspaces in containers: homes are volumes, archives and the copy in buckets."""

import json
import shutil
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from uuid import UUID

import httpx
from tests.support.docker import DOCKER, TestEngine
from tests.support.hands import ON_DOCKER, PASSWORD, arrives, signed_in
from tests.support.patience import block_until
from tests.support.program import codehub, running
from tests.support.s3 import S3, S3Server, running_s3, set_environment

from codehub.adapters.docker.volumes import home_name
from codehub.adapters.objectstore.store import MARK

pytestmark = [DOCKER, S3]


async def test_volumes_and_a_bucket_come_back_as_a_whole_on_an_engine_that_holds_nothing(
    engine: TestEngine, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    async with running_s3() as s3, AsyncExitStack() as stack:
        archives, others, copies = [await s3.new_bucket() for _ in range(3)]
        stack.enter_context(set_environment({"DOCKER_HOST": engine.url, **s3.environment()}))
        settings = {"instance_backend": "local-docker", **ON_DOCKER}
        before = {**settings, "archive_url": f"s3://{archives}/codehub"}
        after = {**settings, "archive_url": f"s3://{others}/codehub"}
        stack.push_async_callback(remove_from, engine, s3, archives)
        with running(old, initial_admin_password=PASSWORD, **before) as server, signed_in(server) as client:
            paths = {name: make(client, engine, name) for name in ("awake", "archived")}
            assert client.post(f"{paths['archived']}:archive").status_code == 200
            arrives(client, paths["archived"], "ARCHIVED")
            done = codehub("backup", f"s3://{copies}/today", "--json", data_dir=str(old), **before)
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            assert (report["archives"], report["homes"], report["missing"]) == (1, ["awake"], [])
            assert server.stop() == 0
        await remove_from(engine, s3, archives)
        shutil.rmtree(old)
        done = codehub("restore", f"s3://{copies}/today", "--yes", data_dir=str(new), **after)
        assert done.returncode == 0, done.stderr
        with running(new, **after) as server, signed_in(server) as client:
            # The other one is to run, and may be on its way by now.
            assert client.post(f"{paths['archived']}:start").status_code == 200
            for name, path in paths.items():
                # What a dump says of a workspace that ran is shown until it was looked at once.
                block_until(partial(has_note, engine, path))
                arrives(client, path, "RUNNING")
                assert note_of(engine, path).read_text() == f"kept by {name}"


def has_note(engine: TestEngine, path: str) -> bool:
    try:
        return note_of(engine, path).exists()
    except httpx.HTTPStatusError:  # its volume is not there yet
        return False


async def remove_from(engine: TestEngine, s3: S3Server, bucket: str) -> None:
    """Remove from the engine what the installation has made whose archives are in this bucket."""
    mark = await s3.ask("GET", f"/{bucket}/codehub/{MARK}")
    if mark.is_success:
        engine.remove_labelled(mark.text.strip())


def make(client: httpx.Client, engine: TestEngine, name: str) -> str:
    """Make a workspace that runs and has work in it, and return its path."""
    path = f"/workspaces/{client.post('/workspaces', json={'name': name}).json()['id']}"
    arrives(client, path, "RUNNING")
    note_of(engine, path).write_text(f"kept by {name}")
    return path


def note_of(engine: TestEngine, path: str) -> Path:
    return engine.path_of(home_name(UUID(path.rpartition("/")[2]))) / "note"
