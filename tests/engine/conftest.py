"""A control plane in memory for every test of the engine that asks for one."""

from collections.abc import AsyncIterator

import pytest
from tests.support.engine import Plane


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    yield made
    await made.close()
