"""A site in memory with a controller: the dashboard is asked as a browser would ask, without one."""

from collections.abc import AsyncIterator

import pytest
from tests.support.site import Site, open_site
from tests.support.stores import memory_world

from codehub.core.limits import Limits


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site(memory_world(), controlled=True, limits=Limits(per_user=2)) as opened:
        yield opened
        await opened.clients.aclose()
