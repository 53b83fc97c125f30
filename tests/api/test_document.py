"""The OpenAPI document: complete, true, and proof against whatever schemathesis makes of it."""

import asyncio
import os
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from tests.support.site import API, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role

EXAMPLES = int(os.environ.get("CODEHUB_TEST_EXAMPLES", "30"))


class Background:
    """A site in a thread of its own: schemathesis is not asynchronous."""

    def __init__(self) -> None:
        self.address = ""
        self.token = ""
        self._is_up, self._is_over = Event(), Event()
        self._thread = Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Background":
        self._thread.start()
        assert self._is_up.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(30)

    async def _run(self) -> None:
        async with open_site(memory_world(), controlled=True) as site:
            client = await site.program("root", Role.ADMIN)
            self.address, self.token = site.address, client.headers["Authorization"]
            self._is_up.set()
            await asyncio.to_thread(self._is_over.wait)


@pytest.fixture(scope="module")
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture(scope="module")
def api_schema(background: Background) -> Any:
    loaded = schemathesis.openapi.from_url(f"{background.address}/openapi.json")
    # A stream has no end; it has its own tests.
    return loaded.exclude(path=f"{API}/events").exclude(path=f"{API}/logout")


schema = schemathesis.pytest.from_fixture("api_schema")


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_nothing_that_the_document_allows_or_forbids_breaks_the_server(
    case: Any, background: Background
) -> None:
    headers = {"Authorization": background.token}
    response = case.call(base_url=background.address, headers=headers, timeout=20)
    case.validate_response(response, headers=headers, excluded_checks=[schemathesis.checks.ignored_auth])
