"""What a watch in memory shows: what it last heard, its own process's writes, or that it can't be read."""

import asyncio
from uuid import UUID, uuid4

import pytest

from codehub.adapters.memory import watch as watch_module
from codehub.adapters.memory.watch import Watch
from codehub.ports.backends import BackendUnreachable


def watched() -> tuple[dict[UUID, str], Watch[str]]:
    there = {uuid4(): "old"}
    return there, Watch(lambda: there)


def test_a_watch_that_is_behind_shows_what_there_was_and_then_what_there_is() -> None:
    there, watch = watched()
    before = dict(there)
    watch.fall_behind()
    there.clear()
    there[uuid4()] = "of another process"
    assert watch.known() == before
    watch.catch_up()
    assert watch.known() == there


def test_a_process_sees_what_it_has_written_however_far_its_watch_is_behind() -> None:
    there, watch = watched()
    watch.fall_behind()
    mine, others = uuid4(), uuid4()
    there |= {mine: "mine", others: "of another process"}
    watch.learn(mine)
    assert mine in watch.known()
    assert others not in watch.known()


def test_a_broken_watch_shows_nothing() -> None:
    _, watch = watched()
    watch.break_off()
    with pytest.raises(BackendUnreachable):
        watch.known()
    watch.catch_up()
    assert watch.known()


async def test_a_deletion_is_over_when_the_watch_has_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there, watch = watched()
    await watch.hear_of_deletion()
    watch.fall_behind()
    (gone,) = there
    del there[gone]
    watch.learn(gone)
    waiting = asyncio.create_task(watch.hear_of_deletion())
    await asyncio.sleep(0)
    assert gone in watch.known()
    assert not waiting.done()
    watch.catch_up()
    await waiting
    watch.fall_behind()
    monkeypatch.setattr(watch_module, "_PATIENCE_S", 0)
    with pytest.raises(BackendUnreachable):
        await watch.hear_of_deletion()
