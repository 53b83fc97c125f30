"""`python -m tests.support.built`: make once, in the cache, what takes
minutes to make, so that no suite's own time is spent on it.
"""

import asyncio

from tests.support.cluster.images import save_images
from tests.support.dev_server import built_vite
from tests.support.docker import NO_DOCKER, WHY_NO_CODE_SERVER, code_server, lent_engine
from tests.support.kubernetes import built_kubernetes


async def build() -> None:
    built_vite()
    if WHY_NO_CODE_SERVER is None:
        code_server()
    if NO_DOCKER is not None:
        return
    async with lent_engine() as engine:
        if WHY_NO_CODE_SERVER is None:
            engine.build_code_server()
        if built_kubernetes() is not None:
            save_images(engine)


if __name__ == "__main__":
    asyncio.run(build())
