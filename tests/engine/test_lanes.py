"""Lanes: much long work at once takes long, and nothing of it fails for having waited."""

import asyncio

from tests.support.engine import BY, EVERYONE, Plane, breathe

from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.rules import DEFAULT_RULES

ARCHIVES = 8
ARCHIVE_S = 20 * 60
STEP_S = 8  # less than what counts as a gap between two looks


async def test_what_waits_for_its_turn_to_be_archived_does_not_run_out_of_time() -> None:
    plane = Plane()
    controller = plane.controller()
    await plane.add_owner()
    rows = [await plane.make(f"ws-{number}") for number in range(ARCHIVES)]
    await plane.converge(controller)

    async def take_long(point: str) -> None:
        if point == "storage.archive.before_effect":
            done_at = plane.clock.seconds + ARCHIVE_S
            while plane.clock.seconds < done_at:  # noqa: ASYNC110  # the test moves the time
                await asyncio.sleep(0)

    plane.hook = take_long
    for row in rows:
        await plane.service.set_wish(row.id, DesiredState.ARCHIVED, BY)
    began = plane.clock.seconds
    while any(row.status.phase is not Phase.ARCHIVED for row in plane.store.dump().values()):
        await controller.run_pass(EVERYONE)
        await breathe()
        plane.clock.seconds += STEP_S
        for row in plane.store.dump().values():
            assert row.status.phase is not Phase.ERROR, row.status.error_info
    assert plane.clock.seconds - began > 2 * DEFAULT_RULES.time_limits[Operation.ARCHIVING].total_seconds()
    await plane.close()
