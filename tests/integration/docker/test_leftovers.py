"""The tests' own engine: what one that was killed has left is ended and unmounted before the next begins."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.docker import DOCKER
from tests.support.leftovers import PREFIX, RUN, end_leftovers, note
from tests.support.patience import PATIENCE_S

pytestmark = DOCKER


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "test-docker"
    merged = place / "overlay2" / "layer" / "merged"
    merged.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", merged], check=True)
    yield place
    subprocess.run(["umount", "--lazy", merged], stderr=subprocess.DEVNULL, check=False)


def test_processes_mounts_and_directories_of_a_killed_engine_go_and_no_others(data: Path) -> None:
    ours, others = (Path(tempfile.mkdtemp(prefix=PREFIX, dir=RUN)) for _ in range(2))
    note(ours, data)
    note(others, data.with_name("another"))
    theirs = pretended_dockerd(data.with_name("another"))
    left = pretended_dockerd(data)
    try:
        end_leftovers(data)
        assert left.wait(PATIENCE_S) == -9
        assert (theirs.poll(), ours.exists(), others.exists()) == (None, False, True)
        assert str(data) not in Path("/proc/self/mountinfo").read_text()
    finally:
        for process in (left, theirs):
            process.kill()
            process.wait()
        for run in (ours, others):
            shutil.rmtree(run, ignore_errors=True)


def pretended_dockerd(data: Path) -> subprocess.Popen[bytes]:
    """A process that looks like one, and has said that it is there."""
    script = "import time; print(flush=True); time.sleep(1000)"
    process = subprocess.Popen(
        ["dockerd", "-c", script, "--data-root", data], executable=sys.executable, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    return process
