"""`python -m tests.support.suite [--again] NAME BUDGET_S COMMAND…`: run one
suite, a command that ends in pytest's arguments, and say its time.

With CI=true it fails past four times its budget (a busy machine is no failure), and `--again`,
for suites on real engines, runs what failed once more, alone, after the rest: what passes then
is named as flaky, with its first failure, and what fails twice has failed.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.second_try import Failure, read_failures

_BUDGETS_MAX = 4
_AGAIN_MAX = 10
"""More than so many at once are no chance."""
_SOME_TESTS_FAILED = 1  # pytest's exit code; any other is no test's failure


def main(arguments: Sequence[str]) -> int:
    again, (name, budget, *command) = arguments[0] == "--again", arguments[arguments[0] == "--again" :]
    is_ci = os.environ.get("CI") == "true"
    _say(f"== {name}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="suite-") as place:
        failures_path = Path(place) / "failures"
        failures_path.touch()
        code = _run(command, CODEHUB_TEST_FAILURES=str(failures_path))
        took_s = time.monotonic() - began
        _say(f"== {name} took {took_s:.0f} s of {budget} s")
        if code == _SOME_TESTS_FAILED and again and is_ci:
            code = _run_again(command, failures_path)
    if code == 0 and is_ci and took_s > _BUDGETS_MAX * int(budget):
        _say(f"== {name} took more than {_BUDGETS_MAX} times its budget")
        return 1
    return code


def _run_again(command: Sequence[str], failures_path: Path) -> int:
    failures = {failure.test: failure for failure in read_failures(failures_path)}
    final = [failure.test for failure in failures.values() if not failure.may_run_again]
    if final or not 0 < len(failures) <= _AGAIN_MAX:
        _say(f"== not run again: {', '.join(final) or f'{len(failures)} failures'}")
        return _SOME_TESTS_FAILED
    _say(f"== once more, alone: {', '.join(failures)}")
    code = _run([*command, "-n", "0", "--dist", "no"], CODEHUB_TEST_ONLY=str(failures_path))
    if code == 0:
        _tell_flaky(list(failures.values()))
    return code


def _tell_flaky(failures: Sequence[Failure]) -> None:
    for failure in failures:
        _say(f"flaky: {failure.test}\n{failure.text}\n")
    if summary := os.environ.get("CODEHUB_TEST_FLAKY"):
        with Path(summary).open("a") as file:
            file.writelines(f"flaky: {failure.test}\n" for failure in failures)


def _run(command: Sequence[str], **environment: str) -> int:
    return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
