"""What is made once and used again: its directory, which every user may pass, and copies in it that are there
whole or not at all.
"""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache_directory() -> Path:
    """Return where every user of this machine can read what root has put there, or what this user has put
    there alone.
    """
    default = Path("/var/cache/codehub") if os.geteuid() == 0 else Path.home() / ".cache/codehub"
    return Path(os.environ.get("CODEHUB_CACHE") or default).absolute()


def make_enterable(directory: Path) -> None:
    """Make what is missing so that every user may pass, whatever our umask is. What exists keeps its mode."""
    for missing in reversed([path for path in (directory, *directory.parents) if not path.exists()]):
        missing.mkdir(exist_ok=True)
        missing.chmod(0o755)


def build_once(target: Path, build: Callable[[Path], None], *, lock: str) -> bool:
    """Let `build` fill a directory beside the target, which then gets its name; say whether it was ours to
    begin with.

    Whoever comes at the same time waits. What has the name is whole.
    """
    make_enterable(target.parent)
    with (target.parent / lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not target.exists():
            partial = target.with_name(target.name + ".new")
            shutil.rmtree(partial, ignore_errors=True)
            build(partial)
            os.sync()  # after a power cut, a file that has its name must have its content too
            partial.rename(target)
    return target.stat().st_uid == os.geteuid()
