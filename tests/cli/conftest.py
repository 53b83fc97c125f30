"""A codehub in which wishes come true, and its command line in the hands of somebody with a token."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.conftest import living_site, opened_living_site
from tests.support.command import Command
from tests.support.site import Site

__all__ = ["living_site", "opened_living_site"]


@pytest.fixture(scope="session", autouse=True)
def bytecode() -> Iterator[None]:
    """Let programs keep bytecode, as people have it: without, every command compiles codehub anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture
async def command(living_site: Site, tmp_path: Path) -> Command:
    ann = await living_site.program("ann")
    token = ann.headers["Authorization"].removeprefix("Bearer ")
    return Command(tmp_path, {"url": living_site.address, "token": token})
