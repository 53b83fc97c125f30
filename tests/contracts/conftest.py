"""The worlds that every contract is proved in."""

import pytest
from tests.conftest import ON_15, Worlds
from tests.support.stores import World, memory_world


@pytest.fixture(params=["memory", "postgres-18", ON_15])
async def world(request: pytest.FixtureRequest, worlds: Worlds) -> World:
    if request.param == "memory":
        in_memory = memory_world()
        await in_memory.add_user()
        return in_memory
    on_postgres = await worlds(request.param)
    await on_postgres.clean()
    return on_postgres
