"""A pytest plugin: what failed is written to CODEHUB_TEST_FAILURES, and with
CODEHUB_TEST_ONLY nothing runs but what such a file names.

For tests.support.suite, which lets tests on real engines have a second try. What
runs on memory has none: nothing but the code can be at fault there.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

_ON_MEMORY = re.compile(r"^tests/(core|engine|simulation)/|\[[^\]]*memory")
_TEXT_MAX = 6_000


@dataclass(frozen=True, slots=True)
class Failure:
    test: str
    text: str
    may_run_again: bool


def read_failures(path: Path) -> Sequence[Failure]:
    return [Failure(**json.loads(line)) for line in path.read_text().splitlines()]


class FailureLog:
    """Writes down what fails, in the process that hears of every test."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write(report, may_run_again=_ON_MEMORY.search(report.nodeid) is None)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report, may_run_again=False)

    def _write(self, report: pytest.TestReport | pytest.CollectReport, *, may_run_again: bool) -> None:
        failure = Failure(report.nodeid, report.longreprtext[-_TEXT_MAX:], may_run_again)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(failure)) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("CODEHUB_TEST_FAILURES")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureLog(Path(path)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if path := os.environ.get("CODEHUB_TEST_ONLY"):
        wanted = {failure.test for failure in read_failures(Path(path))}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]
