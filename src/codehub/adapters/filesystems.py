"""The free space of a filesystem, for every adapter that keeps something there."""

import os
from pathlib import Path

MB = 1 << 20


def free_mb(path: Path) -> int:
    """Return how much a user who is not root can still write there. Blocks: run it in a thread."""
    statistics = os.statvfs(path)
    return statistics.f_bavail * statistics.f_frsize // MB
