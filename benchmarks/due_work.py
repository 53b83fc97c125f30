"""Loading 100 due workspaces from a table of 1,000 and from one of 100,000: the cost should be the same.

Measured twice: as the controller calls it, and the bare statement, in which no decoding hides a difference.
"""

import asyncio
import statistics
import time

import asyncpg
from benchmarks.database import migrated_database
from benchmarks.fill import fill

from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.postgres.connect import ConnectArgs, Role, open_pool
from codehub.adapters.postgres.sql import statements
from codehub.adapters.postgres.store import PostgresControllerStore

DUE = 100
SIZES = (1_000, 100_000)
REPETITIONS = 300
RATIO_MAX = 1.3


def main() -> None:
    asyncio.run(run())


async def run() -> None:
    called, bare = [], []
    async with migrated_database() as connect_args:
        for size in SIZES:
            calls, fetches = await measure(connect_args, size)
            called.append(statistics.median(calls))
            bare.append(statistics.median(fetches))
            print(
                f"load_due of {DUE} in {size:,}: median {called[-1] * 1000:.2f} ms, "
                f"of which the statement {bare[-1] * 1000:.2f} ms ({len(calls)} times)"
            )
    print(
        f"due_work_ratio: {called[1] / called[0]:.2f}, of the statement {bare[1] / bare[0]:.2f} (at most {RATIO_MAX})"
    )


async def measure(connect_args: ConnectArgs, size: int) -> tuple[list[float], list[float]]:
    admin = await asyncpg.connect(**connect_args)
    await fill(admin, size, due=DUE)
    await admin.execute("CHECKPOINT")
    await admin.close()
    pool = await open_pool(connect_args, Role.CONTROLLER)
    store = PostgresControllerStore(pool, MemoryHints())
    calls, fetches = [], []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        loaded = await store.load_due()
        calls.append(time.perf_counter() - began)
        assert len(loaded.workspaces) == DUE
        began = time.perf_counter()
        await pool.fetch(*statements()["load_due"](limit=10_000))
        fetches.append(time.perf_counter() - began)
    await pool.close()
    warm = REPETITIONS // 10  # the first ones warm caches and statements
    return calls[warm:], fetches[warm:]


if __name__ == "__main__":
    main()
