"""Idleness: when a workspace sleeps or is archived, what keeps it awake, and which ones count as running."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.workspaces import (
    ABSENT,
    NOT_READY,
    NOW,
    READY,
    UNKNOWN,
    accepted,
    ago,
    conditions,
    refused,
    workspace,
)

from codehub.core.idle import archives_at, idle_wish, sleeps_at, sleeps_soon
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.requests import (
    Refusal,
    Unchanged,
    rule_keep_awake,
)
from codehub.core.workspace import Workspace, counts_as_running

TRASH = {"deleted_at": ago(10), "purge_at": ago(-1000)}


def test_keeping_awake_never_shortens() -> None:
    row = workspace(Phase.RUNNING)
    assert accepted(rule_keep_awake(row, NOW, seconds=60)).awake_until == NOW + timedelta(seconds=60)
    awake = replace(row, spec=replace(row.spec, awake_until=NOW + timedelta(hours=1)))
    assert isinstance(rule_keep_awake(awake, NOW, seconds=60), Unchanged)
    assert (
        refused(rule_keep_awake(workspace(Phase.STANDBY, DesiredState.PENDING, spec=TRASH), NOW, seconds=60))
        is Refusal.INVALID_STATE
    )


IDLE = [
    # phase, wish, last use, in the phase since, awake until, ttl, then
    (Phase.RUNNING, DesiredState.RUNNING, 301, 500, None, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, 300, 500, None, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, 299, 500, None, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 900, 299, None, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 900, 900, 299, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 900, 900, 301, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, None, 500, None, 300, DesiredState.STANDBY),
    (Phase.RUNNING, DesiredState.RUNNING, None, None, None, 300, None),
    (Phase.RUNNING, DesiredState.RUNNING, 99999, 99999, None, None, None),
    (Phase.RUNNING, DesiredState.STANDBY, 99999, 99999, None, 300, None),
    (Phase.STANDBY, DesiredState.STANDBY, 500, 500, None, 300, DesiredState.ARCHIVED),
    (Phase.STANDBY, DesiredState.STANDBY, 500, 299, None, 300, None),
    (Phase.STANDBY, DesiredState.STANDBY, 500, 500, -99, 300, DesiredState.ARCHIVED),
    (Phase.STANDBY, DesiredState.STANDBY, 0, 0, None, 0, DesiredState.ARCHIVED),
    (Phase.STANDBY, DesiredState.RUNNING, 500, 500, None, 300, None),
    (Phase.ARCHIVED, DesiredState.ARCHIVED, 99999, 99999, None, 300, None),
]


@pytest.mark.parametrize(("phase", "wish", "used", "entered", "awake", "ttl", "then"), IDLE)
def test_time_to_live(
    phase: Phase,
    wish: DesiredState,
    used: int | None,
    entered: int | None,
    awake: int | None,
    ttl: int | None,
    then: DesiredState | None,
) -> None:
    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else ago(seconds)

    row = workspace(
        phase,
        wish,
        spec={
            "last_access_at": at(used),
            "awake_until": at(awake),
            "standby_ttl_seconds": ttl,
            "archive_ttl_seconds": ttl,
        },
        phase_changed_at=at(entered),
    )
    assert idle_wish(row, NOW) is then


def test_only_a_running_workspace_says_when_it_sleeps() -> None:
    spec = {"last_access_at": ago(100)}
    assert sleeps_at(workspace(Phase.RUNNING, spec=spec)) == ago(-200)
    assert sleeps_at(workspace(Phase.STANDBY, DesiredState.STANDBY, spec=spec)) is None


def test_only_a_sleeping_workspace_says_when_it_is_archived() -> None:
    spec = {"last_access_at": ago(100), "archive_ttl_seconds": 300}
    assert archives_at(workspace(Phase.STANDBY, DesiredState.STANDBY, spec=spec)) == ago(-200)
    assert archives_at(workspace(Phase.RUNNING, spec=spec)) is None
    kept = {"last_access_at": ago(100), "archive_ttl_seconds": None}
    assert archives_at(workspace(Phase.STANDBY, DesiredState.STANDBY, spec=kept)) is None


def test_people_are_told_shortly_before_it_sleeps() -> None:
    row = workspace(Phase.RUNNING, spec={"last_access_at": ago(100)})
    assert sleeps_soon(row, NOW, warning_s=60) is None
    assert sleeps_soon(row, NOW, warning_s=200) == ago(-200)
    assert sleeps_soon(row, NOW + timedelta(seconds=150), warning_s=60) == ago(-200)
    kept = workspace(Phase.RUNNING, spec={"last_access_at": ago(100), "standby_ttl_seconds": None})
    assert sleeps_soon(kept, NOW, warning_s=1000) is None


@pytest.mark.parametrize(
    "row",
    [
        workspace(Phase.RUNNING, operation=Operation.STOPPING),
        workspace(Phase.RUNNING, DesiredState.PENDING, spec=TRASH),
    ],
)
def test_what_moves_is_left_alone(row: Workspace) -> None:
    assert idle_wish(row, NOW + timedelta(days=1)) is None


# Limits

COUNTS = [
    # wish, phase, operation, container, takes a place
    (DesiredState.RUNNING, Phase.PENDING, Operation.NONE, ABSENT, True),
    (DesiredState.RUNNING, Phase.RUNNING, Operation.NONE, READY, True),
    (DesiredState.STANDBY, Phase.RUNNING, Operation.NONE, READY, True),
    (DesiredState.STANDBY, Phase.RUNNING, Operation.STOPPING, READY, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.STOPPING, NOT_READY, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.NONE, ABSENT, False),
    (DesiredState.RUNNING, Phase.ERROR, Operation.NONE, ABSENT, False),
    (DesiredState.RUNNING, Phase.ERROR, Operation.NONE, READY, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.NONE, UNKNOWN, False),
    (DesiredState.STANDBY, Phase.RUNNING, Operation.NONE, UNKNOWN, True),
    (DesiredState.STANDBY, Phase.STANDBY, Operation.STOPPING, UNKNOWN, True),
    (DesiredState.STANDBY, Phase.ERROR, Operation.NONE, UNKNOWN, True),
]


@pytest.mark.parametrize(("wish", "phase", "operation", "container", "expected"), COUNTS)
def test_a_workspace_counts_from_the_wish_until_its_container_is_gone(
    wish: DesiredState, phase: Phase, operation: Operation, container: Any, expected: bool
) -> None:
    row = workspace(phase, wish, operation=operation, conditions=conditions(READY, ABSENT, container))
    assert counts_as_running(row) is expected
