"""The real clock, dice, ids and tasks."""

import asyncio

import pytest
from tests.support.patience import until

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks


def test_ids_are_version_7_sort_by_time_and_never_repeat() -> None:
    ids = [SystemIdentity().new_id() for _ in range(1000)]
    assert {(workspace_id.version, workspace_id.variant) for workspace_id in ids} == {
        (7, "specified in RFC 4122")
    }
    assert len(set(ids)) == 1000
    times = [workspace_id.int >> 80 for workspace_id in ids]
    assert times == sorted(times)


def test_randomness_gives_a_fraction_and_an_unguessable_token() -> None:
    dice = SystemRandomness()
    assert all(0 <= dice.fraction() < 1 for _ in range(100))
    assert len({dice.token() for _ in range(100)}) == 100
    assert len(dice.token()) >= 43


async def test_the_clock_never_goes_back() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before


async def test_tasks_are_held_and_ended_together() -> None:
    tasks = SystemTasks()
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = tasks.spawn(work(), name="work")
    await began.wait()
    await tasks.cancel_all()
    assert ended.is_set()
    assert task.cancelled()


async def test_a_task_that_fails_is_logged_and_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    async def fail() -> None:
        raise RuntimeError("no")

    tasks = SystemTasks()
    task = tasks.spawn(fail(), name="failing")
    await asyncio.wait({task})
    await until(lambda: "task_failed" in capsys.readouterr().out)
