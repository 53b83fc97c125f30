"""Uids of workspaces that are gone are given again, and of no other."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.adapters.local.accounts import Accounts, find_remaining
from codehub.ports.backends import ActionFailed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a workspace a user of its own")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "data/users/ann/workspaces").mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    return tmp_path / "data"


def accounts(data_dir: Path, block: int = 2) -> Accounts:
    scratch = (data_dir.parent / "scratch",)
    return Accounts(
        data_dir / "uids",
        str(data_dir),
        find_remaining=lambda: find_remaining(data_dir, scratch=scratch),
        block=block,
    )


def give(data_dir: Path, count: int = 2) -> dict[UUID, int]:
    """Give uids to so many workspaces, each with a home."""
    given = {}
    for _ in range(count):
        workspace_id = uuid4()
        (data_dir / f"users/ann/workspaces/{workspace_id}").mkdir()
        uid = accounts(data_dir).uid_of(workspace_id)
        assert uid is not None
        given[workspace_id] = uid
    return given


def remove(data_dir: Path, workspace_id: UUID) -> None:
    (data_dir / f"users/ann/workspaces/{workspace_id}").rmdir()


def test_when_all_are_taken_that_of_a_purged_workspace_is_given_again(data_dir: Path) -> None:
    (gone, uid), _ = give(data_dir).items()
    remove(data_dir, gone)
    assert accounts(data_dir).uid_of(uuid4()) == uid


def test_while_there_are_others_none_is_given_again(data_dir: Path) -> None:
    ((gone, uid),) = give(data_dir, 1).items()
    remove(data_dir, gone)
    assert accounts(data_dir).uid_of(uuid4()) == uid + 1


def test_that_of_a_workspace_with_an_archive_is_kept(data_dir: Path) -> None:
    (archived, _), _ = give(data_dir).items()
    remove(data_dir, archived)
    (data_dir / f"archives/{archived}").mkdir(parents=True)
    with pytest.raises(ActionFailed, match="UserIdsTaken"):
        accounts(data_dir).uid_of(uuid4())


@pytest.mark.parametrize("place", ["data/users", "scratch"])
def test_that_of_a_file_that_is_left_anywhere_is_kept(data_dir: Path, place: str) -> None:
    (gone, uid), _ = give(data_dir).items()
    remove(data_dir, gone)
    left = data_dir.parent / place / "left"
    left.touch()
    os.chown(left, uid, uid)
    with pytest.raises(ActionFailed, match="UserIdsTaken"):
        accounts(data_dir).uid_of(uuid4())


@pytest.fixture
def sleeper(data_dir: Path) -> Iterator[UUID]:
    """A workspace that is gone but for a process."""
    (gone, uid), _ = give(data_dir).items()
    remove(data_dir, gone)
    with subprocess.Popen(["/bin/sleep", "600"], user=uid) as process:
        yield gone
        process.kill()


def test_that_of_a_process_that_still_runs_is_kept(data_dir: Path, sleeper: UUID) -> None:
    del sleeper
    with pytest.raises(ActionFailed, match="UserIdsTaken"):
        accounts(data_dir).uid_of(uuid4())


def test_whoever_remembers_a_uid_that_was_given_away_gets_another(data_dir: Path) -> None:
    (gone, uid), (other, _) = give(data_dir).items()
    remembering = accounts(data_dir)
    assert remembering.uid_of(gone) == uid
    remove(data_dir, gone)
    new = uuid4()
    assert accounts(data_dir).uid_of(new) == uid
    (data_dir / f"users/ann/workspaces/{new}").mkdir()
    remove(data_dir, other)
    assert remembering.uid_of(gone) not in (None, uid)
