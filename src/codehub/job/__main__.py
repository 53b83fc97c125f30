"""A home and grants go in; the archive goes into its store, or the home
comes out of it. The last line says which, or what went wrong.

Told to stop, it stops at once: nothing that it leaves counts, and the same work begun anew does all of it.
"""

import argparse
import asyncio
import os
import signal
import time
from pathlib import Path

from codehub.adapters.objectstore.grants import UnknownGrants, decode
from codehub.adapters.objectstore.outcome import failure_line, progress_line
from codehub.core.messages import Code, Message
from codehub.job.work import archive, restore
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount

_PROGRESS_PERIOD_S = 1.0
_STOPPED = 1
_STDOUT = 1


class Output:
    """Lines for whoever started the Job. The end may be told from a signal, in the middle of another."""

    def __init__(self, result: Path) -> None:
        self._result = result
        self._stage = ""
        self._shown_at = 0.0

    def progress(self, amount: Amount) -> None:
        """Tell it, but of each stage no more than once in a while."""
        now = time.monotonic()
        if amount.stage != self._stage or now - self._shown_at >= _PROGRESS_PERIOD_S:
            self._stage, self._shown_at = amount.stage, now
            self._write(progress_line(amount))

    def end(self, line: str) -> None:
        self._write(line)
        self._result.write_bytes(_bytes(line))

    def _write(self, line: str) -> None:
        # Not by sys.stdout: its buffer refuses a signal's line while it writes another.
        os.write(_STDOUT, _bytes(line) + b"\n")


def _bytes(line: str) -> bytes:
    """Return it as bytes. What is no text in a name stands there as JSON's own escape."""
    return line.encode(errors="backslashreplace")


async def _run(options: argparse.Namespace, output: Output) -> str:
    try:
        grants = decode(options.grants.read_text())
        work = archive if options.work == "archive" else restore
        outcome = await work(grants, options.archives, options.home, output.progress)
        return outcome.line()
    except UnknownGrants as error:
        return failure_line(ActionFailed(Message(Code.GRANTS_UNREADABLE, {"text": str(error)})))
    except (ActionFailed, BackendUnreachable) as error:
        return failure_line(error)
    except OSError as error:
        facts = {"path": str(error.filename), "text": str(error.strerror)}
        return failure_line(BackendUnreachable(Message(Code.PATH_UNUSABLE, facts)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=("archive", "restore"))
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--grants", type=Path, default=Path("/grants/grants.json"))
    parser.add_argument("--archives", type=Path, default=Path("/archives"))
    parser.add_argument("--result", type=Path, default=Path("/dev/termination-log"))
    options = parser.parse_args()
    output = Output(options.result)

    def stop(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        output.end(failure_line(BackendUnreachable(Message(Code.JOB_STOPPED))))
        os._exit(_STOPPED)

    # The first process of a container is not ended by it otherwise.
    signal.signal(signal.SIGTERM, stop)
    os.umask(0o077)
    output.end(asyncio.run(_run(options, output)))


if __name__ == "__main__":
    main()
