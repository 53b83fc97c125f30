"""Homes that Jobs archive into a bucket and restore from there."""

import os
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import uuid4

from tests.support.home_job import Claim, checked
from tests.support.storages import unheard
from tests.support.trees import picture

from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.ports.archives import RunJob, archive_key

# Bytes that don't compress, so that an archive has several parts of 8 MB.
LARGE = {f"d{number}/f": random.Random(number).randbytes(3_000_000) for number in range(12)}
GIB = 1 << 30
PREFIX = "some/prefix"

At = Callable[..., AbstractAsyncContextManager[ObjectArchives]]


def new_key() -> str:
    return archive_key(uuid4(), uuid4())


async def write(archives: ObjectArchives, key: str, run: RunJob, *, capacity: int = GIB) -> None:
    await archives.write_by_job(key, run, unheard, checked, capacity=capacity, time_limit_s=60)


async def comes_back(archives: ObjectArchives, key: str, source: Claim, target: Claim) -> None:
    await archives.read_by_job(key, target.restore, unheard, time_limit_s=60)
    assert picture(os.fsencode(target.home)) == picture(os.fsencode(source.home))
    assert [path.name for path in target.path.iterdir()] == ["home"]
