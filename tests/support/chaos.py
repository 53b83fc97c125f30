"""What chaos is on any platform: a codehub beside a database and a bucket, people who wish,
and judges who look at each home after each round. The platform's own harm is added by a subclass.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from tests.support.groups import remove_groups
from tests.support.patience import PATIENCE_S, until, within
from tests.support.postgres import TestServer, running_server
from tests.support.program import environment
from tests.support.s3 import S3Server, running_s3, set_environment
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.access import Role as UserRole
from codehub.core.amendments import By
from codehub.core.conditions import unknown_conditions
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.requests import Refused
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import StoreUnavailable
from codehub.service.workspaces import WorkspaceService

SEED = int(os.environ.get("CODEHUB_TEST_CHAOS_SEED", "1"))
STOPPED_S = float(os.environ.get("CODEHUB_TEST_CHAOS_STOPPED_S", "5"))
CONVERGES_S_MAX = 2 * PATIENCE_S
BY = By("chaos", verbatim("the test"))
_WORKSPACES = 3
_WISHES = (DesiredState.RUNNING, DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED)

Harm = Callable[[], Awaitable[None]]


def rounds(default: int) -> int:
    return int(os.environ.get("CODEHUB_TEST_CHAOS_ROUNDS", str(default)))


@dataclass
class Surroundings:
    """What codehub uses beside its platform, and what a judge asks."""

    dice: random.Random
    postgres: TestServer
    s3: S3Server
    bucket: str
    environ: dict[str, str]
    log: Path
    api: PostgresApiStore
    service: WorkspaceService
    archives: ObjectArchives
    installation: str


@dataclass
class Chaos(ABC):
    """Everything that can be harmed, and what is known of the homes."""

    BACKENDS: ClassVar[tuple[InstanceBackend, StorageBackend]]
    IMAGE: ClassVar[str]

    around: Surroundings
    codehub: subprocess.Popen[bytes] | None = None
    ids: list[UUID] = field(default_factory=list)
    written: dict[UUID, dict[str, bytes]] = field(default_factory=dict)

    # What a platform tells

    @abstractmethod
    def instances(self) -> Sequence[UUID]:
        """Return the workspace of each instance that there is."""

    @abstractmethod
    def homes(self) -> Set[UUID]:
        """Return every workspace of which there is a home."""

    @abstractmethod
    def path_of(self, workspace_id: UUID) -> Path:
        """Return where a home's files are."""

    @abstractmethod
    def left(self) -> list[str]:
        """Return what there is of any workspace."""

    # Codehub itself

    def start_codehub(self) -> None:
        self.codehub = self.launched()

    def launched(self) -> subprocess.Popen[bytes]:
        with self.around.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "codehub", "up"],
                env=self.around.environ,
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
        await asyncio.sleep(self.around.dice.random())
        self.start_codehub()

    async def harm_postgres(self) -> None:
        process = self.around.postgres.process
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.wait, PATIENCE_S)
        await asyncio.sleep(self.around.dice.random())
        self.around.postgres.process = _relaunched(process)

    async def harm_s3(self) -> None:
        await self.around.s3.halt()
        await asyncio.sleep(self.around.dice.random())
        await self.around.s3.launch()

    async def harm_by_a_long_sleep(self) -> None:
        """A controller is stopped, another takes over, and the first one wakes up with old plans."""
        first = self.codehub
        assert first is not None
        first.send_signal(signal.SIGSTOP)
        self.start_codehub()
        await asyncio.sleep(STOPPED_S)
        first.send_signal(signal.SIGCONT)
        await asyncio.sleep(1 + self.around.dice.random())
        first.kill()
        first.wait()

    # What people do

    async def create(self) -> None:
        """Make the workspaces that this is about."""
        for number in range(_WORKSPACES):
            workspace_id = SystemIdentity().new_id()
            spec = in_backends(*self.BACKENDS, workspace_id)
            spec = replace(spec, name=f"chaos-{number}", ide="http", image_ref=self.IMAGE)
            assert isinstance(await self.around.service.create(workspace_id, spec, BY), Workspace)
            self.ids.append(workspace_id)
            self.written[workspace_id] = {}
        await self.converged()

    async def play(self, turn: int, harm: Harm) -> None:
        """A round: people wish, something is harmed meanwhile, and in the end all is as they wished."""
        dice = self.around.dice
        moving = asyncio.gather(*(self.wish(workspace_id, dice.choice(_WISHES)) for workspace_id in self.ids))
        await asyncio.sleep(dice.random() * 1.5)
        await harm()
        await moving
        rows = await self.agreed()
        await self.judge(rows)
        self.write(rows, turn)

    async def wish(self, workspace_id: UUID, wanted: DesiredState) -> None:
        """Wish as often as it takes: while something runs, or the
        database is away, the answer is to come back.
        """
        async with within(CONVERGES_S_MAX):
            while True:
                with suppress(StoreUnavailable):
                    ruled = await self.around.service.set_wish(workspace_id, wanted, BY)
                    if not isinstance(ruled.ruling, Refused):
                        return
                    row = await self.around.api.get(workspace_id)
                    if row.status.phase is Phase.ERROR:
                        await self.recover(row)
                await asyncio.sleep(0.1)

    async def recover(self, row: Workspace) -> None:
        """Only an instance that was killed again and again is an error that may come of this."""
        assert row.status.error_info is not None
        assert row.status.error_info.reason == "CrashLoop", row.status.error_info
        await self.around.service.recover(row.id, BY)

    async def converged(self) -> list[Workspace]:
        """Wait until every workspace is where its wish is."""
        async with within(CONVERGES_S_MAX):
            while True:
                if self.codehub is not None and self.codehub.poll() is not None:
                    self.start_codehub()  # as systemd would: it does not start while its platform is away
                with suppress(StoreUnavailable):
                    rows = [await self.around.api.get(workspace_id) for workspace_id in self.ids]
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

    async def agreed(self) -> list[Workspace]:
        """Wait until that is so of what is there, too: codehub may not have looked since the harm."""
        deadline = time.monotonic() + CONVERGES_S_MAX
        while True:
            rows = await self.converged()
            differences = self._differences(rows)
            if not differences:
                return rows
            assert time.monotonic() < deadline, differences
            await asyncio.sleep(0.1)

    def _differences(self, rows: list[Workspace]) -> dict[str, object]:
        """Return what is there once too often or too rarely, and whom codehub can't see."""
        running = sorted(row.id for row in rows if row.status.phase is Phase.RUNNING)
        kept = {row.id for row in rows if row.status.phase is not Phase.ARCHIVED}
        unseen = [row.id for row in rows if unknown_conditions(row.status.conditions, Operation.NONE)]
        there = {"instances": (sorted(self.instances()), running), "homes": (self.homes(), kept)}
        differences: dict[str, object] = {what: pair for what, pair in there.items() if pair[0] != pair[1]}
        return {**differences, "unseen": unseen} if unseen else differences

    def write(self, rows: list[Workspace], turn: int) -> None:
        """Write as the IDE would: into homes of running workspaces alone, and remember it."""
        dice = self.around.dice
        for row in rows:
            if row.status.phase is Phase.RUNNING:
                content = dice.randbytes(dice.choice((10, 100_000, 3_000_000)))
                name = f"file-{turn % 4}"
                (self.path_of(row.id) / name).write_bytes(content)
                self.written[row.id][name] = content

    # Judges

    async def judge(self, rows: list[Workspace]) -> None:
        """Nothing is lost: what is there is counted already."""
        for row in rows:
            if row.status.phase is Phase.ARCHIVED:
                assert row.status.archive_key is not None
                await until(partial(self._is_archived, row.status.archive_key))
                continue
            files = {
                path.name: path.read_bytes() for path in self.path_of(row.id).iterdir() if path.is_file()
            }
            assert files == self.written[row.id], row.id

    async def _is_archived(self, key: str) -> bool:
        """Whether this archive is there. A server that was killed just now may not serve what it holds
        yet.
        """
        try:
            archive = await self.around.archives.head(key)
        except BackendUnreachable:
            return False
        assert archive is not None
        assert archive.committed
        return True

    async def purge_everything(self) -> None:
        """Delete all of it, and see that nothing is left."""
        service, api = self.around.service, self.around.api
        async with within(CONVERGES_S_MAX):
            for workspace_id in self.ids:  # an instance that was lost just now is being started again
                while isinstance(await service.delete(workspace_id, BY, purge=True), Refused):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            for workspace_id in self.ids:
                while (await api.get(workspace_id)).status.phase is not Phase.DELETED:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        await until(lambda: self.left() == [], seconds=CONVERGES_S_MAX)
        assert list(await self.around.archives.list_all()) == []


