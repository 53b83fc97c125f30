"""The engine's own cost: how late readiness is noticed, what a start costs, and what a pass over converged
workspaces costs as they grow.

Real PostgreSQL, the memory platform. The peer of readiness is the moment at which the server answers.
"""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
from benchmarks.database import migrated_database
from benchmarks.fill import fill

from codehub.adapters.memory.contents import Disk
from codehub.adapters.memory.instances import MemoryInstance, MemoryInstances
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import ConnectArgs, Role, open_pool
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.core.access import Role as UserRole
from codehub.core.operations import Phase
from codehub.core.workspace import InstanceBackend, Resources, Spec, StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.controller import WorkspaceController
from codehub.engine.system import System
from codehub.engine.wakeups import Wakeup
from codehub.ports.instances import InstanceSpec

SIZES = (1_000, 10_000, 100_000)
PASSES = 5
STARTS = 20
AT_ONCE = 50
ACTUATOR_S = 0.1
BOOT_S = 0.3
EVERYONE = Wakeup(frozenset(), everyone=True)
OWNER = UUID(int=1)


def main() -> None:
    asyncio.run(measure_starts())
    for size in SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.engine", str(size)], check=True)


class Plane:
    """A control plane on PostgreSQL and the memory platform."""

    def __init__(self, connect_args: ConnectArgs, *, boot_s: float, actuator_s: float) -> None:
        self.connect_args = connect_args
        self.clock = SystemClock()
        self.tasks = SystemTasks()

        async def slow(point: str) -> None:
            if point.endswith(".before_effect"):
                await asyncio.sleep(actuator_s)

        self.storage = MemoryStorage(now=lambda: datetime.now(UTC), identity=SystemIdentity(), faults=slow)
        self.instances = MemoryInstances(self.storage, clock=self.clock, boot_s=boot_s, faults=slow)
        self.backends = Backends(
            {InstanceBackend.LOCAL_DOCKER: self.instances}, {StorageBackend.DOCKER_VOLUME: self.storage}
        )

    async def add_owner(self) -> None:
        await self.access.add_user(OWNER, username="bench", password_hash="$argon2id$", role=UserRole.MEMBER)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[PostgresApiStore, WorkspaceController]]:
        api_pool = await open_pool(self.connect_args, Role.API)
        pool = await open_pool(self.connect_args, Role.CONTROLLER)
        hints = PostgresHints(pool, self.connect_args, Role.CONTROLLER, clock=self.clock)
        api = PostgresApiStore(
            api_pool, PostgresHints(api_pool, self.connect_args, Role.API, clock=self.clock)
        )
        self.access = PostgresAccess(api_pool)
        system = System(self.clock, SystemRandomness(), SystemIdentity(), self.tasks)
        controller = WorkspaceController(
            "bench", PostgresControllerStore(pool, hints), self.backends, hints, system
        )
        try:
            yield api, controller
        finally:
            await self.tasks.cancel_all()
            await controller.leave()  # or the next one would leave it its share until it is missed
            api_pool.terminate()
            pool.terminate()


async def measure_starts() -> None:
    async with migrated_database() as connect_args:
        plane = Plane(connect_args, boot_s=BOOT_S, actuator_s=0.0)
        async with plane.opened() as (api, controller):
            plane.tasks.spawn(controller.run(), name="controller")
            await plane.add_owner()
            lags = [await readiness_lag(plane, api, number) for number in range(STARTS)]
        print(
            f"readiness lag (server answers to phase RUNNING): median of {STARTS}: "
            f"{statistics.median(lags) * 1000:.0f} ms (target: at most 100)"
        )
        plane = Plane(connect_args, boot_s=0.0, actuator_s=ACTUATOR_S)
        async with plane.opened() as (api, controller):
            plane.tasks.spawn(controller.run(), name="controller")
            await asyncio.sleep(1)
            await many_starts(api)


async def readiness_lag(plane: Plane, api: PostgresApiStore, number: int) -> float:
    workspace = await api.create_workspace(SystemIdentity().new_id(), spec(f"lag-{number}"), [])
    await until_running(api, [workspace.id])
    seen_at = time.monotonic()
    return seen_at - plane.instances._instances[workspace.id].ready_at


