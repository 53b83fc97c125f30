"""Sites on PostgreSQL, opened once per process: one where nothing moves by itself, one with a controller."""

from collections.abc import AsyncIterator

import httpx
import pytest
from tests.conftest import Servers
from tests.support.site import BOUNDLESS, Site, open_site
from tests.support.stores import PostgresWorld


@pytest.fixture(scope="session")
async def opened_site(servers: Servers) -> AsyncIterator[Site]:
    async with (
        PostgresWorld.opened(await servers("postgres-18")) as world,
        open_site(world, ceilings=BOUNDLESS) as opened,
    ):
        yield opened


@pytest.fixture
async def site(opened_site: Site) -> AsyncIterator[Site]:
    """Nobody and nothing is there, and nothing moves by itself."""
    assert isinstance(opened_site.world, PostgresWorld)
    await opened_site.world.clean()
    opened_site.forget()
    yield opened_site
    await opened_site.clients.aclose()


@pytest.fixture
async def nobody(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who has not signed in."""
    async with site.anybody() as client:
        yield client


@pytest.fixture(scope="session")
async def opened_living_site(servers: Servers) -> AsyncIterator[Site]:
    async with (
        PostgresWorld.opened(await servers("postgres-18")) as world,
        open_site(world, controlled=True) as opened,
    ):
        yield opened


@pytest.fixture
async def living_site(opened_living_site: Site) -> AsyncIterator[Site]:
    """Wishes come true here. Others' workspaces may be there: each test has people of its own."""
    opened_living_site.forget()
    yield opened_living_site
    await opened_living_site.clients.aclose()
