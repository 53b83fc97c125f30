"""Progress of long work reaches people, at most once a second, and goes when the work has ended."""

from uuid import uuid4

from tests.support.engine import Plane

from codehub.core.operations import DesiredState
from codehub.engine.progress import ProgressBoard
from codehub.ports.storage import Amount


async def test_only_the_latest_of_many_reports_is_written() -> None:
    plane = Plane()
    row = await plane.store.get(await plane.create(DesiredState.PENDING))
    board, op_id = ProgressBoard(plane.store, plane.clock), uuid4()
    for done in range(100):
        board.report(row.id, op_id, Amount("archive", done, 200))
        plane.clock.seconds += 0.01
    plane.points.clear()
    await board.flush()
    await board.flush()
    assert plane.points == ["progress.before_commit"]
    written = plane.store._progress[row.id][1]
    assert (written.done_bytes, written.total_bytes) == (99, 200)
    assert written.bytes_per_second is not None
    assert 90 < written.bytes_per_second < 110
    board.end(row.id)
    await board.flush()
    assert row.id not in plane.store._progress


async def test_a_new_stage_begins_its_own_measure() -> None:
    plane = Plane()
    workspace_id, op_id = await plane.create(DesiredState.PENDING), uuid4()
    board = ProgressBoard(plane.store, plane.clock)
    board.report(workspace_id, op_id, Amount("archive", 100, 100))
    plane.clock.seconds += 10
    board.report(workspace_id, op_id, Amount("verify", 0, 100))
    plane.clock.seconds += 1
    board.report(workspace_id, op_id, Amount("verify", 50, 100))
    await board.flush()
    written = plane.store._progress[workspace_id][1]
    assert (written.stage, written.bytes_per_second, written.eta_seconds) == ("verify", 50.0, 1.0)
