"""One process of codehub: work in, an exit code out.

Signals stop it in order; expected failures are printed as one line.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import structlog
import uvloop

from codehub.adapters.postgres.embedded import EmbeddedPostgresError
from codehub.adapters.postgres.migrate import MigrationRefused
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.drain import Drain
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.engine.system import System
from codehub.logs import configure_logs
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import StoreUnavailable
from codehub.settings import Settings, unknown_settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text

log = structlog.get_logger()
T = TypeVar("T")

EXPECTED = (CannotStart, EmbeddedPostgresError, MigrationRefused, StoreUnavailable, BackendUnreachable)


def run_until_signalled(
    settings: Settings,
    environ: Mapping[str, str],
    work: Coroutine[Any, Any, None],
    drain: Drain | None = None,
) -> int:
    """Run until Ctrl-C or SIGTERM and return the exit code.

    With a `drain` the first SIGTERM that comes while it serves begins that, and the work ends by itself.
    """
    configure_logs(level=log_level(settings))
    for line in unknown_settings(environ):
        print(say("line", text=line), file=sys.stderr)  # noqa: T201  # messages for people go to stderr
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_until_signalled(work, drain))
        except EXPECTED as error:
            progress("")
            text = failure_text(error, terminal_language())
            print(say("line", text=text), file=sys.stderr)  # noqa: T201
            return 1
    return 0


def run_beside(
    settings: Settings,
    work: Callable[[Settings, System], Coroutine[Any, Any, T]],
    *,
    log_level: int | None = None,
) -> T:
    """Do something beside a codehub that may run. Raises CannotStart with a message for people."""
    configure_logs(level=logging.WARNING if log_level is None else log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(work(settings, make_system()))
        except EXPECTED as error:
            raise CannotStart(failure_text(error, terminal_language())) from error


def make_system() -> System:
    return System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())


def print_line(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # the lines that wire.md fixes go to stdout


def warn(warning: str) -> None:
    """Warn of what weakens this codehub: at the terminal, or in the log."""
    if sys.stderr.isatty():
        print(say("warning", text=warning), file=sys.stderr)  # noqa: T201
    else:
        log.warning("codehub_weakened", warning=warning)


def progress(step: str) -> None:
    """Show the current step at a terminal, in place of the last one; an empty step clears the line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)  # noqa: T201


def _print_message(message: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{say('line', text=message)}", file=sys.stderr, flush=True)  # noqa: T201


def log_level(settings: Settings) -> int:
    """Return the level: only warnings at a terminal, everything in a log file."""
    if settings.log_level is not None:
        return logging.getLevelNamesMapping()[settings.log_level.upper()]
    return logging.WARNING if sys.stderr.isatty() else logging.INFO


async def _until_signalled(work: Coroutine[Any, Any, None], drain: Drain | None) -> None:
    """Run `work` until it ends, or a SIGINT or SIGTERM cancels it: the first, if it can't drain.

    Later signals don't cut the stopping short.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    was_signalled = False

    def stop(number: signal.Signals) -> None:
        nonlocal was_signalled
        if drain is not None and drain.may_begin and number is signal.SIGTERM:
            log.info("draining", notice_s=drain.notice_s, rest_s=drain.rest_s)
            drain.begin()
        elif not was_signalled:
            was_signalled = True
            log.info("stopping")
            _print_message(say("stopping"))
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await work
    except asyncio.CancelledError:
        if not was_signalled:
            raise
        _print_message(say("stopped"))
