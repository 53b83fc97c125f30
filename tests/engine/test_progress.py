"""Progress of long work reaches people, at most once a second, and goes when the work has ended."""

import asyncio
from uuid import uuid4

import pytest
from tests.support.engine import Plane, breathe

from codehub.core.operations import DesiredState
from codehub.engine.progress import ProgressBoard
from codehub.ports.storage import Amount


async def test_only_the_latest_of_many_reports_is_written() -> None:
    plane = Plane()
    row = await plane.store.get(await plane.create(DesiredState.PENDING))
    board = ProgressBoard(plane.store, plane.clock)
    meter = board.begin(row.id, uuid4())
    for done in range(100):
        meter(Amount("archive", done, 200))
        plane.clock.seconds += 0.01
    plane.points.clear()
    await board.flush()
    await board.flush()
    assert plane.points == ["progress.before_commit"]
    written = plane.store.written_progress(row.id)
    assert written is not None
    assert (written.done_bytes, written.total_bytes) == (99, 200)
    assert written.bytes_per_second is not None
    assert 90 < written.bytes_per_second < 110
    board.end(row.id, meter)
    await board.flush()
    assert plane.store.written_progress(row.id) is None


async def test_a_new_stage_begins_its_own_measure() -> None:
    plane = Plane()
    workspace_id = await plane.create(DesiredState.PENDING)
    board = ProgressBoard(plane.store, plane.clock)
    meter = board.begin(workspace_id, uuid4())
    meter(Amount("archive", 100, 100))
    plane.clock.seconds += 10
    meter(Amount("verify", 0, 100))
    plane.clock.seconds += 1
    meter(Amount("verify", 50, 100))
    await board.flush()
    written = plane.store.written_progress(workspace_id)
    assert written is not None
    assert (written.stage, written.bytes_per_second, written.eta_seconds) == ("verify", 50.0, 1.0)


async def test_what_is_reported_while_others_are_written_is_written_next() -> None:
    plane = Plane()
    workspace_id = await plane.create(DesiredState.PENDING)
    board = ProgressBoard(plane.store, plane.clock)
    meter = board.begin(workspace_id, uuid4())

    async def go_on(point: str) -> None:
        if point == "progress.before_commit":
            plane.hook = None
            meter(Amount("archive", 100, 100))

    plane.hook = go_on
    meter(Amount("archive", 50, 100))
    await board.flush()
    await board.flush()
    written = plane.store.written_progress(workspace_id)
    assert written is not None
    assert written.done_bytes == 100


async def test_a_step_that_ended_late_takes_nothing_from_the_next() -> None:
    plane = Plane()
    workspace_id = await plane.create(DesiredState.PENDING)
    board = ProgressBoard(plane.store, plane.clock)
    earlier = board.begin(workspace_id, uuid4())
    earlier(Amount("archive", 100, 100))
    meter = board.begin(workspace_id, uuid4())
    meter(Amount("restore", 1, 2))
    board.end(workspace_id, earlier)
    await board.flush()
    written = plane.store.written_progress(workspace_id)
    assert written is not None
    assert written.stage == "restore"


async def test_progress_that_can_t_be_written_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane()
    workspace_id = await plane.create(DesiredState.PENDING)
    board, tries = ProgressBoard(plane.store, plane.clock), 0
    meter = board.begin(workspace_id, uuid4())

    async def write(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise RuntimeError("not now")

    monkeypatch.setattr(plane.store, "write_progress", write)
    running = asyncio.ensure_future(board.run())
    for done in (1, 2):
        meter(Amount("archive", done, 2))
        await breathe()
    running.cancel()
    assert tries == 2
