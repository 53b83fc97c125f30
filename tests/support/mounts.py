"""Filesystems that a test needs for a while, in memory."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, *, size: str = "8m", kind: str = "tmpfs") -> Iterator[Path]:
    """A filesystem of its own at this new directory. One of kind
    ramfs knows neither ACLs nor extended attributes.
    """
    place.mkdir()
    options = [] if kind == "ramfs" else ["-o", f"size={size}"]
    command = ["mount", "-t", kind, *options, "codehub-test", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)
