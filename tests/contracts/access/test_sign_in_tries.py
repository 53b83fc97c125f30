"""The contract of access, tries to sign in: counted, waited for, forgotten; and the key of known devices."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from tests.support.access import Age
from tests.support.throttles import Timeless

from codehub.core.access import Throttle
from codehub.ports.access import AccessStore

TWICE = Throttle(free=2, wait_s_max=60.0)
# The first wait is a second: on a slow machine it would be over before the next try.
A_MINUTE_LESS = timedelta(minutes=-1)


async def test_tries_beyond_the_free_ones_have_to_wait(access: AccessStore, age: Age) -> None:
    throttles = {f"account {uuid4()}": TWICE, f"address {uuid4()}": replace(TWICE, free=5)}
    assert [await access.count_try(throttles) for _ in range(2)] == [0.0, 0.0]
    await age(A_MINUTE_LESS)
    assert 0 < await access.count_try(throttles) <= 60 + 1
    await access.clear_failures(list(throttles))
    assert await access.count_try(throttles) == 0.0


async def test_a_try_that_is_taken_back_was_none_and_earlier_ones_stay(access: AccessStore, age: Age) -> None:
    throttles = {f"address {uuid4()}": TWICE}
    for _ in range(4):
        assert await access.count_try(throttles) == 0.0
        await access.uncount_try(list(throttles))
    assert [await access.count_try(throttles) for _ in range(2)] == [0.0, 0.0]
    await access.uncount_try(list(throttles))
    assert await access.count_try(throttles) == 0.0
    await age(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0


async def test_a_hundred_tries_at_once_are_a_hundred_tries(access: AccessStore) -> None:
    throttles = {f"account {uuid4()}": Timeless(free=5, wait_s_max=60.0)}
    waits = await asyncio.gather(*(access.count_try(throttles) for _ in range(100)))
    assert sum(wait == 0.0 for wait in waits) == 5


async def test_failures_are_forgotten_after_a_while(access: AccessStore, age: Age) -> None:
    throttles = {f"account {uuid4()}": TWICE}
    for _ in range(2):
        await access.count_try(throttles)
    await age(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0
    await age(timedelta(seconds=1000) - A_MINUTE_LESS)
    assert await access.count_try(throttles) == 0.0
    assert await access.count_try(throttles) == 0.0
    await age(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0


async def test_devices_are_signed_with_one_key_that_stays(access: AccessStore) -> None:
    first, second = await access.device_signing_key(), await access.device_signing_key()
    assert (len(first.key), first.key, first.now <= second.now) == (32, second.key, True)


@pytest.mark.parametrize("key", ["a\0b", "\ud800", "x" * 10_000])
async def test_whatever_the_key_it_is_counted(access: AccessStore, age: Age, key: str) -> None:
    throttles = {key: Throttle(free=1, wait_s_max=60.0)}
    assert await access.count_try(throttles) == 0.0
    await age(A_MINUTE_LESS)
    assert await access.count_try(throttles) > 0
