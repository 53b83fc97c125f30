"""What operators copy: the systemd unit, the compose file, the
Dockerfile. That they are well-formed and name only what there is.
"""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from codehub.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/codehub.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd (apt-get install systemd)")
def test_the_systemd_unit_is_verified(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("codehub")
    unit = tmp_path / "codehub.service"
    unit.write_text(UNIT.read_text().replace("/opt/codehub/bin/codehub", str(program)))
    run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    "name", ["compose.yaml", "deploy/codehub.service", "Dockerfile", "docs/operators.md"]
)
def test_every_setting_that_is_named_exists(name: str) -> None:
    known = {f"{PREFIX}{field.upper()}" for field in Settings.model_fields}
    others = {"CODEHUB_CACHE", "CODEHUB_BASE_IMAGE", "CODEHUB_URL", "CODEHUB_TOKEN"}
    named = set(re.findall(r"\bCODEHUB_[A-Z_]+\b", (ROOT / name).read_text()))
    assert named <= known | others


def test_every_image_that_is_named_by_default_names_an_exact_version() -> None:
    """What was tried is what is run: a tag that moves runs something else tomorrow."""
    compose, dockerfile = (ROOT / "compose.yaml").read_text(), (ROOT / "Dockerfile").read_text()
    named = {Settings.model_fields[name].default for name in ("workspace_image", "helper_image")}
    named |= set(re.findall(r"\bimage: (\S+)", compose)) | set(re.findall(r"IMAGE:-([^}]+)}", compose))
    named |= set(re.findall(r"^ARG BASE=(\S+)", dockerfile, re.MULTILINE))
    assert len(named) == 7
    exact = re.compile(
        r"[a-z/-]+:(\w+\.)?(\d+\.\d+(\.\d+)?|bookworm-\d{8}|\d{4}-\d\d-\d\dT[\d-]+Z)(-[a-z-]+)?"
    )
    assert [name for name in sorted(named) if not exact.fullmatch(name)] == []
    assert f"codehub:{version('codehub')}" in named


def test_nothing_of_the_compose_file_listens_beyond_this_machine() -> None:
    text = (ROOT / "compose.yaml").read_text()
    ports = re.findall(r'ports: \["(.*?)"\]', text)
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "CODEHUB_HOST: 127.0.0.1" in text


def test_every_secret_of_the_compose_file_comes_from_outside() -> None:
    for line in (ROOT / "compose.yaml").read_text().splitlines():
        if re.search(r"PASSWORD|SECRET", line) and ":" in line and not line.lstrip().startswith("#"):
            assert "${" in line or "$$" in line, line
    example = (ROOT / "deploy/env.example").read_text()
    assert not re.search(r"PASSWORD=.", example)


def test_the_image_s_build_sees_only_what_it_needs() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    copied = re.findall(r"^COPY (?!--from)(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = {word for line in copied for word in line.split()[:-1]}
    assert {f"!{source}" for source in sources} <= set(ignored)
