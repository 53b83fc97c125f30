"""A DATA_DIR goes in, the version of the server that would run there comes out, or why none would.

Makes and changes nothing.
"""

import errno
import os
import subprocess
from pathlib import Path

from codehub.adapters.postgres.embedded.account import check_server_user, own_account
from codehub.adapters.postgres.embedded.binaries import find_installed
from codehub.adapters.postgres.embedded.cluster import Layout, check_owner, check_room, check_version
from codehub.adapters.postgres.embedded.errors import USE_ANOTHER, EmbeddedPostgresError, explain_errors


def check_embedded(data_dir: Path) -> str:
    """Return the version that start() would run here, or raise what start() would most likely raise."""
    layout = Layout(data_dir.absolute() / "postgres")
    version = _version(find_installed().postgres)
    account = own_account()
    if account.uid == 0:
        check_server_user()
    with explain_errors(layout.base):
        check_owner(layout.data, account)
        if layout.data.exists():
            check_version(layout.data)
        directory = next(path for path in (layout.base, *layout.base.parents) if path.exists())
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
        if not layout.data.exists():
            check_room(layout.base, directory)
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
