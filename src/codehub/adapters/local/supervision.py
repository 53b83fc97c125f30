"""Processes go in, a word to every listener comes out when one ends. Children of ours are buried; nobody is signalled here."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from codehub.adapters.processes import Process

_SIGNALLED = 128
"""As a shell has it: what a signal ended has this, and the signal's number, for an exit code."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One process, held by a descriptor that becomes readable when it ends."""

    process: Process
    fd: int


class Watch:
    """The end of an instance is news at once, whoever started it. As every hint, it may be missing."""

    def __init__(self) -> None:
        self._watched: dict[UUID, Watched] = {}
        self._listeners: set[asyncio.Queue[UUID]] = set()
        self._exit_codes: dict[UUID, int] = {}

    def on(self, workspace_id: UUID, process: Process) -> None:
        """Watch this process for this workspace, in place of another."""
        current = self._watched.get(workspace_id)
        if current is not None and current.process == process:
            return
        self.off(workspace_id)
        self._exit_codes.pop(workspace_id, None)
        try:
            fd = os.pidfd_open(process.pid)
        except OSError:
            return  # it has ended, or there are no descriptors left: the next list tells
        if not process.alive():
            self._bury(workspace_id, fd)
            os.close(fd)
            self.tell(workspace_id)
            return
        self._watched[workspace_id] = Watched(process, fd)
        asyncio.get_running_loop().add_reader(fd, self._ended, workspace_id, fd)

    def off(self, workspace_id: UUID) -> None:
        watched = self._watched.pop(workspace_id, None)
        if watched is not None:
            asyncio.get_running_loop().remove_reader(watched.fd)
            self._bury(workspace_id, watched.fd)
            os.close(watched.fd)

    def exit_code(self, workspace_id: UUID) -> int | None:
        """Return what the process that was last watched ended with, if it was a child of ours."""
        return self._exit_codes.get(workspace_id)

    def watches(self, workspace_id: UUID) -> bool:
        return workspace_id in self._watched

    def close(self) -> None:
        for workspace_id in list(self._watched):
            self.off(workspace_id)

    def tell(self, workspace_id: UUID) -> None:
        for queue in self._listeners:
            queue.put_nowait(workspace_id)

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[UUID]]:
        queue: asyncio.Queue[UUID] = asyncio.Queue()
        self._listeners.add(queue)

        async def follow() -> AsyncIterator[UUID]:
            while True:
                yield await queue.get()

        try:
            yield follow()
        finally:
            self._listeners.discard(queue)

    def _ended(self, workspace_id: UUID, fd: int) -> None:
        if (watched := self._watched.get(workspace_id)) is not None and watched.fd == fd:
            self.off(workspace_id)
            self.tell(workspace_id)

    def _bury(self, workspace_id: UUID, fd: int) -> None:
        """Take the exit status of a child of ours that has ended; of others' there is none to take."""
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
            if ended is not None:
                by_itself = ended.si_code == os.CLD_EXITED
                self._exit_codes[workspace_id] = ended.si_status + (0 if by_itself else _SIGNALLED)
