"""A machine that has nothing but a Python in a closed home: the first workspace runs, or the start says
why.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.curl import CURL, Curl
from tests.support.fresh_machine import ROOT_WITH_BWRAP, FreshMachine

pytestmark = [ROOT_WITH_BWRAP, CURL]
SOMEBODY = 54_321


@pytest.fixture(scope="module")
def machine() -> Iterator[FreshMachine]:
    # Not below pytest's own directory, which only its owner may enter.
    base = Path(tempfile.mkdtemp(prefix="codehub-fresh-"))
    base.chmod(0o755)
    yield FreshMachine(base)
    shutil.rmtree(base)


@pytest.mark.parametrize("uid", [0, SOMEBODY], ids=["as root", "as an ordinary user"])
def test_without_anything_that_isolates_the_first_workspace_runs_and_the_start_warns(
    machine: FreshMachine, uid: int
) -> None:
    fresh = machine.belongs_to(uid)
    fresh.new_directory(f"cache-{uid}")
    data = fresh.new_directory(f"var-{uid}") / "data"
    with fresh.up(data, initial_admin_password="correct horse") as server:
        assert "WORKSPACES ARE NOT ISOLATED" in (data.parent / "stderr").read_text()
        curl = Curl(server, fresh.base / f"jar-{uid}")
        assert curl("POST", "/login", {"username": "admin", "password": "correct horse"})[0] == 200
        status, workspace = curl("POST", "/workspaces", {"name": "first"})
        assert status == 201
        curl.arrives(f"/workspaces/{workspace['id']}", "RUNNING")


def test_where_no_workspace_could_run_the_start_says_so(machine: FreshMachine) -> None:
    fresh = machine.belongs_to(0)
    (fresh.home / "data").mkdir()
    process = fresh.run("up", data_dir=str(fresh.home / "data"), port="0")
    assert process.returncode == 1
    message = process.stderr.splitlines()[-1]
    assert message.startswith(
        "codehub: no workspace could run on this machine: jupyterlab can't be run here: "
    ), message
    assert f"can't enter {fresh.home}: install bubblewrap" in message
