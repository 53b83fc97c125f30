"""A controller of local instances as a process of its own, to be
killed: it starts one workspace, says so and waits.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.instances import LocalWorld, become_healthy, new_spec

from codehub.adapters.local import launch


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# Where it is killed: just before the process is made, or just after and before anybody has seen it.
POINTS = {"before_spawn": ("_spawn", die), "after_spawn": ("Process", type("Killer", (), {"of": die}))}


async def main(base: str, install_id: str, workspace_id: str, point: str, sandbox: str = "True") -> None:
    world = LocalWorld(Path(base), install_id=install_id, sandbox=sandbox == "True")
    spec = new_spec(workspace_id=UUID(workspace_id))
    await world.instances.open()
    if point in POINTS:
        setattr(launch, *POINTS[point])
    _, volume_id = await world.home_of(spec)
    await world.instances.start(spec, volume_id or await world.make_volume(spec))
    if point == "healthy":
        await become_healthy(world.instances, spec.workspace_id)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    if point == "report":  # what a person sees, then the end
        await become_healthy(world.instances, spec.workspace_id)
        for command in sys.stdin.read().splitlines():
            sys.stdout.write(await world.inside(spec.workspace_id, command))
        await world.instances.stop_all(grace_s=0.5)
        await world.instances.close()
        return
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
