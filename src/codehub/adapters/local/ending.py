"""Ends an instance, first by SIGTERM.

When this returns no process of it runs; what can't be seen is an error.
"""

import asyncio
import os
import signal
from collections.abc import Mapping

from codehub.adapters.local.locks import is_held
from codehub.adapters.local.processes import POLL_S, find_marked
from codehub.adapters.local.records import Paths, Record
from codehub.adapters.processes import Process, all_ended
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed
from codehub.ports.system import Clock

_IDENTIFIED_S = 2.0
_EXIT_S = 1.0
_KILL_S = 10.0


async def end(
    paths: Paths, record: Record, marks: Mapping[str, str], owner: int | None, *, grace_s: float, clock: Clock
) -> None:
    """End the IDE, then all that it started. `owner` is a uid that nobody else on this machine has."""
    await _wait_for_identity(paths, record, clock)
    main, init, starter = paths.main(record), paths.init(), paths.starter(record)
    if main is not None:
        main.send(signal.SIGTERM)
        await all_ended([main], clock=clock, within_s=grace_s)
    # When the first process of a pid namespace ends, the kernel kills all others first.
    last = init if record.sandboxed else main
    if last is not None:
        last.send(signal.SIGKILL)
    gateway = paths.gateway_process(record)
    if gateway is not None:
        gateway.send(signal.SIGKILL)
    known = [process for process in (init, main, starter, gateway) if process is not None]
    await all_ended(known, clock=clock, within_s=_EXIT_S)

    deadline = clock.monotonic() + _KILL_S
    entries = frozenset(os.fsencode(f"{name}={value}") for name, value in marks.items())
    # A sandbox's uid needs no search: whatever had it was in the sandbox.
    search_uid = None if record.sandboxed else owner
    while remaining := await _find_remaining(known, entries, search_uid):
        for process in remaining:
            process.send(signal.SIGKILL)
        if clock.monotonic() >= deadline:
            raise ActionFailed(
                Message(Code.PROCESSES_REMAIN, {"pids": sorted(process.pid for process in remaining)})
            )
        await clock.sleep(POLL_S)
    while is_held(paths.alive):
        if clock.monotonic() >= deadline:
            raise ActionFailed(Message(Code.INSTANCE_UNSEEN))
        await clock.sleep(POLL_S)


async def _wait_for_identity(paths: Paths, record: Record, clock: Clock) -> None:
    """Wait until an instance that was started a moment ago has written its identity."""
    deadline = clock.monotonic() + _IDENTIFIED_S
    while is_held(paths.alive) and clock.monotonic() < deadline:
        if paths.main(record) is not None or (record.sandboxed and paths.init() is not None):
            return
        await clock.sleep(POLL_S)


async def _find_remaining(
    known: list[Process], entries: frozenset[bytes], owner: int | None
) -> list[Process]:
    living = [process for process in known if process.alive()]
    return living or await asyncio.to_thread(find_marked, entries, owner=owner)
