"""A restore into a Docker volume whose process is killed (-9) half way: half
a home never counts, and the next try brings all of it back.
"""

import asyncio
import os
import random
import sys
from uuid import uuid4

from tests.support.docker import DOCKER
from tests.support.storages import OnDocker, granted, new_home, unheard
from tests.support.trees import picture

from codehub.adapters.docker.volumes import home_name
from codehub.core.observation import Volume

pytestmark = DOCKER

# Bytes that don't compress, so that half of an archive is half of a home.
FILES = {f"d{number}/f": random.Random(number).randbytes(2_000_000) for number in range(16)}


async def test_a_restore_that_was_killed_half_way_is_done_again_and_whole(storage: OnDocker) -> None:
    home, other = new_home(), new_home()
    volume_id = await storage.provider.provision(home)
    storage.write(home, FILES)
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    arguments = (
        storage.engine.url,
        storage.install_id,
        f"file://{storage.store}",
        str(other.workspace_id),
        key,
    )
    half = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.half_a_restore"), *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert half.stdout is not None
    assert await half.stdout.readline() == b"half\n"
    half.kill()
    await half.wait()
    assert storage.engine.find(f"volumes/{home_name(other.workspace_id)}") is not None
    assert (await storage.provider.list_volumes())[other.workspace_id].volume_id is None
    made = await storage.provider.restore(other, key, unheard)
    assert (await storage.provider.list_volumes())[other.workspace_id] == Volume(made.volume_id)
    assert picture(os.fsencode(storage.path(other))) == picture(os.fsencode(storage.path(home)))
