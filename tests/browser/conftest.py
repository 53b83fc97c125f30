"""Chromium, started once, and pages in it: an error in the console fails the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from playwright.async_api import Browser, Page
from tests.support.chromium import CHROMIUM, chromium_running, watched_page
from tests.support.site import Site, open_site
from tests.support.stores import memory_world

from codehub.core.limits import Limits

Pages = Callable[..., Awaitable[Page]]


def row(workspace: dict[str, str]) -> str:
    """Return where a workspace is in the list."""
    return f"#ws-{workspace['id']}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/browser/" in str(item.path):
            item.add_marker(
                pytest.mark.skipif(
                    not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)"
                )
            )


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with chromium_running() as browser:
        yield browser


@pytest.fixture
async def pages(chromium: Browser) -> AsyncIterator[Pages]:
    """Open a page of somebody's own browser: another context, so another person."""
    complaints: list[str] = []
    async with AsyncExitStack() as stack:

        async def open_page(**options: Any) -> Page:
            return await stack.enter_async_context(watched_page(chromium, complaints, **options))

        yield open_page
    assert not complaints, complaints


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Everything but the IDE is real, and what is behind it is in memory."""
    async with open_site(memory_world(), controlled=True, limits=Limits(per_user=3), boot_s=0.5) as opened:
        yield opened
        await opened.clients.aclose()
