"""Chaos on the real thing: PostgreSQL, Docker, S3, Redis and codehub itself are killed, stopped and restarted while workspaces go up and down.

After each round every workspace is where its wish is, with every byte that was ever written to its home, one container at most, and
nothing of anybody's left over. CODEHUB_TEST_CHAOS_ROUNDS says how many rounds (5), CODEHUB_TEST_CHAOS_SEED which ones.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from uuid import UUID

from tests.support.docker import BASE, DOCKER, LIGHT, Dockerd, alone, make_images
from tests.support.groups import remove_groups
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres import TestServer, running_server
from tests.support.program import environment
from tests.support.redis import REDIS, TestRedis, running_redis
from tests.support.s3 import S3, S3Server, running_s3, set_environment
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.docker.volumes import home_name
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.access import Role as UserRole
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.requests import Refused
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import StoreUnavailable
from codehub.service.workspaces import WorkspaceService

pytestmark = [DOCKER, S3, REDIS]

ROUNDS = int(os.environ.get("CODEHUB_TEST_CHAOS_ROUNDS", "5"))
SEED = int(os.environ.get("CODEHUB_TEST_CHAOS_SEED", "1"))
STOPPED_S = float(os.environ.get("CODEHUB_TEST_CHAOS_STOPPED_S", "5"))
WORKSPACES = 3
CONVERGES_S_MAX = 2 * PATIENCE_S
BY = By("chaos", verbatim("the test"))
WISHES = (DesiredState.RUNNING, DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED)


@dataclass
class World:
    """Everything that can be harmed, and what is known of the homes."""

    dice: random.Random
    postgres: TestServer
    redis: TestRedis
    s3: S3Server
    daemon: Dockerd
    environ: dict[str, str]
    log: Path
    api: PostgresApiStore
    service: WorkspaceService
    archives: ObjectArchives
    codehub: subprocess.Popen[bytes] | None = None
    ids: list[UUID] = field(default_factory=list)
    written: dict[UUID, dict[str, bytes]] = field(default_factory=dict)

    # Codehub itself

    def start_codehub(self) -> None:
        self.codehub = self.launched()

    def launched(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "codehub", "up"],
                env=self.environ,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def kill_codehub(self) -> None:
        assert self.codehub is not None
        self.codehub.kill()
        self.codehub.wait()

    # Harm

    async def harm_codehub(self) -> None:
        self.kill_codehub()
        await asyncio.sleep(self.dice.random())
        self.start_codehub()

    async def harm_container(self) -> None:
        engine = self.daemon.engine
        assert engine is not None
        running = [each["Id"] for each in engine.ask("GET", "containers/json")]
        if running:
            with suppress(Exception):  # it may have gone by itself
                engine.ask("POST", f"containers/{self.dice.choice(running)}/kill")

    async def harm_docker(self) -> None:
        await asyncio.to_thread(self.daemon.halt)
        await asyncio.sleep(self.dice.random() * 2)
        await asyncio.to_thread(self.daemon.start)

    async def harm_postgres(self) -> None:
        process = self.postgres.process
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.wait, PATIENCE_S)
        await asyncio.sleep(self.dice.random())
        self.postgres.process = relaunched(process)

    async def harm_redis(self) -> None:
        await self.redis.stop()
        await asyncio.sleep(self.dice.random())
        await self.redis.start()

    async def harm_s3(self) -> None:
        await self.s3.halt()
        await asyncio.sleep(self.dice.random())
        await self.s3.launch()

    async def harm_by_a_long_sleep(self) -> None:
        """A controller is stopped, another takes over, and the first one wakes up with old plans."""
        first = self.codehub
        assert first is not None
        first.send_signal(signal.SIGSTOP)
        self.start_codehub()
        await asyncio.sleep(STOPPED_S)
        first.send_signal(signal.SIGCONT)
        await asyncio.sleep(1 + self.dice.random())
        first.kill()
        first.wait()

    # What people do

    async def wish(self, workspace_id: UUID, wanted: DesiredState) -> None:
        """Wish as often as it takes: while something runs, or the database is away, the answer is to come back."""
        async with asyncio.timeout(CONVERGES_S_MAX):
            while True:
                with suppress(StoreUnavailable):
                    ruled = await self.service.set_wish(workspace_id, wanted, BY)
                    if not isinstance(ruled.ruling, Refused):
                        return
                    row = await self.api.get(workspace_id)
                    if row.status.phase is Phase.ERROR:
                        await self.recover(row)
                await asyncio.sleep(0.1)

    async def recover(self, row: Workspace) -> None:
        """Only a container that was killed again and again is an error that may come of this."""
        assert row.status.error_info is not None
        assert row.status.error_info.reason == "CrashLoop", row.status.error_info
        await self.service.recover(row.id, BY)

    async def converged(self) -> list[Workspace]:
        """Wait until every workspace is where its wish is."""
        async with asyncio.timeout(CONVERGES_S_MAX):
            while True:
                if self.codehub is not None and self.codehub.poll() is not None:
                    self.start_codehub()  # as systemd would: it does not start while Docker is away
                with suppress(StoreUnavailable):
                    rows = [await self.api.get(workspace_id) for workspace_id in self.ids]
                    for row in rows:
                        if row.status.phase is Phase.ERROR:
                            await self.recover(row)
                    if all(
                        row.status.operation is Operation.NONE
                        and row.status.phase.value == row.spec.desired_state.value
                        for row in rows
                    ):
                        return rows
                await asyncio.sleep(0.1)

    # Judges

    async def judge(self, rows: list[Workspace]) -> None:
        engine = self.daemon.engine
        assert engine is not None
        containers = sorted(
            each["Names"][0]
            for each in engine.ask("GET", "containers/json", all=1)
            if "/codehub-ws-" in each["Names"][0]
        )
        assert containers == sorted(
            f"/codehub-ws-{row.id}" for row in rows if row.status.phase is Phase.RUNNING
        )
        volumes = {
            each["Name"] for each in engine.ask("GET", "volumes")["Volumes"] if each["Name"].endswith("-home")
        }
        assert volumes == {home_name(row.id) for row in rows if row.status.phase is not Phase.ARCHIVED}
        for row in rows:
            if row.status.phase is Phase.ARCHIVED:
                assert row.status.archive_key is not None
                await until(partial(self._is_archived, row.status.archive_key))
                continue
            home = engine.path_of(home_name(row.id))
            found_files = {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}
            assert found_files == self.written[row.id], row.id

    async def _is_archived(self, key: str) -> bool:
        """Whether this archive is there. A server that was killed just now may not serve what it holds yet."""
        try:
            archive = await self.archives.head(key)
        except BackendUnreachable:
            return False
        assert archive is not None
        assert archive.committed
        return True

    def write(self, rows: list[Workspace], turn: int) -> None:
        """Write as the IDE would: into homes of running workspaces alone, and remember it."""
        engine = self.daemon.engine
        assert engine is not None
        for row in rows:
            if row.status.phase is Phase.RUNNING:
                content = self.dice.randbytes(self.dice.choice((10, 100_000, 3_000_000)))
                name = f"file-{turn % 4}"
                (engine.path_of(home_name(row.id)) / name).write_bytes(content)
                self.written[row.id][name] = content


def relaunched(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        process.args, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(running_server("postgres-18"))
        redis = await stack.enter_async_context(running_redis())
        s3 = await stack.enter_async_context(running_s3())
        stack.enter_context(alone())
        daemon = Dockerd()
        stack.callback(daemon.stop)
        engine = await asyncio.to_thread(daemon.start_clean)
        await asyncio.to_thread(make_images, engine)
        database = await stack.enter_async_context(postgres.migrated())
        bucket = await s3.new_bucket()
        address = f"postgresql://{database['user']}@/{database['database']}?host={database['host']}"
        environ = environment(
            data_dir=str(directory / "data"),
            port="0",
            database_url=address,
            redis_url=redis.url,
            archive_url=f"s3://{bucket}/chaos",
            instance_backend="local-docker",
            helper_image=BASE,
            idle_period_seconds="1",
            active_period_seconds="0.5",
        )
        environ = {**environ, **s3.environment(), "DOCKER_HOST": engine.url}
        stack.enter_context(set_environment(s3.environment()))
        pool = await open_pool(database, Role.API)
        stack.callback(pool.terminate)
        await PostgresAccess(pool).add_user(
            OWNER_ID, username="chaos", password_hash=PASSWORD_HASH, role=UserRole.MEMBER
        )
        api = PostgresApiStore(pool, PostgresHints(pool, database, Role.API, clock=SystemClock()))
        installation = str(await pool.fetchval("SELECT id FROM installation"))
        stack.callback(remove_groups, installation)
        archives = ObjectArchives(Objects(f"s3://{bucket}/chaos", installation=installation))
        service = WorkspaceService(api, limits=Limits(100, 100), trash_s=1000)
        world = World(
            random.Random(SEED),
            postgres,
            redis,
            s3,
            daemon,
            environ,
            directory / "log",
            api,
            service,
            archives,
        )
        world.start_codehub()
        try:
            yield world
        finally:
            world.kill_codehub()


async def test_nothing_is_lost_doubled_or_orphaned(tmp_path: Path) -> None:
    print(f"seed {SEED}, {ROUNDS} rounds")  # noqa: T201  # pytest shows it when it matters
    async with opened(tmp_path) as world:
        for number in range(WORKSPACES):
            await create(world, number)
        harms: list[Callable[[], Awaitable[None]]] = [
            *(world.harm_codehub, world.harm_docker, world.harm_container, world.harm_s3),
            *(world.harm_postgres, world.harm_redis, world.harm_by_a_long_sleep, world.harm_codehub),
        ]
        await world.converged()
        for turn in range(ROUNDS):
            moving = asyncio.gather(
                *(world.wish(workspace_id, world.dice.choice(WISHES)) for workspace_id in world.ids)
            )
            await asyncio.sleep(world.dice.random() * 1.5)
            await harms[turn % len(harms)]()
            await moving
            rows = await world.converged()
            await world.judge(rows)
            world.write(rows, turn)
        await purge_everything(world)


async def create(world: World, number: int) -> None:
    workspace_id = SystemIdentity().new_id()
    spec = in_backends(InstanceBackend.LOCAL_DOCKER, StorageBackend.DOCKER_VOLUME, workspace_id)
    spec = replace(spec, name=f"chaos-{number}", ide="http", image_ref=LIGHT)
    assert isinstance(await world.service.create(workspace_id, spec, BY), Workspace)
    world.ids.append(workspace_id)
    world.written[workspace_id] = {}


async def purge_everything(world: World) -> None:
    """Delete all of it, and see that nothing is left."""
    async with asyncio.timeout(CONVERGES_S_MAX):
        for workspace_id in world.ids:  # an instance that was lost just now is being started again
            while isinstance(await world.service.delete(workspace_id, BY, purge=True), Refused):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for workspace_id in world.ids:
            while (await world.api.get(workspace_id)).status.phase is not Phase.DELETED:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    assert await eventually_empty(world) == []
    assert list(await world.archives.list_all()) == []


async def eventually_empty(world: World) -> list[str]:
    """Return what is left of workspaces on the engine, once what is being removed is."""
    engine = world.daemon.engine
    assert engine is not None
    deadline = time.monotonic() + CONVERGES_S_MAX
    while True:
        left = [each["Names"][0] for each in engine.ask("GET", "containers/json", all=1)]
        left += [
            each["Name"] for each in engine.ask("GET", "volumes")["Volumes"] if each["Name"].startswith("ws-")
        ]
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.1)
