"""A home goes in and a tar stream comes out, or the other way round, by GNU tar. Refuses a home that changes while it is read.

Unpacking runs in a bubblewrap sandbox that sees the staging directory and what tar itself needs, and nothing else.
"""

import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

import structlog

from codehub.adapters.gnutar import CAPABILITIES, FULL, PACK, UNPACK, not_written, unreadable
from codehub.adapters.local.programs import run, running
from codehub.adapters.local.survey import survey
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Report

log = structlog.get_logger()

_BWRAP = (
    *(
        "bwrap",
        "--die-with-parent",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
    ),
    *("--unshare-cgroup-try", "--ro-bind", "/usr", "/usr", "--ro-bind-try", "/bin", "/bin"),
    *("--ro-bind-try", "/lib", "/lib", "--ro-bind-try", "/lib64", "/lib64"),
)


async def pack(home: Path, report: Report) -> AsyncGenerator[bytes, None]:
    """Yield the home as a tar stream. Sockets, pipes and device nodes hold nothing and are left out."""
    found = await survey(home)
    excluded = [b"--exclude=" + path for path in found.special]
    done = 0
    async with running((*PACK, *excluded, f"--directory={home}", "."), feeds_it=False) as tar:
        async with aclosing(tar.parts()) as parts:
            async for part in parts:
                done += len(part)
                report(Amount("archive", done, max(done, found.size)))
                yield part
        if code := await tar.exit_code():
            raise unreadable(code, bytes(tar.told))


class Unpacking:
    """Knows, after the first look, whether this machine lets us have a sandbox."""

    def __init__(self) -> None:
        self._is_sandboxed: bool | None = None

    async def is_sandboxed(self) -> bool:
        if self._is_sandboxed is None:
            code, complaint = 1, "bwrap is not installed"
            if shutil.which("bwrap"):
                code, complaint = await run(*_sandbox(Path("/")), "tar", "--version")
            self._is_sandboxed = code == 0
            if not self._is_sandboxed:
                log.warning(
                    "restore_without_sandbox",
                    reason=complaint,
                    remedy="install bubblewrap; until then each archive is read whole before it is unpacked",
                )
        return self._is_sandboxed

    async def unpack(self, tar_stream: AsyncIterator[memoryview], home: Path) -> None:
        """Unpack the stream into this empty directory. What the stream raises comes before what tar says."""
        if await self.is_sandboxed():
            command = (*_sandbox(home), *UNPACK)
        else:
            command = (*UNPACK, f"--directory={home}")
        first = await anext(tar_stream, memoryview(b""))  # what is not there at all is not worth a process
        async with running(command, feeds_it=True) as tar:
            with suppress(BrokenPipeError):
                await tar.write(first)
                async for part in tar_stream:
                    await tar.write(part)
            # tar may stop reading first, having failed; whether the archive is to blame, its other parts tell.
            async for _ in tar_stream:
                pass
            tar.close()
            if code := await tar.exit_code():
                raise not_written(code, bytes(tar.told))


def _sandbox(home: Path) -> tuple[str, ...]:
    where = ("--bind", str(home), "/home", "--chdir", "/home")
    if os.geteuid() != 0:
        return (*_BWRAP, "--unshare-user", *where)
    kept = [word for capability in CAPABILITIES for word in ("--cap-add", f"CAP_{capability}")]
    return (*_BWRAP, *where, "--cap-drop", "ALL", *kept)


async def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it, however deep. A user's own read-only directories are made writable first."""
    remove = partial(run, "rm", "-rf", "--one-file-system", "--", str(path))
    code, complaint = await remove()
    if code and os.geteuid() != 0:
        await run("chmod", "-R", "u+rwx", "--", str(path))
        code, complaint = await remove()
    if code:
        raise ActionFailed(f"{path} can't be removed: {complaint}")


async def write_out(directory: Path) -> None:
    """Return when everything below is on the disk. One call for the whole filesystem, not one for each of 50,000 files."""
    code, complaint = await run("sync", "--file-system", str(directory))
    if code:
        full = any(sign in complaint for sign in FULL)
        raise ActionFailed(
            f"{'no space left to restore the home' if full else 'the disk did not take the home'}: {complaint}"
        )
