"""DATA_DIR/postgres goes in, a complete data directory of ours comes out.

Refuses another version's and another owner's.
"""

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

from codehub.adapters.postgres.embedded.account import Account
from codehub.adapters.postgres.embedded.address import PORT, SUPERUSER, pid_in
from codehub.adapters.postgres.embedded.binaries import MAJOR, Binaries
from codehub.adapters.postgres.embedded.errors import (
    EmbeddedPostgresError,
    TryAgain,
    disk_full,
    failure_line,
    free_bytes,
    is_full,
)
from codehub.adapters.postgres.embedded.processes import run
from codehub.ports.system import Clock

# The server's own directory by a name that needs no permission on its parents, however deep and closed they
# are.
HERE = "/proc/self/cwd"

_CLUSTER_BYTES = 64 * 1024 * 1024  # a new one takes 40 MB
_SETTINGS = """\
# Written by codehub at every start. Tune with ALTER SYSTEM, which has the last word over this file.
max_connections = 100
shared_buffers = '128MB'
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] '
"""


@dataclass(frozen=True)
class Layout:
    """What lies where.

    `lock` is held by the codehub that owns the server, `busy` by the server's processes.
    """

    base: Path

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def unfinished(self) -> Path:
        return self.base / "data.new"

    @property
    def log(self) -> Path:
        return self.base / "log"

    @property
    def lock(self) -> Path:
        return self.base / "lock"

    @property
    def busy(self) -> Path:
        return self.base / "busy"


async def prepare(layout: Layout, *, account: Account, binaries: Binaries, clock: Clock, busy: int) -> None:
    """Leave a data directory that a server can be started on. Nothing may be at work in it: `busy` proves
    that.
    """
    if not layout.data.exists():
        await _initialise(layout, account=account, binaries=binaries, clock=clock, busy=busy)
    check_version(layout.data)
    _take_over(layout.data, account)
    write_configuration(layout.data, account)
    _remove_reused_locks(layout.data)


def check_owner(data: Path, account: Account) -> None:
    """Refuse another user's database. Root may take it over."""
    if os.geteuid() == 0 or not data.exists() or (owner := data.stat().st_uid) == account.uid:
        return
    raise EmbeddedPostgresError(
        f"{data} belongs to {_user_name(owner)} and codehub runs as {account.name}: run it as "
        f"{_user_name(owner)}, or chown -R {account.name} {data.parent}"
    )


def check_version(data: Path) -> None:
    try:
        version = (data / "PG_VERSION").read_text(errors="replace").strip()
    except FileNotFoundError:
        raise EmbeddedPostgresError(
            f"{data} holds no database (it has no PG_VERSION): restore a backup there, or move it away and "
            "start codehub again"
        ) from None
    if version != str(MAJOR):
        raise EmbeddedPostgresError(
            f"{data} was written by PostgreSQL {version} and this is {MAJOR}: serve it with PostgreSQL "
            f"{version} and set CODEHUB_DATABASE_URL to that server, or move it away and start codehub again"
        )


def write_configuration(data: Path, account: Account) -> bool:
    """Write the files that we own where they differ, and say whether any did."""
    # No other line: whoever is not this OS user is refused, also through an opened directory.
    files = {
        "postgresql.conf": _SETTINGS,
        "pg_hba.conf": f"local all {SUPERUSER} peer map=codehub\n",
        "pg_ident.conf": f'codehub "{account.client_name}" {SUPERUSER}\n',
    }
    differing = [name for name, text in files.items() if _read(data / name) != text]
    for name in differing:
        _replace(data / name, files[name], account)
    if differing:
        _flush(data)
    return bool(differing)


def check_room(base: Path, directory: Path) -> None:
    """Raise unless there is room for a new one below `place`.

    What initdb says when there is none is seldom that.
    """
    if free_bytes(directory) < _CLUSTER_BYTES:
        free_mb, needed_mb = free_bytes(directory) >> 20, _CLUSTER_BYTES >> 20
        raise disk_full(base, f"{free_mb} MB are left and a new database takes {needed_mb}")


async def _initialise(
    layout: Layout, *, account: Account, binaries: Binaries, clock: Clock, busy: int
) -> None:
    """Build the data directory beside its place and rename it: whoever kills us leaves all of it
    or nothing.
    """
    new = layout.unfinished
    shutil.rmtree(new, ignore_errors=True)
    check_room(layout.base, layout.base)
    new.mkdir(mode=0o700)
    account.own(new)
    command = (
        *(binaries.initdb, "-D", HERE, "--username", SUPERUSER, "--auth", "peer", "--data-checksums"),
        *(
            "--encoding",
            "UTF8",
            "--locale",
            "C",
            "--locale-provider",
            "builtin",
            "--builtin-locale",
            "C.UTF-8",
        ),
    )
    code, output = await run(command, clock=clock, cwd=new, drop_to=account.drop_to, pass_fds=(busy,))
    if code != 0:
        full = is_full(output, layout.base)
        shutil.rmtree(new, ignore_errors=True)
        line = failure_line(output)
        if full:
            raise disk_full(layout.base, line)
        if code < 0 or "was terminated by signal 9" in output:
            raise TryAgain(f"initdb was killed: {line}")
        raise EmbeddedPostgresError(f"initdb could not make a database in {layout.base}: {line}")
    write_configuration(new, account)
    new.rename(layout.data)
    _flush(layout.base)
    _flush(layout.base.parent)


def _take_over(data: Path, account: Account) -> None:
    """Give the directory to the server's user, when it was another's at the last start."""
    if data.stat().st_uid == account.uid:
        return
    # From the inside out, the directory itself last: whoever kills us here lets the next start do it again.
    for _, folders, files, fd in os.fwalk(data, topdown=False):
        for name in (*folders, *files):
            os.chown(name, account.uid, account.gid, dir_fd=fd, follow_symlinks=False)
    account.own(data)


def _remove_reused_locks(data: Path) -> None:
    """Remove lock files whose dead owner's pid another process has by now: PostgreSQL would take it for a
    server.
    """
    for path in (data / "postmaster.pid", data / f".s.PGSQL.{PORT}.lock"):
        pid = pid_in(path)
        if pid is not None and Path(f"/proc/{abs(pid)}").exists():
            path.unlink()


def _read(path: Path) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, encoding="utf-8", errors="replace") as file:
        return file.read()


def _replace(path: Path, text: str, account: Account) -> None:
    """Replace a file as a whole.

    The directory is the server's: we may be root, so no link in it is followed.
    """
    partial = path.with_name(path.name + ".new")
    partial.unlink(missing_ok=True)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        account.own(fd)
        os.fsync(fd)
    partial.replace(path)


def _flush(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
