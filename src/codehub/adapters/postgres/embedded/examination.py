"""A DATA_DIR goes in, the version of the server that would run there comes out, or why none would. Makes and changes nothing."""

import errno
import os
import subprocess
from pathlib import Path

from codehub.adapters.postgres.embedded.account import check_server_user, ourselves
from codehub.adapters.postgres.embedded.binaries import installed
from codehub.adapters.postgres.embedded.cluster import Layout, check_owner, check_room, check_version
from codehub.adapters.postgres.embedded.errors import USE_ANOTHER, EmbeddedPostgresError, explaining


def check_embedded(data_dir: Path) -> str:
    """Return the version that start() would run here, or raise what start() would most likely raise."""
    layout = Layout(data_dir.absolute() / "postgres")
    version = _version(installed().postgres)
    us = ourselves()
    if us.uid == 0:
        check_server_user()
    with explaining(layout.base):
        check_owner(layout.data, us)
        if layout.data.exists():
            check_version(layout.data)
        place = next(path for path in (layout.base, *layout.base.parents) if path.exists())
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        if not layout.data.exists():
            check_room(layout.base, place)
    return version


def _version(postgres: Path) -> str:
    try:
        command = (postgres, "--version")
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603  # ours
        return answer.stdout.split()[-1]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        raise EmbeddedPostgresError(
            f"{postgres} does not run on this machine ({error}): {USE_ANOTHER}"
        ) from error
