"""The real data plane's cost: starts, processor time, archives to S3 and looks, each
beside the bare calls, on Docker, the light image and SeaweedFS.

`python -m benchmarks.docker [--starts 20] [--size 1000000000] [--many 200]`
"""

import argparse
import asyncio
import logging
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import obstore
import structlog
from benchmarks.corpus import make_corpus
from tests.support.docker import BASE, LIGHT, TestEngine, cache, lent_engine
from tests.support.s3 import S3Server, running_s3, set_environment
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.instances import DockerInstances
from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.docker.volumes import home_name
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.embedded import find_running
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.access import Role as UserRole
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import InstanceBackend, Resources, Spec, StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.observe import Observer
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home, ignore_progress
from codehub.service.workspaces import WorkspaceService

BY = By("bench", verbatim("measuring"))
_MB = 1_000_000
_PROBE_S = 0.005


async def main_async(asked: argparse.Namespace) -> None:
    async with lent_engine() as engine, running_s3() as s3:
        with set_environment({"DOCKER_HOST": engine.url, **s3.environment()}):
            if asked.starts:
                await measure_starts(engine, s3, asked.starts)
            if asked.size:
                await measure_archive(engine, s3, asked.size)
            if asked.many:
                await measure_looks(engine, s3, asked.many)


# Starts: the program itself, as people run it, beside bare calls to the engine.


async def measure_starts(engine: TestEngine, s3: S3Server, count: int) -> None:
    settings = {
        "CODEHUB_INSTANCE_BACKEND": "local-docker",
        "CODEHUB_HELPER_IMAGE": BASE,
        "CODEHUB_ARCHIVE_URL": f"s3://{await s3.new_bucket()}/bench",
    }
    async with running_codehub(settings) as (service, api, pid):
        workspace_id = SystemIdentity().new_id()
        await service.create(workspace_id, spec(workspace_id, DesiredState.STANDBY), BY)
        await arrives(api, workspace_id, Phase.STANDBY)
        bare, ours, spent = [], [], []
        for turn in range(count + 1):
            probe = await asyncio.to_thread(bare_start, engine)
            began, cpu = time.perf_counter(), processor_s(pid)
            await service.set_wish(workspace_id, DesiredState.RUNNING, BY)
            await arrives(api, workspace_id, Phase.RUNNING)
            took = time.perf_counter() - began
            await asyncio.sleep(0.2)  # what a start costs afterwards is part of it
            if turn:
                bare.append(probe)
                ours.append(took)
                spent.append(processor_s(pid) - cpu)
            await service.set_wish(workspace_id, DesiredState.STANDBY, BY)
            await arrives(api, workspace_id, Phase.STANDBY)
    mine, other = statistics.median(ours), statistics.median(bare)
    print(
        f"wish RUNNING to observed RUNNING: p50 of {count}: {mine * 1000:.0f} ms, bare create, start and "
        f"first answer: {other * 1000:.0f} ms -> {mine / other:.2f}x (target: at most 1.25)"
    )
    print(
        (
            f"processor time of codehub per start, of {count} in turn: {statistics.mean(spent) * 1000:.1f} "
            "ms (target: at most 15)"
        ),
        flush=True,
    )


def bare_start(engine: TestEngine) -> float:
    """Create, start, and ask until it answers: what anybody has to do."""
    port = "8080/tcp"
    body = {
        "Image": LIGHT,
        "ExposedPorts": {port: {}},
        "HostConfig": {
            "NetworkMode": "codehub",
            "PortBindings": {port: [{"HostIp": "127.0.0.1", "HostPort": ""}]},
        },
    }
    began = time.perf_counter()
    made = engine.ask("POST", "containers/create", body=body)["Id"]
    engine.ask("POST", f"containers/{made}/start")
    bindings = engine.ask("GET", f"containers/{made}/json")["NetworkSettings"]["Ports"][port]
    while not answers(int(bindings[0]["HostPort"])):
        time.sleep(_PROBE_S)
    took = time.perf_counter() - began
    engine.ask("DELETE", f"containers/{made}", force=1)
    return took


