"""The order of lists, and the cursors that go on in them."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.workspaces import NOW, ago, workspace

from codehub.core.listing import BEFORE_ALL, list_cursor, list_position, read_cursor, sort_key
from codehub.core.workspace import Workspace


def numbered(number: int, **spec: object) -> Workspace:
    return replace(workspace(spec=spec), id=UUID(int=number))


OLD, NEW = numbered(1), numbered(2)
PINNED_EARLIER, PINNED_LAST = numbered(3, pinned_at=ago(60)), numbered(0, pinned_at=NOW)


def test_pinned_ones_come_first_and_then_the_newest() -> None:
    rows = [OLD, PINNED_EARLIER, NEW, PINNED_LAST]
    expected = [PINNED_LAST, PINNED_EARLIER, NEW, OLD]
    assert sorted(rows, key=list_position, reverse=True) == expected
    assert sorted(rows, key=sort_key, reverse=True) == expected


@pytest.mark.parametrize("row", [OLD, PINNED_EARLIER], ids=["unpinned", "pinned"])
def test_a_cursor_stands_for_its_place(row: Workspace) -> None:
    assert read_cursor(list_cursor(row)) == list_position(row)
    assert list_position(row) < BEFORE_ALL


def test_a_cursor_of_a_workspace_that_is_not_pinned_is_its_id() -> None:
    assert list_cursor(OLD) == str(OLD.id)


@pytest.mark.parametrize("text", ["", "nonsense", "12.nonsense"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="badly formed"):
        read_cursor(text)
