"""`make up` and `make code-server` say what they do and how far they
are, in a terminal and elsewhere, and what to do next.
"""

import subprocess
from pathlib import Path

import pytest
from tests.support.terminal import NO_TMUX, terminal

SCRIPTS = Path(__file__).parents[2] / "scripts"
LOCKED = "a==1 \\\n    --hash=sha256:0\nb[c]==2\nd==3 ; python_version < '3'\ne==4\n"
PIP = (
    "echo Collecting a; echo '  Downloading a.whl'; echo Collecting b; echo Ignoring d; echo Collecting e; "
    "echo Installing collected"
)


@pytest.fixture
def locked(tmp_path: Path) -> str:
    path = tmp_path / "run.txt"
    path.write_text(LOCKED)
    return str(path)


def install(locked: str, pip: str) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / "install"), "codehub", locked, "/bin/sh", "-c", pip]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_install_tells_how_far_it_is_and_nothing_else(locked: str) -> None:
    done = install(locked, PIP)
    assert (done.returncode, done.stdout) == (0, "")
    *lines, last = done.stderr.splitlines()
    assert lines == [
        "codehub: looking for 4 packages",
        *(f"codehub: {number} of 4 packages fetched" for number in (1, 2, 3, 4)),
        "codehub: installing 4 packages, which takes as long again",
    ]
    assert last.startswith("codehub: done (")


def test_an_install_that_fails_shows_all_that_pip_said(locked: str) -> None:
    done = install(locked, "echo Collecting a; echo 'ERROR: hashes differ' >&2; exit 3")
    assert done.returncode == 3
    assert done.stderr.endswith("Collecting a\nERROR: hashes differ\n")


@NO_TMUX
def test_in_a_terminal_it_is_one_line_and_says_that_it_was_stopped(locked: str) -> None:
    with terminal({"PATH": "/usr/bin:/bin"}) as shell:
        shell.run(f"{SCRIPTS}/install codehub {locked} sh -c 'echo Collecting a; sleep 600'; echo code $?")
        assert "looking" not in shell.until("^codehub: 1 of 4 packages fetched$")
        shell.type("C-c")
        screen = shell.until("code 130")
        assert "codehub: stopped; the next make goes on from here" in screen


def test_code_server_that_is_there_is_told_with_what_to_do_next(tmp_path: Path) -> None:
    program = tmp_path / "code-server-4.100.3/bin/code-server"
    program.parent.mkdir(parents=True)
    program.touch()
    (tmp_path / "code-server-4.100.3/.complete").touch()
    done = subprocess.run(
        [str(SCRIPTS / "code-server")],
        env={"PATH": "/usr/bin:/bin", "CODEHUB_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{program}\n"
    assert "(re)start codehub (`make up`)" in done.stderr
