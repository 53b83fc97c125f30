"""A home goes in and a tar stream comes out, or the other way round, by GNU tar. Refuses a home that changes
while it is read.

Unpacking runs in a bubblewrap sandbox that sees the staging directory and what tar itself needs, and nothing
else. So does packing: without root, the home's own user can read there what is closed to everybody.
"""

import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from codehub.adapters.gnutar import (
    ACLS,
    CAPABILITIES,
    FULL,
    OWN_CAPABILITIES,
    OWN_UNPACK,
    PACK,
    UNPACK,
    check_packed,
    check_unpacked,
)
from codehub.adapters.local.programs import run, run_program
from codehub.adapters.local.survey import survey
from codehub.adapters.threads import in_thread
from codehub.core.messages import Code, Message
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


# Opens a file that nobody may open: only a capability that really works allows that.
_OVERRIDE = ("--tmpfs", "/try", "sh", "-c", "umask 777 && : > /try/closed && : >> /try/closed")
_PLACE = "/home"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox of this machine. In one that `overrides`, file modes do not stop the owner of the files."""

    command: Sequence[str]
    overrides: bool

    def on(self, home: Path, *, bind: str) -> tuple[str, ...]:
        return (*self.command, bind, str(home), _PLACE, "--chdir", _PLACE)


class Tar:
    """Packs and unpacks homes, in the best sandbox of this machine."""

    def __init__(self, *, is_confined: bool = False) -> None:
        """`is_confined`: whoever runs us sees nothing but the home already, as in a container of our own."""
        self._sandbox_result: tuple[Sandbox | None] | None = (None,) if is_confined else None

    async def is_sandboxed(self) -> bool:
        return await self._sandbox() is not None

    async def pack(self, home: Path, report: Report) -> AsyncGenerator[bytes, None]:
        """Yield the home as a tar stream. Sockets, pipes and device nodes hold nothing and are left out."""
        # In the same sandbox as unpacking: there the users in an ACL are numbers, and stay so.
        sandbox = await self._sandbox()
        if sandbox is not None:
            inside, path = sandbox.on(home, bind="--ro-bind"), _PLACE
        else:
            inside, path = (), str(home)
        is_limited_by_modes = os.geteuid() != 0 and not (sandbox is not None and sandbox.overrides)
        survey_result = await survey(path, inside=inside, names_read_only=is_limited_by_modes)
        await in_thread(_refuse_unrestorable, home, survey_result.read_only)
        excluded = [b"--exclude=" + path for path in survey_result.special]
        done = 0
        async with run_program(
            (*inside, *PACK, *excluded, f"--directory={path}", "."), feeds_it=False
        ) as tar:
            async with aclosing(tar.parts()) as parts:
                async for part in parts:
                    done += len(part)
                    report(Amount("archive", done, max(done, survey_result.size)))
                    yield part
            check_packed(await tar.exit_code(), bytes(tar.stderr))
            if survey_result.problem:
                raise ActionFailed(Message(Code.HOME_UNREADABLE, {"text": survey_result.problem}))

    async def unpack(self, tar_stream: AsyncIterator[memoryview], home: Path, *, acls: bool = True) -> None:
        """Unpack the stream into this empty directory. What the stream raises comes before what tar says."""
        sandbox = await self._sandbox()
        command: tuple[str, ...] = UNPACK if os.geteuid() == 0 else OWN_UNPACK
        if acls:
            command = (*command, ACLS)
        if sandbox is not None:
            command = (*sandbox.on(home, bind="--bind"), *command)
        else:
            command = (*command, f"--directory={home}")
        first = await anext(tar_stream, memoryview(b""))  # an archive that is missing needs no process
        async with run_program(command, feeds_it=True) as tar:
            with suppress(BrokenPipeError):
                await tar.write(first)
                async for part in tar_stream:
                    await tar.write(part)
            # tar may stop reading first, having failed; whether the archive is to blame, its other parts
            # tell.
            async for _ in tar_stream:
                pass
            tar.close()
            check_unpacked(await tar.exit_code(), bytes(tar.stderr))

    async def _sandbox(self) -> Sandbox | None:
        if self._sandbox_result is None:
            self._sandbox_result = (await _usable_sandbox(),)
        return self._sandbox_result[0]


async def _usable_sandbox() -> Sandbox | None:
    """Return the best sandbox that works here. Warns once if there is none."""
    complaint = "bwrap is not installed"
    if shutil.which("bwrap"):
        for sandbox in _sandboxes():
            probe = _OVERRIDE if sandbox.overrides else ("tar", "--version")
            code, complaint = await run(*sandbox.on(Path("/"), bind="--bind"), *probe)
            if code == 0:
                return sandbox
    log.warning(
        "restore_without_sandbox",
        reason=complaint,
        remedy="install bubblewrap; until then each archive is read whole before it is unpacked",
    )
    return None


def _sandboxes() -> list[Sandbox]:
    """Return what may work, the best first.

    A bwrap that is setuid, or AppArmor, lets an ordinary user have no capabilities.
    """
    if os.geteuid() == 0:
        return [Sandbox((*_BWRAP, "--cap-drop", "ALL", *_capability_options(CAPABILITIES)), overrides=True)]
    own = (*_BWRAP, "--unshare-user")
    return [
        Sandbox((*own, *_capability_options(OWN_CAPABILITIES)), overrides=True),
        Sandbox(own, overrides=False),
    ]


def _capability_options(capabilities: Sequence[str]) -> list[str]:
    return [argument for capability in capabilities for argument in ("--cap-add", f"CAP_{capability}")]


def _refuse_unrestorable(home: Path, read_only: Iterable[bytes]) -> None:
    """Refuse what tar makes read-only before it gives it its attributes: what could not be restored is not
    archived.
    """
    for path in map(os.fsdecode, read_only):
        try:
            attributes = os.listxattr(home / path, follow_symlinks=False)
        except OSError as error:
            raise ActionFailed(
                Message(Code.HOME_UNREADABLE, {"text": f"{path!r}: {error.strerror}"})
            ) from None
        if any(name.startswith("user.") for name in attributes):
            raise ActionFailed(Message(Code.NEEDS_SANDBOX, {"path": repr(path or ".")}))


async def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it, however deep, when nobody else wants the processor. A user's
    own read-only directories are made writable first.
    """
    remove = partial(run, "nice", "-n", "19", "rm", "-rf", "--one-file-system", "--", str(path))
    code, complaint = await remove()
    if code and os.geteuid() != 0:
        await run("chmod", "-R", "u+rwx", "--", str(path))
        code, complaint = await remove()
    if code:
        raise ActionFailed(Message(Code.PATH_NOT_REMOVED, {"path": str(path), "text": complaint}))


async def write_out(directory: Path) -> None:
    """Return when everything below is on the disk.

    One call for the whole filesystem, not one for each of 50,000 files.
    """
    code, complaint = await run("sync", "--file-system", str(directory))
    if code:
        full = any(sign in complaint for sign in FULL)
        raise ActionFailed(Message(Code.HOMES_FULL if full else Code.DISK_FAILED, {"text": complaint}))
