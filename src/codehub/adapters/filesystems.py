"""What is left of a filesystem, for whichever adapter keeps something there."""

import os
from pathlib import Path

MB = 1 << 20


def free_mb(place: Path) -> int:
    """Return what whoever is not root can still write there. Blocks: for a thread."""
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize // MB
