"""Time, randomness, identity and tasks are ports: the check that guards this can fail, and does."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = [
    "import time",
    "import random",
    "import secrets",
    "from uuid import uuid4",
    "from uuid import uuid1",
    "from asyncio import sleep",
    "from asyncio import create_task",
    "import datetime; datetime.datetime.now()",
    "from os import urandom",
]


def refused_lines(code: str, path: str) -> int:
    ruff = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--no-cache",
            "--select",
            "TID251",
            "--output-format",
            "concise",
            "--stdin-filename",
            path,
            "-",
        ],
        input=code,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return len({line.split(":")[1] for line in ruff.stdout.splitlines() if "TID251" in line})


@pytest.mark.parametrize("path", ["src/codehub/engine/loop.py", "src/codehub/core/judge.py"])
def test_the_real_clock_and_randomness_are_refused_outside_adapters(path: str) -> None:
    assert refused_lines("\n".join(FORBIDDEN), path) == len(FORBIDDEN)


def test_adapters_may_use_the_real_clock_and_randomness() -> None:
    assert refused_lines("\n".join(FORBIDDEN), "src/codehub/adapters/system/machine.py") == 0
