"""What a tab is told of its workspace."""

from datetime import timedelta

import pytest
from tests.support.workspaces import NOW, ago, workspace

from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.tab_state import TabState, note_s, tab_state, tab_view


@pytest.mark.parametrize(
    ("phase", "wish", "operation", "state"),
    [
        (Phase.RUNNING, DesiredState.RUNNING, Operation.NONE, TabState.OPEN),
        (Phase.RUNNING, DesiredState.STANDBY, Operation.NONE, TabState.ASLEEP),
        (Phase.RUNNING, DesiredState.STANDBY, Operation.STOPPING, TabState.ASLEEP),
        (Phase.STANDBY, DesiredState.STANDBY, Operation.NONE, TabState.ASLEEP),
        (Phase.STANDBY, DesiredState.RUNNING, Operation.NONE, TabState.STARTING),
        (Phase.STANDBY, DesiredState.RUNNING, Operation.STARTING, TabState.STARTING),
        (Phase.STANDBY, DesiredState.ARCHIVED, Operation.ARCHIVING, TabState.ARCHIVED),
        (Phase.ARCHIVED, DesiredState.ARCHIVED, Operation.NONE, TabState.ARCHIVED),
        (Phase.PENDING, DesiredState.PENDING, Operation.NONE, TabState.UNSTARTED),
        (Phase.ERROR, DesiredState.RUNNING, Operation.NONE, TabState.PROBLEM),
    ],
)
def test_a_tab_shows_where_its_workspace_is(
    phase: Phase, wish: DesiredState, operation: Operation, state: TabState
) -> None:
    row = workspace(phase, wish, operation=operation)
    assert tab_state(row) is state


def test_a_use_that_is_not_recorded_yet_counts() -> None:
    row = workspace(Phase.RUNNING, spec={"last_access_at": ago(290)}, phase_changed_at=ago(900))
    assert tab_view(row, NOW, None, warning_s=60).sleeps_in_s == 10
    assert tab_view(row, NOW, NOW - timedelta(seconds=5), warning_s=60).sleeps_in_s == 295
    assert tab_view(row, NOW, ago(400), warning_s=60).sleeps_in_s == 10


def test_what_never_sleeps_is_never_warned_of() -> None:
    row = workspace(Phase.RUNNING, spec={"standby_ttl_seconds": None})
    assert tab_view(row, NOW, None, warning_s=60).sleeps_in_s is None


def test_each_run_has_a_name_of_its_own() -> None:
    views = [
        tab_view(workspace(Phase.RUNNING, phase_changed_at=at), NOW, None, warning_s=60)
        for at in (ago(10), ago(20), None)
    ]
    assert len({view.run for view in views}) == 3


@pytest.mark.parametrize(
    ("ttl", "notes", "warns"), [(None, 20, 60), (300, 20, 60), (60, 15, 30), (10, 2.5, 5)]
)
def test_a_short_time_to_live_is_noted_more_often_and_warned_of_later(
    ttl: int | None, notes: float, warns: float
) -> None:
    row = workspace(Phase.RUNNING, spec={"standby_ttl_seconds": ttl})
    assert note_s(ttl) == notes
    assert tab_view(row, NOW, None, warning_s=60).warns_s == warns
