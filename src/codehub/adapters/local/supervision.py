"""Watches processes, and notifies every listener when one ends. Takes the exit status of our children.

Signals no process.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from codehub.adapters.processes import Process

_SIGNALLED = 128
"""As in a shell: the exit code of a process that a signal ended is this plus the signal's number."""


@dataclass(frozen=True, slots=True)
class WatchedProcess:
    """One process, held by a descriptor that becomes readable when it ends."""

    process: Process
    fd: int


class EndWatcher:
    """Reports the end of an instance at once, whoever started it. Like every hint, it may be missing."""

    def __init__(self) -> None:
        self._watched: dict[UUID, WatchedProcess] = {}
        self._listeners: set[asyncio.Queue[UUID]] = set()
        self._exit_codes: dict[UUID, int] = {}

    def watch(self, workspace_id: UUID, process: Process) -> None:
        """Watch this process for this workspace, in place of another."""
        current = self._watched.get(workspace_id)
        if current is not None and current.process == process:
            return
        self.unwatch(workspace_id)
        self._exit_codes.pop(workspace_id, None)
        try:
            fd = os.pidfd_open(process.pid)
        except OSError:
            return  # it has ended, or there are no descriptors left: the next list shows it
        if not process.alive():
            self._collect_exit_status(workspace_id, fd)
            os.close(fd)
            self.notify(workspace_id)
            return
        self._watched[workspace_id] = WatchedProcess(process, fd)
        asyncio.get_running_loop().add_reader(fd, self._on_end, workspace_id, fd)

    def unwatch(self, workspace_id: UUID) -> None:
        watched = self._watched.pop(workspace_id, None)
        if watched is not None:
            asyncio.get_running_loop().remove_reader(watched.fd)
            self._collect_exit_status(workspace_id, watched.fd)
            os.close(watched.fd)

    def exit_code(self, workspace_id: UUID) -> int | None:
        """Return what the process that was last watched ended with, if it was a child of ours."""
        return self._exit_codes.get(workspace_id)

    def watches(self, workspace_id: UUID) -> bool:
        return workspace_id in self._watched

    def close(self) -> None:
        for workspace_id in list(self._watched):
            self.unwatch(workspace_id)

    def notify(self, workspace_id: UUID) -> None:
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

    def _on_end(self, workspace_id: UUID, fd: int) -> None:
        if (watched := self._watched.get(workspace_id)) is not None and watched.fd == fd:
            self.unwatch(workspace_id)
            self.notify(workspace_id)

    def _collect_exit_status(self, workspace_id: UUID, fd: int) -> None:
        """Take the exit status of a child of ours that has ended; other processes have none for us."""
        with suppress(ChildProcessError):
            result = os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
            if result is not None:
                has_exited = result.si_code == os.CLD_EXITED
                self._exit_codes[workspace_id] = result.si_status + (0 if has_exited else _SIGNALLED)