async def many_starts(api: PostgresApiStore) -> None:
    """From the wish to RUNNING, provisioning included; the processor time is this whole process's, its own
    polling included.
    """
    ids = [SystemIdentity().new_id() for _ in range(AT_ONCE)]
    cpu, began = time.process_time(), time.monotonic()
    await asyncio.gather(
        *(
            api.create_workspace(workspace_id, spec(f"many-{number}"), [])
            for number, workspace_id in enumerate(ids)
        )
    )
    await until_running(api, ids, poll_s=0.03)
    took, spent = time.monotonic() - began, time.process_time() - cpu
    print(
        f"{AT_ONCE} at once, {ACTUATOR_S * 1000:.0f} ms actuators: all RUNNING after {took:.2f} s (target: "
        f"1), {spent / AT_ONCE * 1000:.1f} ms of processor each (target: at most 8)"
    )


async def until_running(api: PostgresApiStore, ids: list[UUID], *, poll_s: float = 0.005) -> None:
    waiting = list(ids)
    while waiting:
        row = await api.get(waiting[0])
        if row.status.phase is Phase.RUNNING:
            waiting.pop(0)
        else:
            await asyncio.sleep(poll_s)


def spec(name: str) -> Spec:
    return Spec(
        owner_user_id=OWNER,
        name=name,
        image_ref="image",
        ide="http",
        instance_backend=InstanceBackend.LOCAL_DOCKER,
        storage_backend=StorageBackend.DOCKER_VOLUME,
        home_store_key=name,
        standby_ttl_seconds=300,
        archive_ttl_seconds=86_400,
    )


async def measure_passes(size: int) -> None:
    async with migrated_database() as connect_args:
        admin = await asyncpg.connect(**connect_args)
        await fill(admin, size)
        await admin.execute(
            "UPDATE workspaces SET home_ctx = jsonb_build_object('volume_id', id, 'restore_marker', null, "
            "'dirty', true) WHERE phase IN ('RUNNING', 'STANDBY')"
        )
        await admin.execute("VACUUM ANALYZE workspaces")
        await admin.close()
        # What the made-up rows lack is written by a process of its own: the one that is measured finds them
        # converged.
        arguments = [sys.executable, "-m", "benchmarks.engine", "converge", json.dumps(dict(connect_args))]
        subprocess.run(arguments, check=True)
        plane = Plane(connect_args, boot_s=0.0, actuator_s=0.0)
        async with plane.opened() as (_api, controller):
            await furnish(plane)
            first = await timed(controller)
            passes = [await timed(controller) for _ in range(PASSES)]
    written = sum(count for _seconds, count in passes)
    memory_mb = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )  # its highest, the first pass included
    print(
        f"a pass over {size:,} converged workspaces: median of {PASSES}: "
        f"{statistics.median(seconds for seconds, _ in passes):.3f} s (first pass {first[0]:.1f} s), "
        f"{written} rows written, {memory_mb:.0f} MB (targets at 100,000: 2 s, 0 rows, 400 MB)"
    )


async def converge(connect_args: ConnectArgs) -> None:
    plane = Plane(connect_args, boot_s=0.0, actuator_s=0.0)
    async with plane.opened() as (_api, controller):
        await furnish(plane)
        while await controller.run_pass(EVERYONE):
            pass


async def furnish(plane: Plane) -> None:
    """Let the platform have what the rows say."""
    resources = Resources()
    admin = await asyncpg.connect(**plane.connect_args)
    async with admin.transaction():
        async for row in admin.cursor(
            "SELECT id, phase FROM workspaces WHERE phase IN ('RUNNING', 'STANDBY')"
        ):
            workspace_id = UUID(int=row["id"].int)
            plane.storage._disks[workspace_id] = Disk(str(workspace_id))
            if row["phase"] == Phase.RUNNING:
                described = InstanceSpec(
                    workspace_id, StorageBackend.DOCKER_VOLUME, "", "", "http", resources
                )
                plane.instances._instances[workspace_id] = MemoryInstance(described, str(workspace_id), 0.0)
    await admin.close()


async def timed(controller: WorkspaceController) -> tuple[float, int]:
    began = time.perf_counter()
    written = await controller.run_pass(EVERYONE)
    return time.perf_counter() - began, written


if __name__ == "__main__":
    if sys.argv[1:2] == ["converge"]:
        asyncio.run(converge(json.loads(sys.argv[2])))
    elif len(sys.argv) > 1:
        asyncio.run(measure_passes(int(sys.argv[1])))
    else:
        main()
