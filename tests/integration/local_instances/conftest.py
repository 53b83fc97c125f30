"""Local instances in a data directory of their own; nothing of them is left when a test ends."""

from collections.abc import AsyncIterator

import pytest
from tests.support.instances import LocalWorld, local_world

from codehub.adapters.local.sandbox import find_bubblewrap


@pytest.fixture
async def sandboxed() -> AsyncIterator[LocalWorld]:
    if find_bubblewrap() is None:
        pytest.skip("bubblewrap is not installed")
    async with local_world() as world:
        yield world


@pytest.fixture
async def plain() -> AsyncIterator[LocalWorld]:
    async with local_world(sandbox=False) as world:
        yield world


@pytest.fixture(params=["sandboxed", "plain"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[LocalWorld]:
    async with local_world(sandbox=request.param == "sandboxed") as made:
        yield made
