"""Contract 9: garbage collection deletes nothing that a workspace could still need."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from tests.support.workspaces import KEY, NOW, OP_ID, WORKSPACE_ID, ago, error, home, workspace

from codehub.core.garbage import BackendItem, Thing, sort_garbage, to_be_read
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Workspace

GRACE = timedelta(hours=2)
OLD, YOUNG = ago(3 * 3600), ago(3600)
OTHER = f"{WORKSPACE_ID}/{UUID(int=7)}/home.tar.zst"
TRASH = {"deleted_at": ago(10), "purge_at": ago(-1000)}
OVER = {"deleted_at": ago(10), "purge_at": ago(5)}
KEPT = {"deleted_at": ago(10_000_000)}


def archive(
    name: str, modified_at: datetime = OLD, *, committed: bool = True, at: datetime | None = None
) -> BackendItem:
    return BackendItem(Thing.ARCHIVE, WORKSPACE_ID, name, modified_at, committed, at)


VOLUME = BackendItem(Thing.VOLUME, WORKSPACE_ID, "v1")
INSTANCE = BackendItem(Thing.INSTANCE, WORKSPACE_ID, None)
CASES = [
    # what lies there, whose it is, whether it goes
    (archive(OTHER), workspace(Phase.STANDBY), False),  # it is newer than none
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
    (VOLUME, workspace(Phase.DELETED, spec=KEPT), False),
    (INSTANCE, workspace(Phase.DELETED, spec=KEPT), False),
    (archive(OTHER), workspace(Phase.DELETED, archive_key=OTHER, spec=KEPT), False),
    (archive(OTHER), workspace(Phase.DELETED, spec=KEPT), False),
    (VOLUME, workspace(Phase.DELETED, spec=OVER), True),
    (VOLUME, workspace(Phase.PENDING, spec=OVER), False),
    (INSTANCE, workspace(Phase.RUNNING), False),
    (INSTANCE, workspace(Phase.DELETED, spec=OVER), True),
]


@pytest.mark.parametrize(("thing", "row", "goes"), CASES)
def test_only_what_nobody_could_need_goes(thing: BackendItem, row: Workspace, goes: bool) -> None:
    result = sort_garbage([thing], {row.id: row}, NOW, grace=GRACE)
    assert [removal.item for removal in result.removals] == ([thing] if goes else [])
    assert result.unknown == ()


HALF = BackendItem(Thing.VOLUME, WORKSPACE_ID, None)


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
    volume: BackendItem, row: Workspace, goes: bool
) -> None:
    result = sort_garbage([archive(KEY), volume], {row.id: row}, NOW, grace=GRACE)
    assert [removal.item for removal in result.removals] == ([volume] if goes else [])


def test_what_the_database_does_not_know_is_reported_and_not_touched() -> None:
    result = sort_garbage([archive(OTHER), VOLUME], {}, NOW, grace=GRACE)
    assert (result.removals, result.unknown) == ((), (archive(OTHER), VOLUME))


# Which of several archives goes: by the database's time of their commits

ARCHIVED = workspace(Phase.ARCHIVED, archive_key=KEY, op_id=None)
THIRD = f"{WORKSPACE_ID}/{UUID(int=8)}/home.tar.zst"
HOUR = 3600


@pytest.mark.parametrize(
    ("own", "other", "goes"),
    [
        (
            archive(KEY, YOUNG, at=YOUNG),
            archive(OTHER, committed=False),
            True,
        ),  # half of one was replaced by nothing
        # made long ago and replaced long ago, or just now: the grace counts from then
        (archive(KEY, at=ago(3 * HOUR)), archive(OTHER, at=ago(9 * HOUR)), True),
        (archive(KEY, at=ago(HOUR)), archive(OTHER, at=ago(9 * HOUR)), False),
        # one without a time is older than any that has one
        (archive(KEY, at=ago(3 * HOUR)), archive(OTHER), True),
        (archive(KEY, at=ago(HOUR)), archive(OTHER), False),
        (archive(KEY), archive(OTHER), True),
        (archive(KEY, YOUNG), archive(OTHER), False),
        # newer than the row's: never
        (archive(KEY, at=ago(9 * HOUR)), archive(OTHER, at=ago(8 * HOUR)), False),
        (archive(KEY), archive(OTHER, at=ago(8 * HOUR)), False),
    ],
)
def test_an_archive_goes_when_it_was_replaced_long_enough_ago(
    own: BackendItem, other: BackendItem, goes: bool
) -> None:
    result = sort_garbage([own, other], {WORKSPACE_ID: ARCHIVED}, NOW, grace=GRACE)
    assert [removal.item for removal in result.removals] == ([other] if goes else [])


def test_an_archive_is_replaced_by_the_next_one_and_not_by_the_last() -> None:
    first, second = archive(OTHER, at=ago(9 * HOUR)), archive(THIRD, at=ago(3 * HOUR))
    own = archive(KEY, at=ago(HOUR))
    result = sort_garbage([first, second, own], {WORKSPACE_ID: ARCHIVED}, NOW, grace=GRACE)
    assert [removal.item for removal in result.removals] == [first]


def test_an_archive_that_is_newer_than_what_the_row_names_is_told() -> None:
    newer, half = archive(OTHER, at=ago(8 * HOUR)), archive(THIRD, committed=False)
    own = archive(KEY, at=ago(9 * HOUR))
    result = sort_garbage([own, newer, half], {WORKSPACE_ID: ARCHIVED}, NOW, grace=GRACE)
    assert (result.newer, [removal.item for removal in result.removals]) == ((newer,), [half])


@pytest.mark.parametrize(
    ("spec", "at", "goes"),
    [
        (OVER, ago(3 * HOUR), True),
        (OVER, ago(7), False),
        (OVER | {"purge_at": ago(10)}, ago(7), True),
    ],
)
def test_after_the_trash_s_time_what_was_archived_since_the_deletion_stays_unless_a_person_purged_it(
    spec: dict[str, datetime], at: datetime, goes: bool
) -> None:
    thing, row = archive(OTHER, at=at), workspace(Phase.DELETED, spec=spec)
    result = sort_garbage([thing], {row.id: row}, NOW, grace=GRACE)
    assert [removal.item for removal in result.removals] == ([thing] if goes else [])
    assert result.newer == (() if goes else (thing,))


def test_the_meta_of_archives_is_read_where_another_than_the_row_s_is_old_enough() -> None:
    rows = {WORKSPACE_ID: ARCHIVED}
    assert to_be_read([archive(KEY), VOLUME], rows, NOW, GRACE) == frozenset()
    assert to_be_read([archive(KEY), archive(OTHER, YOUNG)], rows, NOW, GRACE) == frozenset()
    assert to_be_read([archive(KEY), archive(OTHER)], rows, NOW, GRACE) == {WORKSPACE_ID}
    assert to_be_read([archive(OTHER)], {}, NOW, GRACE) == frozenset()
