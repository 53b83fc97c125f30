"""Spec §2.4 and §2.5: what may be asked for when, and the operation that comes next."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.workspaces import (
    ABSENT,
    KEY,
    NOT_READY,
    NOW,
    READY,
    ago,
    conditions,
    error,
    held_up,
    workspace,
)

from codehub.core.errors import ErrorReason
from codehub.core.operations import MOVES, NEXT, DesiredState, Operation, Phase, destination
from codehub.core.plan import Begin, Rest, Wait, choose_next_operation
from codehub.core.requests import Accepted, Refusal, Refused, Unchanged, rule_deletion, rule_wish
from codehub.core.workspace import Workspace

P, D, OP = Phase, DesiredState, Operation
DELETED = {"deleted_at": ago(10), "purge_at": ago(-1000)}
PURGED = {"deleted_at": ago(10), "purge_at": ago(10)}
KEPT = {"deleted_at": ago(10)}


# §2.4 Wishes. = is accepted and begins nothing, ✓ is accepted, again is a try at once

WISHES = [
    # now, → PENDING, → ARCHIVED, → STANDBY, → RUNNING, delete
    (P.PENDING, "=", "✓", "✓", "✓", "✓"),
    (P.ARCHIVED, "=", "=", "✓", "✓", "✓"),
    (P.STANDBY, "✓", "✓", "=", "✓", "✓"),
    (P.RUNNING, "✓", "✓", "✓", "=", "✓"),
    ("operation", *["OPERATION_IN_PROGRESS"] * 5),
    ("tried again", *["OPERATION_IN_PROGRESS"] * 5),
    ("held up", "✓", "✓", "✓", "again", "✓"),
    ("held up, deletion", *["INVALID_STATE"] * 4, "✓"),
    (P.ERROR, *["RECOVERY_REQUIRED"] * 4, "✓"),
    ("deletion", *["INVALID_STATE"] * 4, "✓"),
    (P.DELETED, *["WORKSPACE_NOT_FOUND"] * 5),
]
CELLS = [(row[0], wish, row[i + 1]) for row in WISHES for i, wish in enumerate([*DesiredState, "delete"])]


def situation(now: str, wish: DesiredState) -> Workspace:
    match now:
        case "operation":
            return workspace(P.STANDBY, wish, operation=OP.STARTING)
        case "held up":
            return workspace(P.STANDBY, D.RUNNING, operation=OP.STARTING, held_up=held_up())
        case "tried again":
            return workspace(P.STANDBY, D.RUNNING, operation=OP.STARTING, held_up=held_up(is_trying=True))
        case "held up, deletion":
            return workspace(P.STANDBY, D.PENDING, operation=OP.ARCHIVING, held_up=held_up(), spec=DELETED)
        case "deletion":
            return workspace(P.STANDBY, wish, spec=DELETED)
        case P.DELETED:
            return workspace(P.DELETED, wish, spec=DELETED)
        case P.ERROR:
            return workspace(P.ERROR, wish, error_info=error())
        case _:
            return workspace(Phase(now), wish)


@pytest.mark.parametrize(("now", "wanted", "answer"), CELLS)
def test_every_wish_has_this_answer(now: str, wanted: str, answer: str) -> None:
    at_rest = now if now in (P.PENDING, P.ARCHIVED, P.STANDBY, P.RUNNING) else P.STANDBY
    row = situation(now, DesiredState(at_rest))
    if wanted == "delete":
        ruling = rule_deletion(row, NOW, trash_s=100)
    else:
        ruling = rule_wish(row, DesiredState(wanted), NOW)
    match answer:
        case "✓":
            assert isinstance(ruling, Accepted)
        case "again":
            assert ruling == Accepted(replace(row.spec, asked_again_at=NOW))
        case "=":
            # What is satisfied begins nothing; a wish that says the same in other words is still recorded.
            spec = ruling.spec if isinstance(ruling, Accepted) else row.spec
            assert not isinstance(ruling, Refused)
            assert isinstance(choose_next_operation(spec, row.status, NOW), Rest)
            assert isinstance(ruling, Unchanged) == (spec.desired_state is row.spec.desired_state)
        case code:
            assert isinstance(ruling, Refused)
            assert ruling.code == Refusal(code)


# Where a wish leads, said of every phase that has a next operation


@pytest.mark.parametrize("wish", DesiredState)
@pytest.mark.parametrize("phase", NEXT)
def test_a_wish_leads_to_where_its_operations_end(phase: Phase, wish: DesiredState) -> None:
    target = destination(phase, wish)
    while (step := NEXT[phase][wish]) is not Operation.NONE:
        phase = MOVES[step].target
    assert target is phase


# §2.5 The next operation

WITH_CONTAINER = conditions(READY, ABSENT, NOT_READY)
VOLUME = conditions(READY)
NEXT_OPERATION = [
    # phase, wish, row, operation
    *[
        (phase, wish, {"spec": PURGED}, OP.DELETING)
        for phase in (P.PENDING, P.ARCHIVED, P.STANDBY, P.RUNNING)
        for wish in D
    ],
    (P.ERROR, D.PENDING, {"spec": PURGED, "error_info": error(at=ago(50))}, OP.DELETING),
    (P.ERROR, D.PENDING, {"spec": PURGED, "error_info": error(at=ago(5))}, "wait"),
    (P.PENDING, D.PENDING, {"spec": DELETED}, OP.DELETING),
    (P.ARCHIVED, D.PENDING, {"spec": DELETED}, OP.DELETING),
    (
        P.ERROR,
        D.PENDING,
        {"spec": DELETED, "error_info": error(ErrorReason.DATA_LOST, at=ago(50))},
        OP.DELETING,
    ),
    (
        P.ERROR,
        D.PENDING,
        {"spec": DELETED, "error_info": error(ErrorReason.CONTAINER_WITHOUT_VOLUME, at=ago(50))},
        OP.DELETING,
    ),
    (P.ERROR, D.PENDING, {"spec": DELETED, "error_info": error(ErrorReason.DATA_LOST, at=ago(5))}, "wait"),
    (
        P.ERROR,
        D.PENDING,
        {
            "spec": DELETED,
            "error_info": error(ErrorReason.DATA_LOST, at=ago(50)),
            "conditions": conditions(NOT_READY),
        },
        "wait",
    ),
    (P.RUNNING, D.PENDING, {"spec": DELETED, "conditions": conditions(READY, ABSENT, READY)}, OP.STOPPING),
    (P.STANDBY, D.PENDING, {"spec": DELETED, "conditions": VOLUME}, OP.ARCHIVING),
    (P.STANDBY, D.RUNNING, {"spec": DELETED, "conditions": VOLUME}, OP.ARCHIVING),
    *[(P.ERROR, wish, {"error_info": error()}, "wait") for wish in D],
    (P.STANDBY, D.PENDING, {"conditions": WITH_CONTAINER}, OP.STOPPING),
    (P.STANDBY, D.ARCHIVED, {"conditions": WITH_CONTAINER}, OP.STOPPING),
    (P.STANDBY, D.STANDBY, {"conditions": WITH_CONTAINER}, OP.STOPPING),
    (P.STANDBY, D.RUNNING, {"conditions": WITH_CONTAINER}, OP.STARTING),
    (P.PENDING, D.PENDING, {}, "rest"),
    (P.PENDING, D.ARCHIVED, {}, OP.CREATE_EMPTY_ARCHIVE),
    (P.PENDING, D.STANDBY, {}, OP.PROVISIONING),
    (P.PENDING, D.RUNNING, {}, OP.PROVISIONING),
    (P.ARCHIVED, D.PENDING, {}, "rest"),
    (P.ARCHIVED, D.ARCHIVED, {}, "rest"),
    (P.ARCHIVED, D.STANDBY, {}, OP.RESTORING),
    (P.ARCHIVED, D.RUNNING, {}, OP.RESTORING),
    (P.STANDBY, D.RUNNING, {"conditions": VOLUME}, OP.STARTING),
    (P.STANDBY, D.STANDBY, {"conditions": VOLUME}, "rest"),
    (P.STANDBY, D.ARCHIVED, {"conditions": VOLUME}, OP.ARCHIVING),
    (P.STANDBY, D.PENDING, {"conditions": VOLUME}, OP.ARCHIVING),
    (P.RUNNING, D.RUNNING, {"conditions": conditions(READY, ABSENT, READY)}, "rest"),
    (P.RUNNING, D.STANDBY, {"conditions": conditions(READY, ABSENT, READY)}, OP.STOPPING),
    (P.RUNNING, D.ARCHIVED, {"conditions": conditions(READY, ABSENT, READY)}, OP.STOPPING),
    (P.RUNNING, D.PENDING, {"conditions": conditions(READY, ABSENT, READY)}, OP.STOPPING),
    (P.DELETED, D.PENDING, {"spec": DELETED, "archive_key": KEY}, "trash"),
    (P.DELETED, D.PENDING, {"spec": KEPT, "archive_key": KEY}, "wait"),
    (P.DELETED, D.PENDING, {"spec": KEPT}, "rest"),
    (P.DELETED, D.PENDING, {"archive_key": KEY}, "rest"),
    (P.DELETED, D.PENDING, {"spec": PURGED, "archive_key": KEY}, OP.DELETING),
    (P.DELETED, D.PENDING, {"spec": PURGED}, "rest"),
]


@pytest.mark.parametrize(("phase", "wish", "row", "expected"), NEXT_OPERATION)
def test_phase_and_wish_choose_the_next_operation(
    phase: Phase, wish: DesiredState, row: dict[str, Any], expected: str
) -> None:
    met = workspace(phase, wish, **row)
    match choose_next_operation(met.spec, met.status, NOW):
        case Begin(operation=operation):
            assert operation == expected
        case Wait(until=None):
            assert expected == "wait"
        case Wait(until=until):
            assert (expected, until) == ("trash", row["spec"]["purge_at"])
        case planned:
            assert isinstance(planned, Rest)
            assert expected == "rest"
