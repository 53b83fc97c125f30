"""A Job as a process: the program that a Pod runs, as a user of its
own without any right, on a claim that is a directory.

What a container changes for it is changed here too: no names of users,
nothing to write but the claim and the archives' directory.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from shutil import which

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.storages import COMMITTED_AT

from codehub.adapters.objectstore.jobs import JOB_UID
from codehub.ports.archives import Hear, JobGrants

_ROOT = Path(__file__).parents[2]
_AS_JOB = (
    *("setpriv", f"--reuid={JOB_UID}", f"--regid={JOB_UID}", "--clear-groups", "--no-new-privs"),
    *("--bounding-set=-all", "--inh-caps=-all"),
)
_PYTHON = (sys.executable, "-P")


def _can_run() -> bool:
    if os.geteuid() != 0 or which("bwrap") is None:
        return False
    probe = (*_AS_JOB, *_PYTHON, "-c", "import codehub.job.work")
    return subprocess.run(probe, check=False, capture_output=True, cwd="/").returncode == 0


JOBS = pytest.mark.skipif(
    not _can_run(), reason="only root starts processes as another user, who can read this Python"
)


@dataclass
class Claim:
    """A claim, and the Job that runs on it. `mood` may be called with each line of its output."""

    path: Path
    archives: Path | None = None
    mood: Callable[[str], None] = lambda _line: None
    program: str = "codehub.job"
    process: asyncio.subprocess.Process | None = None
    lines: list[str] = field(default_factory=list)
    grants: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.path / "home"

    async def archive(self, grants: JobGrants, hear: Hear) -> str:
        return await self._run("archive", grants, hear)

    async def restore(self, grants: JobGrants, hear: Hear) -> str:
        return await self._run("restore", grants, hear)

    async def _run(self, work: str, grants: JobGrants, hear: Hear) -> str:
        """Run it to its end as a RunJob does, and return its result. A caller that is cancelled ends it."""
        self.grants.append(grants.text)
        assert len(grants.text) < 900_000
        with tempfile.TemporaryDirectory(prefix="codehub-job-") as place:
            given, result, empty, switch = _prepare(Path(place), grants)
            mounts = ["--bind", str(result), str(result)]
            mounts += ["--ro-bind" if work == "archive" else "--bind", str(self.path), str(self.path)]
            directory = ""
            if grants.directory is not None:
                assert self.archives is not None
                directory = str(self.archives / grants.directory)
                mounts += ["--bind" if work == "archive" else "--ro-bind", directory, directory]
            self.process = await asyncio.create_subprocess_exec(
                *(
                    "bwrap",
                    "--die-with-parent",
                    "--unshare-pid",
                    "--ro-bind",
                    "/",
                    "/",
                    "--proc",
                    "/proc",
                    "--dev-bind",
                    "/dev",
                    "/dev",
                    *mounts,
                ),
                *("--ro-bind", str(empty), "/etc/passwd", "--ro-bind", str(empty), "/etc/group"),
                *("--ro-bind", str(switch), "/etc/nsswitch.conf"),
                *(*_AS_JOB, *_PYTHON, "-m", self.program, work, "--home", str(self.home)),
                *("--grants", str(given), "--result", str(result), "--archives", directory),
                stdout=asyncio.subprocess.PIPE,
                env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT)},
                cwd=_ROOT,
            )
            try:
                async with asyncio.timeout(4 * PATIENCE_S):
                    await self._follow(self.process, hear)
                return result.read_text(errors="surrogateescape")
            finally:
                self.kill()
                await self.process.wait()

    async def _follow(self, process: asyncio.subprocess.Process, hear: Hear) -> None:
        assert process.stdout is not None
        while line := (await process.stdout.readline()).decode(errors="surrogateescape"):
            self.lines.append(line)
            hear(line)
            self.mood(line)
        await process.wait()

    def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)


def _prepare(place: Path, grants: JobGrants) -> tuple[Path, Path, Path, Path]:
    """Return the grants' file, one for the result, an empty one, and what tells where names are looked up."""
    place.chmod(0o755)
    given, result, empty, switch = (place / name for name in ("grants.json", "result", "empty", "switch"))
    given.write_text(grants.text)
    result.touch()
    empty.touch()
    switch.write_text("hosts: files dns\n")  # systemd would name root all the same
    os.chown(result, JOB_UID, JOB_UID)
    return given, result, empty, switch


@contextmanager
def claims() -> Iterator[Callable[[], Claim]]:
    """Yield how to have claims, as a cluster makes them: root's, and open to the Jobs' group."""
    with tempfile.TemporaryDirectory(prefix="codehub-claims-") as place:
        Path(place).chmod(0o711)

        def make() -> Claim:
            path = Path(tempfile.mkdtemp(prefix="claim-", dir=place))
            os.chown(path, 0, JOB_UID)
            path.chmod(0o2775)
            return Claim(path)

        yield make


async def checked() -> datetime:
    """Let it be committed."""
    return COMMITTED_AT


def children(pid: int) -> Iterator[int]:
    """Yield every process below this one."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from children(int(child))


def own(home: Path) -> None:
    """Give a home to the Jobs' user, as a workspace's own."""
    subprocess.run(("chown", "-hR", f"{JOB_UID}:{JOB_UID}", str(home)), check=True)
