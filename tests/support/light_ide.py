"""A code-server for tests that is ready in a moment: put its
directory into PATH, and a local codehub runs it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SERVER = Path(__file__).with_name("ide_server.py")
HOME_SERVER = Path(__file__).with_name("home_server.py")
"""Serves the files of its home, and notes what reached it."""
_PROGRAM = """#!/bin/sh
[ "$1" != --version ] || exit 0
while [ "$1" != --socket ]; do shift; done
exec /usr/bin/python3 -I -S "$(dirname "$(readlink -f "$0")")/ide_server.py" "$2"
"""


@contextmanager
def light_code_server(server: Path = _SERVER) -> Iterator[Path]:
    """Yield the directory. Not below pytest's: that is closed to the users that workspaces run as."""
    place = Path(tempfile.mkdtemp(prefix="codehub-ide-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        shutil.copy(server, place / "ide_server.py")
        (place / "code-server").write_text(_PROGRAM)
        (place / "code-server").chmod(0o755)
        yield place
    finally:
        shutil.rmtree(place)
