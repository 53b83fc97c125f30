"""Who we are goes in, the OS user that runs the server comes out: ourselves, or codehub-db when
we are root.
"""

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

from codehub.adapters.postgres.embedded.errors import USE_ANOTHER, EmbeddedPostgresError
from codehub.adapters.postgres.embedded.processes import run
from codehub.ports.system import Clock

SERVER_USER = "codehub-db"
_TRIES = 5
_TRY_PAUSE_S = 0.2


@dataclass(frozen=True)
class Account:
    """The user that the server runs as, and the name of the user that may connect to it."""

    name: str
    uid: int
    gid: int
    client_name: str

    @property
    def drop_to(self) -> tuple[int, int] | None:
        """The (uid, gid) a child of ours must change to, if any."""
        return None if self.uid == os.geteuid() else (self.uid, self.gid)

    def own(self, target: Path | int) -> None:
        """Give a file to the server's user; without root there is nobody to give it to."""
        if self.drop_to is not None:
            os.chown(target, self.uid, self.gid)


async def server_account(clock: Clock) -> Account:
    """Return the user for the server. PostgreSQL refuses to run as root, so root gets a user made for it."""
    own = own_account()
    if own.uid != 0:
        return own
    server_user = _find(SERVER_USER) or await _create(SERVER_USER, clock)
    if server_user.pw_uid == 0:
        raise EmbeddedPostgresError(
            f"user {SERVER_USER} has uid 0, which PostgreSQL refuses: give it another uid, or {USE_ANOTHER}"
        )
    return Account(server_user.pw_name, server_user.pw_uid, server_user.pw_gid, client_name=own.name)


def own_account() -> Account:
    try:
        user = pwd.getpwuid(os.geteuid())
        return Account(user.pw_name, user.pw_uid, user.pw_gid, client_name=user.pw_name)
    except KeyError:
        raise EmbeddedPostgresError(
            f"uid {os.geteuid()} has no name in /etc/passwd, which PostgreSQL needs: add an entry, or "
            f"{USE_ANOTHER}"
        ) from None


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def check_server_user() -> None:
    """Say whether root has a user for the server, or could make one."""
    if _find(SERVER_USER) is None:
        _useradd(SERVER_USER)


def _useradd(name: str) -> str:
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if useradd is None:
        raise EmbeddedPostgresError(
            f"the database needs a system user {name} and there is no useradd here: create that user, or "
            f"{USE_ANOTHER}"
        )
    return useradd


async def _create(name: str, clock: Clock) -> pwd.struct_passwd:
    command = (_useradd(name), "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name)
    output = ""
    for _ in range(_TRIES):
        _, output = await run(command, clock=clock)
        # Whatever it said: another codehub may have made the user at this moment, or hold the lock of
        # /etc/passwd.
        if (user := _find(name)) is not None:
            return user
        await clock.sleep(_TRY_PAUSE_S)
    raise EmbeddedPostgresError(
        f"the database needs a system user {name} and useradd failed ({output.strip()}): create that user, "
        f"or {USE_ANOTHER}"
    )
