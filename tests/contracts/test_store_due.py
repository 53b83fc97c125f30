"""The store's contract, for every adapter: which workspaces are due, and which are idle, as tables."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.stores import World

from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Status, Workspace

_P, _D, _O = Phase, DesiredState, Operation
LONG_AGO, RECENTLY, SOON = timedelta(days=-9), timedelta(seconds=-5), timedelta(minutes=5)
DELETION = {"deleted_at": LONG_AGO, "purge_at": SOON, "desired_state": _D.PENDING}
PURGE = {**DELETION, "purge_at": LONG_AGO}


@dataclass(frozen=True)
class Case:
    """Times are said relative to the database's now."""

    is_due: bool
    phase: Phase
    wish: DesiredState | None = None
    operation: Operation = Operation.NONE
    spec: dict[str, Any] = field(default_factory=dict)
    has_archive: bool = False
    error_at: timedelta | None = None


DUE: dict[str, Case] = {
    # an operation under way, whatever the rest says
    "operation": Case(True, _P.STANDBY, _D.STANDBY, _O.STOPPING),
    "operation of the undeleted": Case(True, _P.ARCHIVED, _D.PENDING, _O.ARCHIVING),
    "operation of the deleted": Case(True, _P.ARCHIVED, None, _O.DELETING, DELETION),
    "operation in the trash": Case(True, _P.DELETED, None, _O.DELETING, PURGE, has_archive=True),
    # a deletion that is open, and one that is done
    "deletion of RUNNING": Case(True, _P.RUNNING, spec=DELETION),
    "deletion of PENDING": Case(True, _P.PENDING, spec=DELETION),
    "deletion of ARCHIVED": Case(True, _P.ARCHIVED, spec=DELETION),
    "deletion of ERROR, newer": Case(
        True, _P.ERROR, spec={**DELETION, "deleted_at": RECENTLY}, error_at=LONG_AGO
    ),
    "deletion of ERROR, older": Case(True, _P.ERROR, spec=DELETION, error_at=RECENTLY),
    "deleted": Case(False, _P.DELETED, spec=DELETION),
    "deleted and undone": Case(True, _P.DELETED, _D.PENDING),
    # the trash
    "trash in its time": Case(False, _P.DELETED, spec=DELETION, has_archive=True),
    "trash whose time is over": Case(True, _P.DELETED, spec=PURGE, has_archive=True),
    "empty trash whose time is over": Case(False, _P.DELETED, spec=PURGE),
    # the wish
    **{
        f"{phase} wished {wish}": Case(
            phase != wish.value and (phase, wish) != (_P.ARCHIVED, _D.PENDING), phase, wish
        )
        for phase in (_P.PENDING, _P.ARCHIVED, _P.STANDBY, _P.RUNNING)
        for wish in DesiredState
    },
    # errors
    "ERROR": Case(False, _P.ERROR, _D.RUNNING, error_at=RECENTLY),
    "ERROR recovered": Case(True, _P.ERROR, _D.RUNNING, spec={"recover_at": RECENTLY}, error_at=LONG_AGO),
    "ERROR after a recovery": Case(
        False, _P.ERROR, _D.RUNNING, spec={"recover_at": LONG_AGO}, error_at=RECENTLY
    ),
    "recovered long ago": Case(False, _P.RUNNING, _D.RUNNING, spec={"recover_at": LONG_AGO}),
}


async def arrange(world: World, case: Case) -> Workspace:
    now = await world.now()
    absolute = {
        name: now + value if isinstance(value, timedelta) else value for name, value in case.spec.items()
    }
    wish = {} if case.wish is None else {"desired_state": case.wish}
    workspace_id = uuid4()
    under_way = case.operation is not Operation.NONE
    error = None
    if case.error_at is not None:
        error = ErrorInfo(ErrorReason.TIMEOUT, "late", Operation.STARTING, 1, now + case.error_at)
    status = Status(
        phase=case.phase,
        phase_changed_at=now,
        operation=case.operation,
        op_id=uuid4() if under_way else None,
        op_started_at=now if under_way else None,
        archive_key=f"{workspace_id}/{uuid4()}/home.tar.zst" if case.has_archive else None,
        error_info=error,
    )
    return await world.place(world.spec(**absolute, **wish), status, workspace_id)


@pytest.mark.parametrize("case", DUE.values(), ids=DUE)
async def test_what_is_due(world: World, case: Case) -> None:
    workspace = await arrange(world, case)
    loaded = await world.controller.load_due()
    assert list(loaded.workspaces) == ([workspace] if case.is_due else [])
    assert loaded.now >= workspace.updated_at


async def test_no_more_is_due_than_was_asked_for(world: World) -> None:
    workspaces = [await world.create() for _ in range(3)]
    await arrange(world, DUE["trash whose time is over"])
    assert len((await world.controller.load_due()).workspaces) == 4
    first, second, _third = sorted(workspaces, key=lambda each: each.id)
    assert list((await world.controller.load_due(limit=2)).workspaces) == [first, second]


TTL = {"standby_ttl_seconds": 300, "archive_ttl_seconds": 3600}
LONG, SHORT = timedelta(hours=-2), timedelta(seconds=-60)

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
async def test_what_is_idle(
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
