"""The wheel: it holds everything, and from a fresh environment outside the clone it starts a codehub."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.program import environment, until_it_says, until_ready

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = place.glob("codehub-*.whl")
    return made


def test_it_holds_every_file_of_the_package(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "src/codehub"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    wanted = {name.removeprefix("src/") for name in tracked.split("\0") if name and (ROOT / name).exists()}
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert wanted <= held
    assert any(name.endswith(".sql") for name in held)
    assert not [name for name in held if "__pycache__" in name or name.startswith("tests/")]


def _where_pip_looks() -> dict[str, str]:
    """Return the index that pip is told to use, if any, as uv wants
    to be told: it does not read pip's configuration.
    """
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    index = os.environ.get("PIP_INDEX_URL") or configured
    return {"UV_DEFAULT_INDEX": index} if index else {}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment: what is locked, then the wheel, and
    nothing of the environment that runs the tests.
    """
    fresh = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", fresh], check=True)
    into = ("--quiet", "--python", fresh)
    locked = ROOT / "requirements/run.txt"
    install: list[str | Path] = [UV, "pip", "install", *into, "--require-hashes", "-r", locked]
    subprocess.run(install, check=True, env={**os.environ, **_where_pip_looks()})
    subprocess.run([UV, "pip", "install", *into, "--no-deps", "--offline", wheel], check=True)
    return fresh


def test_what_is_locked_is_what_it_needs(installed: Path) -> None:
    run = subprocess.run(
        [UV, "pip", "check", "--python", installed], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_from_a_fresh_environment_it_starts_until_it_is_ready(installed: Path, tmp_path: Path) -> None:
    python = installed / "bin/python"
    where: list[str | Path] = [python, "-c", "import codehub; print(codehub.__file__)"]
    location = subprocess.run(where, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert Path(location.strip()).is_relative_to(installed)
    process = subprocess.Popen(
        [installed / "bin/codehub", "up"],
        cwd=tmp_path,
        env=environment(data_dir=str(tmp_path / "data"), port="0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = until_it_says(process, "ready")
        assert lines[-1:] == ["ready"], lines
        until_ready(lines[0].removeprefix("address: "))
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        process.stdout.close()


def test_its_version_is_the_one_that_the_changelog_will_name() -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    run = subprocess.run(
        [sys.executable, "-m", "codehub", "--version"], check=True, capture_output=True, text=True
    )
    assert run.stdout == f"codehub {version[1]}\n"