def _relaunched(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        process.args, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@asynccontextmanager
async def surroundings(
    directory: Path, *, host: str = "127.0.0.1", **settings: str
) -> AsyncIterator[Surroundings]:
    """A database with a user, a bucket, and a codehub's environment with these settings. `host`: which of
    this machine's addresses the platform reaches the bucket by.
    """
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(running_server("postgres-18"))
        s3 = await stack.enter_async_context(running_s3(host))
        database = await stack.enter_async_context(postgres.migrated())
        bucket = await s3.new_bucket()
        store = f"s3://{bucket}/chaos"
        environ = environment(
            data_dir=str(directory / "data"),
            port="0",
            database_url=f"postgresql://{database['user']}@/{database['database']}?host={database['host']}",
            archive_url=store,
            idle_period_seconds="1",
            active_period_seconds="0.5",
            **settings,
        )
        stack.enter_context(set_environment(s3.environment()))
        pool = await open_pool(database, Role.API)
        stack.callback(pool.terminate)
        await PostgresAccess(pool).add_user(
            OWNER_ID, username="chaos", password_hash=PASSWORD_HASH, role=UserRole.MEMBER
        )
        api = PostgresApiStore(pool, PostgresHints(pool, database, Role.API, clock=SystemClock()))
        installation = str(await pool.fetchval("SELECT id FROM installation"))
        stack.callback(remove_groups, installation)
        yield Surroundings(
            random.Random(SEED),
            postgres,
            s3,
            bucket,
            {**environ, **s3.environment()},
            directory / "log",
            api,
            WorkspaceService(api, limits=Limits(100, 100), trash_s=1000),
            ObjectArchives(Objects(store, installation=installation)),
            installation,
        )
