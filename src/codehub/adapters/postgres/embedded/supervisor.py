"""A DATA_DIR goes in, a server that accepts connections comes out and stays, until stop().

Never two on one directory.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from codehub.adapters.postgres.embedded.account import Account, server_account
from codehub.adapters.postgres.embedded.address import Address
from codehub.adapters.postgres.embedded.binaries import Binaries, usable_binaries
from codehub.adapters.postgres.embedded.cluster import Layout, check_owner, prepare, write_configuration
from codehub.adapters.postgres.embedded.errors import (
    USE_ANOTHER,
    EmbeddedPostgresError,
    TryAgain,
    explain_errors,
)
from codehub.adapters.postgres.embedded.locks import is_busy, take_ownership, vacate
from codehub.adapters.postgres.embedded.processes import watch_end
from codehub.adapters.postgres.embedded.readiness import until_accepting
from codehub.adapters.postgres.embedded.server import Server, adopt, bound_log, launch
from codehub.ports.system import Clock, Task, Tasks

log = structlog.get_logger()

_WATCH_S = 2.0
_ATTEMPTS_MAX = 8
_RESTART_DELAY_S_MAX = 30.0
_STEADY_S = 60.0


class EmbeddedPostgres:
    """The server under DATA_DIR/postgres.

    One task brings it up, watches it and ends it, so nothing happens twice at once.
    """

    def __init__(self, data_dir: Path, *, clock: Clock, tasks: Tasks, cache_dir: Path | None = None) -> None:
        self._layout = Layout(data_dir.absolute() / "postgres")
        self._cache_dir = cache_dir
        self._clock = clock
        self._tasks = tasks
        self._run: _ServerRun | None = None

    async def start(self) -> None:
        """Return when the server accepts connections; at once when it was started already.

        Cancelling stops it again.
        """
        if self._run is not None and self._run.stopping:
            await self._run.ended.wait()
        if self._run is None or self._run.ended.is_set():
            self._run = _ServerRun(self._layout, self._cache_dir, self._clock, self._tasks)
        run = self._run
        try:
            await run.decided.wait()
        except asyncio.CancelledError:
            await self.stop()
            raise
        if run.failure is not None:
            raise run.failure
        if run.stopping or run.ended.is_set():
            raise EmbeddedPostgresError(
                "the embedded database was stopped while it was starting: start it again"
            )

    async def stop(self) -> None:
        """End the server cleanly, within 8 s, and leave no process. Does nothing when there is none."""
        if self._run is not None:
            self._run.cancel()
            await self._run.ended.wait()

    @property
    def connect_args(self) -> dict[str, Any]:
        """Keyword arguments for asyncpg.connect and asyncpg.create_pool, the same for as long as it is
        started.
        """
        if self._run is None or self._run.address is None:
            raise EmbeddedPostgresError("the embedded database is not running: await start() first")
        return self._run.address.connect_args


class _ServerRun:
    """One run of the server, between start() and stop(). Only its own task changes the server."""

    def __init__(self, layout: Layout, cache_dir: Path | None, clock: Clock, tasks: Tasks) -> None:
        self.decided = asyncio.Event()  # it accepts connections, or it never will
        self.ended = asyncio.Event()
        self.failure: BaseException | None = None
        self.stopping = False
        self.address: Address | None = None
        self._layout = layout
        self._cache_dir = cache_dir
        self._clock = clock
        self._server: Server | None = None
        self._task: Task = tasks.spawn(self._supervise(), name="embedded-postgres")
        self._task.add_done_callback(self._note_end)

    def cancel(self) -> None:
        """Ask for the end, once: a second cancellation would mean that the clean shutdown takes too long."""
        if not self.stopping:
            self.stopping = True
            self._task.cancel()

    async def _supervise(self) -> None:
        try:
            with explain_errors(self._layout.base):
                ownership = take_ownership(self._layout)
            try:
                await self._bring_up_and_watch()
            finally:
                try:
                    await self._shut_down()
                finally:
                    os.close(ownership)
        except EmbeddedPostgresError as error:
            self.failure = error
            if self.decided.is_set():
                log.error("postgres_failed", error=str(error))  # noqa: TRY400  # the message is the whole story

    async def _bring_up_and_watch(self) -> None:
        account = await server_account(self._clock)
        binaries = await usable_binaries(account, cache_dir=self._cache_dir, clock=self._clock)
        server = await self._bring_up(account, binaries)
        log.info("postgres_started", pid=server.pid, adopted=server.adopted, directory=str(self._layout.data))
        self.decided.set()
        delay_s = 0.0
        while True:
            began = self._clock.monotonic()
            await self._watch(server)
            if self._clock.monotonic() - began >= _STEADY_S:
                delay_s = 0.0
            log.warning("postgres_died", pid=server.pid, code=server.exit_code, restart_in_s=delay_s)
            server, delay_s = await self._restart(account, binaries, delay_s)
            log.warning("postgres_restarted", pid=server.pid)

    async def _watch(self, server: Server) -> None:
        """Return when the server has died.

        A killed backend is its postmaster's business, which recovers by itself.
        """
        with watch_end(server.pid) as ended:
            while server.alive():
                bound_log(self._layout.log)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WATCH_S):
                        await ended.wait()

    async def _restart(self, account: Account, binaries: Binaries, delay_s: float) -> tuple[Server, float]:
        """Try until it works: a full disk may have room again.

        Return the server and how long to wait the next time.
        """
        while True:
            await self._clock.sleep(delay_s)
            delay_s = min(max(delay_s * 2, 0.5), _RESTART_DELAY_S_MAX)
            try:
                return await self._bring_up(account, binaries), delay_s
            except EmbeddedPostgresError as error:
                log.error("postgres_restart_failed", error=str(error), retry_in_s=delay_s)  # noqa: TRY400  # as above
            await self._end_server()

    async def _bring_up(self, account: Account, binaries: Binaries) -> Server:
        reason: TryAgain | None = None
        for attempt in range(_ATTEMPTS_MAX):
            try:
                with explain_errors(self._layout.base):
                    return await self._attempt(account, binaries)
            except TryAgain as error:
                reason = error
            log.info("postgres_start_retried", reason=str(reason))
            await self._end_server()
            await self._clock.sleep(min(0.05 * 2**attempt, 2.0))
        raise EmbeddedPostgresError(
            f"the database in {self._layout.data} does not start: {reason}; read {self._layout.log}"
        )

    async def _attempt(self, account: Account, binaries: Binaries) -> Server:
        """Adopt the server that is there, or start one, and return it when it accepts connections."""
        check_owner(self._layout.data, account)
        server_found = adopt(self._layout)
        if server_found is not None and not server_found.runs(binaries, account):
            await self._dismiss(server_found)
            server_found = None
        # No await between finding or launching it and this assignment: what was assigned is always ended.
        if server_found is not None:
            self._server = server = server_found
            if write_configuration(self._layout.data, account):
                server.reload()
        else:
            busy = await vacate(self._layout, self._clock)
            try:
                await prepare(self._layout, account=account, binaries=binaries, clock=self._clock, busy=busy)
                self._server = server = launch(self._layout, binaries=binaries, account=account, busy=busy)
            finally:
                os.close(busy)
        self.address = self.address or Address(self._layout.data)
        await until_accepting(server, self.address, layout=self._layout, clock=self._clock)
        return server

    async def _dismiss(self, server: Server) -> None:
        """End an older codehub's server: nobody uses it, because we own the directory.

        Leave a stranger's alone.
        """
        if not is_busy(self._layout):
            raise EmbeddedPostgresError(
                f"{self._layout.data} is in use by a postgres (pid {server.pid}) that codehub did not start:"
                f" stop it, or {USE_ANOTHER}"
            )
        await server.end(self._clock)

    async def _shut_down(self) -> None:
        try:
            await self._end_server()
        finally:
            if self.address is not None:
                self.address.close()
                self.address = None

    async def _end_server(self) -> None:
        """Forget the server only when it has ended: until then, whoever cancels this comes back to it."""
        if self._server is not None:
            await self._server.end(self._clock)
            self._server = None

    def _note_end(self, task: Task) -> None:
        with suppress(asyncio.CancelledError):
            self.failure = self.failure or task.exception()
        self.ended.set()
        self.decided.set()
