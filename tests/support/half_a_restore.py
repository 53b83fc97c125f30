"""A process that restores half a home and waits to be killed: `python -m
tests.support.half_a_restore ENGINE INSTALLATION STORE HOME KEY`.
"""

import asyncio
import signal
import sys
from uuid import UUID

from tests.support.docker import BASE

from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.storage import Amount, Home


async def main(engine: str, installation: str, store: str, workspace_id: str, key: str) -> None:
    storage = DockerStorage(
        Engine(engine, installation=installation),
        helper_image=BASE,
        archives=ObjectArchives(Objects(store, installation=installation)),
        identity=SystemIdentity(),
    )

    def wait_at_half(amount: Amount) -> None:
        assert amount.total is not None
        if amount.done > amount.total / 2:
            print("half", flush=True)  # noqa: T201  # whoever started it waits for this
            signal.pause()

    await storage.restore(Home(UUID(workspace_id), ""), key, wait_at_half)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
