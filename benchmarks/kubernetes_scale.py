"""How codehub looks at a large cluster: what the first list takes, what a pass costs after one change, and
what is written and asked of the API server while nothing changes.

Real API server and PostgreSQL; a Pod and a claim made by hand for each workspace, all of them running. What
is measured is a process of its own, wired as the controller's role is.
`python -m benchmarks.kubernetes_scale [--many 5000] [--turns 20]`
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import structlog
from benchmarks.echo_ide import answering
from benchmarks.fill import fill
from benchmarks.hand_made import IN_CLUSTER, HandMade, only_an_api
from tests.support.kubernetes import NO_KUBERNETES, lent_cluster
from tests.support.kubernetes_world import NAMESPACE, prepare_namespace
from tests.support.ports import free_port
from tests.support.postgres import running_server
from tests.support.program import environment

from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import ConnectArgs, Role, open_pool
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.system.machine import SystemClock
from codehub.app.database import database, stores
from codehub.app.open_platform import open_platform
from codehub.app.platform import Platform
from codehub.app.process import make_system
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.engine.controller import WorkspaceController
from codehub.engine.system import Cadence
from codehub.engine.wakeups import Wakeup
from codehub.ports.metrics import NoMetrics
from codehub.service.workspaces import WorkspaceService
from codehub.settings import load_settings

BY = By("bench", verbatim("measuring"))
EVERYONE = Wakeup(frozenset(), everyone=True)
REST_PASSES = 5
# What answered within a second is not asked again: no pass may profit from the one before.
PAUSE_S = 1.2


def main() -> None:
    if NO_KUBERNETES is not None:
        print(f"nothing is measured: {NO_KUBERNETES}")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=5_000)
    parser.add_argument("--turns", type=int, default=20)
    options, _ = parser.parse_known_args()
    asyncio.run(measure(options.many, options.turns))


async def measure(many: int, turns: int) -> None:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory, lent_cluster() as cluster, answering(port):
        kubeconfig = prepare_namespace(cluster)
        async with running_server("postgres-18") as server, server.migrated() as connect_args:
            with only_an_api(cluster):
                hand_made = HandMade(cluster, NAMESPACE, port=port)
                await fill_rows(connect_args, many)
                began = time.perf_counter()
                running = await hand_made.make(connect_args)
                print(f"{len(running):,} Pods and claims made by hand in {time.perf_counter() - began:.0f} s")
                settings = {
                    "data_dir": f"{directory}/data",
                    "database_url": f"postgresql://admin@/{connect_args['database']}?host={server.directory}",
                    "instance_backend": "k8s",
                    "k8s_kubeconfig": str(kubeconfig),
                    "k8s_archive_claim": "archives",
                    "archive_url": f"file://{directory}/archives",
                    "helper_image": "codehub",
                    "log_level": "error",
                }
                await converge(settings)
                async with measured("serve", settings) as process, changing(connect_args) as service:
                    print_first_list(json.loads(await line_of(process)))
                    rest = json.loads(await line_of(process))
                    before = hand_made.requests()
                    spent = []
                    for turn in range(turns + 1):
                        await asyncio.sleep(PAUSE_S)
                        await say(process, "begin")
                        hand_made.change(running[turn], turn)
                        await service.keep_awake(running[turn], BY, seconds=3600 + turn)
                        cpu_s, _written = json.loads(await line_of(process))
                        spent += [cpu_s] * bool(turn)
                    # What the turns themselves asked for is no request of codehub's.
                    asked = total(before, hand_made.requests()) - (turns + 1)
                hand_made.remove()
    print_rest(many, rest)
    print(
        f"a pass after one Pod and one row of {many:,} changed: {statistics.median(spent) * 1000:.1f} ms of "
        f"processor, worst {max(spent) * 1000:.1f} ms, of {turns} (target: 50), {asked} requests to the API "
        f"server for it; load of the machine {os.getloadavg()[0]:.1f}"
    )


async def fill_rows(connect_args: ConnectArgs, many: int) -> None:
    """Fill the database with so many that run."""
    connection = await asyncpg.connect(**connect_args)
    try:
        await fill(connection, many, idle=many)
        await connection.execute(IN_CLUSTER)
        await connection.execute("VACUUM ANALYZE workspaces")
    finally:
        await connection.close()


def print_first_list(figures: Mapping[str, float]) -> None:
    print(
        f"first list: {figures['list_s']:.1f} s, {figures['list_cpu_s']:.1f} s of processor (target: 10 s);"
        f" memory {figures['before_mb']:.0f} MB before, {figures['list_mb']:.0f} MB at most (target: 400),"
        f" load {os.getloadavg()[0]:.1f}"
    )


def print_rest(many: int, rest: Mapping[str, float]) -> None:
    print(
        f"a pass over all {many:,} at rest: {rest['cpu_s'] * 1000:.0f} ms of processor, "
        f"{rest['written']:.0f} rows written in {REST_PASSES} passes (target: 0), {rest['most_mb']:.0f} MB "
        "at most"
    )


def total(before: Mapping[tuple[str, str], int], after: Mapping[tuple[str, str], int]) -> int:
    return sum(after.values()) - sum(before.values())


# The process that is measured


async def converge(settings: Mapping[str, str]) -> None:
    """Write what made-up rows lack, in a process of its own."""
    async with measured("converge", settings) as process:
        assert await process.wait() == 0, "it did not converge"


@asynccontextmanager
async def measured(what: str, settings: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.kubernetes_scale", what),
        env=environment(**settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "it ended"
    return line


async def say(process: asyncio.subprocess.Process, word: str) -> None:
    """Return when it has heard it."""
    assert process.stdin is not None
    process.stdin.write(f"{word}\n".encode())
    assert await line_of(process) == b"heard\n"


@asynccontextmanager
async def changing(connect_args: ConnectArgs) -> AsyncIterator[WorkspaceService]:
    pool = await open_pool(connect_args, Role.API)
    hints = PostgresHints(pool, connect_args, Role.API, clock=SystemClock())
    try:
        yield WorkspaceService(PostgresApiStore(pool, hints), limits=Limits(), trash_s=1)
    finally:
        pool.terminate()


class Passes(NoMetrics):
    """Notes when a pass has ended, in processor time."""

    def __init__(self) -> None:
        self.ended = asyncio.Queue[tuple[float, int]]()

    def record_pass(self, _seconds: float, *, written: int, lost: int) -> None:
        self.ended.put_nowait((time.process_time(), written + lost))


async def run_measured(what: str) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    settings, system = load_settings(), make_system()
    async with database(settings, system) as connect_args, stores(connect_args, system, None) as all_stores:
        before_mb, began, cpu = memory_mb("VmRSS"), time.perf_counter(), time.process_time()
        async with open_platform(settings, all_stores, system, stops=False) as opened:
            await look(opened)
            first = {
                "before_mb": before_mb,
                "list_s": time.perf_counter() - began,
                "list_cpu_s": time.process_time() - cpu,
                "list_mb": memory_mb("VmHWM"),
            }
            passes = Passes()
            controller = WorkspaceController(
                *("bench", all_stores.controller, opened.backends, all_stores.controller_hints, system),
                cadence=Cadence(idle_s=3600.0),
                metrics=passes,
            )
            await controller.members.beat()
            if what == "converge":
                while await controller.run_pass(EVERYONE):
                    pass
                await controller.leave()
                return
            print(json.dumps(first), flush=True)
            print(json.dumps(await rest(controller)), flush=True)
            running = asyncio.create_task(controller.run())
            await serve(passes)
            running.cancel()


async def look(opened: Platform) -> None:
    for instances in opened.backends.instances.values():
        await instances.list_all()
    for homes in opened.home_stores.values():
        await homes.list_unmarked()


async def rest(controller: WorkspaceController) -> Mapping[str, float]:
    """Return what a pass over all costs that finds them as they were."""
    await controller.run_pass(EVERYONE)
    spent, written = [], 0
    for _ in range(REST_PASSES):
        await asyncio.sleep(PAUSE_S)
        cpu = time.process_time()
        written += await controller.run_pass(EVERYONE)
        spent.append(time.process_time() - cpu)
    return {"cpu_s": statistics.median(spent), "written": written, "most_mb": memory_mb("VmHWM")}


async def serve(passes: Passes) -> None:
    """Say of each turn what processor time was used from before its change to the end of the pass."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await passes.ended.get()  # the first of its run
    while await reader.readline():
        while not passes.ended.empty():
            passes.ended.get_nowait()
        cpu = time.process_time()
        print("heard", flush=True)
        ended_at, written = await passes.ended.get()
        print(json.dumps((ended_at - cpu, written)), flush=True)


def memory_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] in (["converge"], ["serve"]):
        import uvloop

        uvloop.run(run_measured(sys.argv[1]))
    else:
        main()