def answers(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((host, port), 1) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(16).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


@asynccontextmanager
async def running_codehub(
    settings: Mapping[str, str],
) -> AsyncIterator[tuple[WorkspaceService, PostgresApiStore, int]]:
    """Run `codehub up`, and yield a service beside it, and the process's id."""
    with tempfile.TemporaryDirectory(prefix="codehub-bench-", dir="/var/tmp") as place:
        program = Path(sys.executable).with_name("codehub")
        process = await asyncio.create_subprocess_exec(
            program,
            "up",
            env={**os.environ, "CODEHUB_DATA_DIR": place, "CODEHUB_PORT": "0", **settings},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            while (line := await process.stdout.readline()) != b"ready\n":
                assert line, "codehub did not start"
            running = find_running(Path(place))
            assert running is not None
            with running:
                pool = await open_pool(running.connect_args, Role.API)
                await PostgresAccess(pool).add_user(
                    OWNER_ID, username="bench", password_hash=PASSWORD_HASH, role=UserRole.MEMBER
                )
                clock = SystemClock()
                api = PostgresApiStore(pool, PostgresHints(pool, running.connect_args, Role.API, clock=clock))
                yield WorkspaceService(api, limits=Limits(), trash_s=1000), api, process.pid
                pool.terminate()
        finally:
            process.terminate()
            await process.wait()


def processor_s(pid: int) -> float:
    """Return what this process has used, to the nanosecond;
    PostgreSQL has processes of its own, as has Docker.
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


async def arrives(api: PostgresApiStore, workspace_id: UUID, phase: Phase) -> Any:
    while True:
        row = await api.get(workspace_id)
        if row.status.phase is phase and row.status.operation is Operation.NONE:
            return row
        assert row.status.phase is not Phase.ERROR, row.status.error_info
        await asyncio.sleep(_PROBE_S)


def spec(workspace_id: UUID, wish: DesiredState) -> Spec:
    made = in_backends(InstanceBackend.LOCAL_DOCKER, StorageBackend.DOCKER_VOLUME, workspace_id)
    return replace(made, ide="http", image_ref=LIGHT, desired_state=wish)


# Archives


async def measure_archive(engine: TestEngine, s3: S3Server, size: int) -> None:
    async with opened(engine, f"s3://{await s3.new_bucket()}/bench") as (storage, _instances, _archives):
        home = Home(uuid4(), "")
        volume_id = await storage.provision(home)
        path = engine.path_of(home_name(home.workspace_id))
        with tempfile.TemporaryDirectory(prefix="corpus-", dir=cache()) as place:
            corpus = make_corpus(Path(place), size=size, files=size // 50_000)
            subprocess.run(["cp", "-a", f"{corpus.home}/.", path], check=True)
        ours, peer = [], []
        with tempfile.TemporaryDirectory(prefix="peer-", dir=cache()) as place:
            for turn in range(4):
                os.sync()
                other = await timed(lambda: asyncio.to_thread(_tar, path, Path(place) / "peer.tar.zst"))
                os.sync()
                mine = await timed(lambda: storage.archive(home, volume_id, uuid4(), ignore_progress, always))
                if turn:
                    peer.append(other)
                    ours.append(mine)
        await storage.delete_volume(home, volume_id)
    mine, other = statistics.median(ours), statistics.median(peer)
    print(
        f"archive of {size / _MB:.0f} MB from a volume to S3, read back: {mine:.2f} s "
        f"({size / _MB / mine:.0f} MB/s), tar | zstd -3 -T0: {other:.2f} s ({size / _MB / other:.0f} MB/s), "
        f"medians of 3 -> {other / mine:.2f}x (target: at least 0.5)",
        flush=True,
    )


def _tar(path: Path, target: Path) -> None:
    subprocess.run(["bash", "-c", f"tar -C {path} -cf - . | zstd -3 -T0 -q -f -o {target}"], check=True)


async def always() -> datetime:
    return datetime.now(UTC)


# Looks


async def measure_looks(engine: TestEngine, s3: S3Server, count: int) -> None:
    url = f"s3://{await s3.new_bucket()}/bench"
    async with opened(engine, url) as (storage, instances, archives):
        specs = [
            InstanceSpec(uuid4(), StorageBackend.DOCKER_VOLUME, "", LIGHT, "http", Resources(64, 1.0, 32))
            for _ in range(count)
        ]
        gate = asyncio.Semaphore(4)

        async def furnish(spec: InstanceSpec) -> None:
            async with gate:
                home = Home(spec.workspace_id, "")
                await instances.start(spec, await storage.provision(home))
                await storage.create_empty_archive(home, uuid4(), always)

        await asyncio.gather(*(furnish(spec) for spec in specs))
        observer = Observer(
            Backends({InstanceBackend.LOCAL_DOCKER: instances}, {StorageBackend.DOCKER_VOLUME: storage}),
            SystemClock(),
        )
        connection = storage._engine

        async def ours() -> None:
            looks, listed = await asyncio.gather(observer.look(), storage.list_archives())
            seen = looks.instances[InstanceBackend.LOCAL_DOCKER]
            assert isinstance(seen, dict)
            assert len(seen) == len(listed) == count
            assert all(instance.healthy for instance in seen.values())

        async def bare() -> None:
            containers, volumes, listed = await asyncio.gather(
                connection.list_labelled("containers/json", {"codehub.role": "instance"}, all=True),
                connection.list_labelled("volumes", {}),
                obstore.list(archives._store()).collect_async(),
            )
            assert (len(containers), len(volumes["Volumes"]), len(listed)) == (
                count,
                2 * count + 1,
                2 * count + 1,
            )

        taken: dict[str, list[float]] = {"ours": [], "bare": []}
        for turn in range(11):
            for name, work in (("bare", bare), ("ours", ours)):
                took = await timed(work)
                if turn:
                    taken[name].append(took)
    mine, other = statistics.median(taken["ours"]), statistics.median(taken["bare"])
    print(
        f"a look at {count} running containers (asked for their health where none answered within a "
        f"second), volumes and archives: {mine * 1000:.0f} ms, the bare lists: {other * 1000:.0f} ms, "
        f"medians of 10 -> {mine / other:.2f}x (target: at most 2)",
        flush=True,
    )


@asynccontextmanager
async def opened(
    engine: TestEngine, url: str
) -> AsyncIterator[tuple[DockerStorage, DockerInstances, Objects]]:
    installation = str(uuid4())
    connection = Engine(engine.url, installation=installation)
    objects = Objects(url, installation=installation)
    pipes = Path(tempfile.mkdtemp(prefix="codehub-pipes-", dir="/var/tmp"))
    storage = DockerStorage(
        connection,
        helper_image=BASE,
        archives=ObjectArchives(objects),
        identity=SystemIdentity(),
        pipes=pipes,
    )
    instances = DockerInstances(
        connection, lambda spec: storage.locate(spec.workspace_id), clock=SystemClock()
    )
    await objects.prepare()
    await storage.prepare()
    await instances.open()
    try:
        yield storage, instances, objects
    finally:
        await asyncio.to_thread(engine.remove_labelled, installation)
        await connection.close()
        pipes.rmdir()


async def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def main() -> None:
    if shutil.which("dockerd") is None:
        print("no dockerd: nothing is measured")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--size", type=int, default=1_000 * _MB)
    parser.add_argument("--many", type=int, default=200)
    asked, _ = parser.parse_known_args()
    import uvloop  # noqa: PLC0415  # as `codehub up` does

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    uvloop.run(main_async(asked))


if __name__ == "__main__":
    main()
