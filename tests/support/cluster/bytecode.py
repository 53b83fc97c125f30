"""What Python has compiled of the modules that an image runs: its containers don't do it at each start."""

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

PYTHON = Path("/usr/lib/python3.11")
"""The library of the Python that images have: Debian's."""
_PROGRAM = "/usr/bin/python3.11"


def add_bytecode(tar: tarfile.TarFile, statement: str, places: Mapping[Path, str]) -> None:
    """Run an import, and add what was compiled for it. `places`: directories to import from, and
    where each is in the image.
    """
    with tempfile.TemporaryDirectory(prefix="codehub-bytecode-") as directory:
        environment = {"PYTHONPATH": ":".join(map(str, places)), "PYTHONPYCACHEPREFIX": directory}
        command = [_PROGRAM, "-S", "-c", statement]
        subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
        for source, place in {**places, PYTHON: str(PYTHON)[1:]}.items():
            root = Path(directory) / str(source)[1:]
            for compiled in root.rglob("*.pyc"):
                below = compiled.relative_to(root)
                tar.add(compiled, f"{place}/{below.parent}/__pycache__/{below.name}", filter=_of_root)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.mode |= 0o444
    return entry
