"""Filesystems that a test needs for a while, in memory."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, *, size: str = "8m") -> Iterator[Path]:
    """A filesystem of its own at this new directory."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "codehub-test", str(place)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)
