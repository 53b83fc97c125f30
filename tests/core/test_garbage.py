"""Contract 9: garbage collection deletes nothing that a workspace could still need."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from tests.support.workspaces import KEY, NOW, OP_ID, WORKSPACE_ID, ago, error, home, workspace

from codehub.core.garbage import Found, Thing, sort_garbage
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Workspace

GRACE = timedelta(hours=2)
OLD, YOUNG = ago(3 * 3600), ago(3600)
OTHER = f"{WORKSPACE_ID}/{UUID(int=7)}/home.tar.zst"
TRASH = {"deleted_at": ago(10), "purge_at": ago(-1000)}
OVER = {"deleted_at": ago(10), "purge_at": ago(5)}


def archive(name: str, modified_at: datetime = OLD, *, committed: bool = True) -> Found:
    return Found(Thing.ARCHIVE, WORKSPACE_ID, name, modified_at, committed)


VOLUME = Found(Thing.VOLUME, WORKSPACE_ID, "v1")
INSTANCE = Found(Thing.INSTANCE, WORKSPACE_ID, None)
CASES = [
    # what lies there, whose it is, whether it goes
    (archive(OTHER), workspace(Phase.STANDBY), True),
    (archive(OTHER, committed=False), workspace(Phase.STANDBY), True),
    (archive(OTHER, YOUNG), workspace(Phase.STANDBY), False),
    (archive(OTHER), workspace(Phase.ERROR, error_info=error()), False),
    (archive(OTHER), workspace(Phase.ARCHIVED, archive_key=OTHER), False),
    (archive(KEY), workspace(Phase.STANDBY, operation=Operation.ARCHIVING), False),
    (archive(KEY, committed=False), workspace(Phase.STANDBY, operation=Operation.ARCHIVING), False),
    (archive(KEY), workspace(Phase.STANDBY, op_id=OP_ID), False),
    (archive(OTHER), workspace(Phase.DELETED, archive_key=OTHER, spec=TRASH), False),
    (archive(OTHER), workspace(Phase.DELETED, spec=OVER), True),
    (VOLUME, workspace(Phase.STANDBY), False),
    (VOLUME, workspace(Phase.DELETED, spec=TRASH), False),
    (VOLUME, workspace(Phase.DELETED, spec=OVER), True),
    (VOLUME, workspace(Phase.PENDING, spec=OVER), False),
    (INSTANCE, workspace(Phase.RUNNING), False),
    (INSTANCE, workspace(Phase.DELETED, spec=OVER), True),
]


@pytest.mark.parametrize(("found", "row", "goes"), CASES)
def test_only_what_nobody_could_need_goes(found: Found, row: Workspace, goes: bool) -> None:
    result = sort_garbage([found], {row.id: row}, NOW, grace=GRACE)
    assert [removal.found for removal in result.removals] == ([found] if goes else [])
    assert result.unknown == ()


HALF = Found(Thing.VOLUME, WORKSPACE_ID, None)


@pytest.mark.parametrize(
    ("volume", "row", "goes"),
    [
        (
            VOLUME,
            workspace(Phase.ARCHIVED, DesiredState.ARCHIVED, archive_key=KEY, home_ctx=home(None)),
            True,
        ),
        (
            VOLUME,
            workspace(Phase.ARCHIVED, DesiredState.ARCHIVED, archive_key=KEY, home_ctx=home("v1")),
            False,
        ),
        (
            VOLUME,
            workspace(Phase.ARCHIVED, DesiredState.ARCHIVED, archive_key=OTHER, home_ctx=home(None)),
            False,
        ),
        (
            VOLUME,
            workspace(Phase.ARCHIVED, DesiredState.RUNNING, archive_key=KEY, home_ctx=home(None)),
            False,
        ),
        (HALF, workspace(Phase.ARCHIVED, DesiredState.ARCHIVED, archive_key=KEY, home_ctx=home(None)), True),
        (HALF, workspace(Phase.ARCHIVED, DesiredState.RUNNING, archive_key=KEY, home_ctx=home(None)), False),
    ],
)
def test_a_volume_that_a_late_restore_left_goes_where_the_archive_is_whole(
    volume: Found, row: Workspace, goes: bool
) -> None:
    result = sort_garbage([archive(KEY), volume], {row.id: row}, NOW, grace=GRACE)
    assert [removal.found for removal in result.removals] == ([volume] if goes else [])


def test_what_the_database_does_not_know_is_reported_and_not_touched() -> None:
    result = sort_garbage([archive(OTHER), VOLUME], {}, NOW, grace=GRACE)
    assert (result.removals, result.unknown) == ((), (archive(OTHER), VOLUME))
