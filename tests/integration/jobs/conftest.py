"""A bucket of a real S3 server, and claims that Jobs work on."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.support.home_job import Claim, claims, own
from tests.support.job_bucket import LARGE, PREFIX, At
from tests.support.s3 import S3Server, running_s3, set_environment
from tests.support.storages import write_files

from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[S3Server]:
    async with running_s3() as running:
        yield running


@pytest.fixture
async def bucket(server: S3Server) -> str:
    return await server.new_bucket()


@pytest.fixture
def make_claim() -> Iterator[Callable[[], Claim]]:
    with claims() as make:
        yield make


@pytest.fixture
def claim(make_claim: Callable[[], Claim]) -> Claim:
    """A claim with a home of several parts."""
    made = make_claim()
    made.home.mkdir(mode=0o700)
    write_files(made.home, LARGE)
    own(made.home)
    return made


@pytest.fixture
def at(server: S3Server, bucket: str) -> At:
    @asynccontextmanager
    async def opened(**environment: str) -> AsyncIterator[ObjectArchives]:
        with set_environment(server.environment(**environment)):
            objects = Objects(f"s3://{bucket}/{PREFIX}", installation="i")
            await objects.prepare()
            yield ObjectArchives(objects)

    return opened
