"""`make up` brings what keeps workspaces apart where it may, says so, and is stopped by nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/isolation"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs anything")


def messages_of(
    tmp_path: Path, *, apt: str | None = None, there: tuple[str, ...] = (), **environ: str
) -> str:
    """Run it on a machine that has these programs alone, and return what it says."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "env"):
        (programs / name).symlink_to(str(shutil.which(name)))
    for name, text in {**dict.fromkeys(there, "exit 1"), **({} if apt is None else {"apt-get": apt})}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    run = subprocess.run(
        [str(SCRIPT)], env={"PATH": str(programs), **environ}, capture_output=True, text=True, check=True
    )
    assert run.stdout == ""
    return run.stderr


@AS_ROOT
def test_what_is_missing_is_installed_and_named(tmp_path: Path) -> None:
    message = messages_of(tmp_path, apt=f'echo "$@" >> {tmp_path}/asked')
    assert "installing bubblewrap passt" in message
    assert (tmp_path / "asked").read_text().splitlines() == [
        "install -y -qq --no-install-recommends bubblewrap passt"
    ]


@AS_ROOT
def test_a_machine_that_never_asked_its_mirrors_asks_them_first(tmp_path: Path) -> None:
    apt = f'[ "$1" = update ] && : > {tmp_path}/updated; [ -e {tmp_path}/updated ]'
    message = messages_of(tmp_path, apt=apt, there=("bwrap",))
    assert message.splitlines() == [message.strip()]
    assert "installing passt" in message


@AS_ROOT
def test_what_can_not_be_installed_is_said_and_stops_nothing(tmp_path: Path) -> None:
    message = messages_of(tmp_path, apt="echo 'E: no such host' >&2; exit 100", there=("slirp4netns",))
    assert "bubblewrap could not be installed (E: no such host)" in message


def test_where_nothing_may_be_installed_it_says_what_to_do(tmp_path: Path) -> None:
    assert "apt-get install bubblewrap passt" in messages_of(tmp_path)


def test_where_all_is_there_or_docker_isolates_it_says_nothing(tmp_path: Path) -> None:
    assert messages_of(tmp_path, there=("bwrap", "pasta")) == ""
    shutil.rmtree(tmp_path / "bin")
    assert messages_of(tmp_path, CODEHUB_INSTANCE_BACKEND="local-docker") == ""
