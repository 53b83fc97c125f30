"""The store's contract, for every adapter: which workspaces are idle, as a table."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.stores import World

from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Status

_P, _D = Phase, DesiredState
TTL = {"standby_ttl_seconds": 300, "archive_ttl_seconds": 3600}
LONG, SHORT, SOON = timedelta(hours=-2), timedelta(seconds=-60), timedelta(minutes=5)

# phase, wish, last use, in this phase since, kept awake until, other fields of the spec, idle?
IDLE: dict[
    str,
    tuple[Phase, DesiredState, timedelta | None, timedelta | None, timedelta | None, dict[str, Any], bool],
] = {
    "unused": (_P.RUNNING, _D.RUNNING, LONG, LONG, None, {}, True),
    "never used": (_P.RUNNING, _D.RUNNING, None, LONG, None, {}, True),
    "used just now": (_P.RUNNING, _D.RUNNING, SHORT, LONG, None, {}, False),
    "running just now": (_P.RUNNING, _D.RUNNING, LONG, SHORT, None, {}, False),
    "kept awake": (_P.RUNNING, _D.RUNNING, LONG, LONG, SHORT, {}, False),
    "kept awake long ago": (_P.RUNNING, _D.RUNNING, LONG, LONG, LONG, {}, True),
    "no standby TTL": (_P.RUNNING, _D.RUNNING, LONG, LONG, None, {"standby_ttl_seconds": None}, False),
    "no time known": (_P.RUNNING, _D.RUNNING, None, None, None, {}, False),
    "running, wished STANDBY": (_P.RUNNING, _D.STANDBY, LONG, LONG, None, {}, False),
    "asleep": (_P.STANDBY, _D.STANDBY, LONG, LONG, None, {}, True),
    "asleep for a while": (_P.STANDBY, _D.STANDBY, SHORT, SHORT, None, {}, False),
    "asleep, kept awake": (_P.STANDBY, _D.STANDBY, LONG, LONG, SHORT, {}, True),
    "asleep, archive TTL 0": (_P.STANDBY, _D.STANDBY, SHORT, SHORT, None, {"archive_ttl_seconds": 0}, True),
    "asleep, no archive TTL": (
        _P.STANDBY,
        _D.STANDBY,
        LONG,
        LONG,
        None,
        {"archive_ttl_seconds": None},
        False,
    ),
    "asleep, wished RUNNING": (_P.STANDBY, _D.RUNNING, LONG, LONG, None, {}, False),
    "archived": (_P.ARCHIVED, _D.ARCHIVED, LONG, LONG, None, {}, False),
    "pending": (_P.PENDING, _D.PENDING, LONG, LONG, None, {}, False),
    "deleted": (_P.STANDBY, _D.PENDING, LONG, LONG, None, {"deleted_at": LONG, "purge_at": SOON}, False),
}


@pytest.mark.parametrize("case", IDLE.values(), ids=IDLE)
async def test_the_idle_are_those_of_this_table(
    world: World,
    case: tuple[
        Phase, DesiredState, timedelta | None, timedelta | None, timedelta | None, dict[str, Any], bool
    ],
) -> None:
    phase, wish, used, since, awake, more, is_idle = case
    now = await world.now()

    def at(offset: timedelta | None) -> datetime | None:
        return None if offset is None else now + offset

    fields = {name: at(value) if isinstance(value, timedelta) else value for name, value in more.items()}
    spec = world.spec(
        **{"desired_state": wish, "last_access_at": at(used), "awake_until": at(awake), **TTL, **fields}
    )
    workspace = await world.place(spec, Status(phase=phase, phase_changed_at=at(since)))
    loaded = await world.controller.load_idle()
    assert list(loaded.workspaces) == ([workspace] if is_idle else [])
    assert loaded.now >= workspace.updated_at


async def test_what_moves_is_not_idle(world: World) -> None:
    now = await world.now()
    moving = Status(
        phase=Phase.RUNNING,
        phase_changed_at=now + LONG,
        operation=Operation.STOPPING,
        op_id=uuid4(),
        op_started_at=now,
    )
    await world.place(world.spec(desired_state=DesiredState.RUNNING), moving)
    assert (await world.controller.load_idle()).workspaces == []


async def test_no_more_is_idle_than_was_asked_for(world: World) -> None:
    status = Status(phase=Phase.RUNNING, phase_changed_at=await world.now() + LONG)
    for _ in range(3):
        await world.place(world.spec(), status)
    assert len((await world.controller.load_idle(limit=2)).workspaces) == 2
