"""A suite's second try: who gets one, and what is said of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_FLAKY = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("where", {where!r})
def test_it(where):
    seen = Path({seen!r}) / where
    seen.write_text((seen.read_text() if seen.exists() else "") + "x")
    assert len(seen.read_text()) > {failures}, "the first failure's words"
"""


class Suite:
    """A suite of one test that fails so many times, on each of the places it runs on."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def run(
        self, *options: str, failures: int, on: list[str], ci: str = "true"
    ) -> subprocess.CompletedProcess[str]:
        test = self._place / "test_flaky.py"
        test.write_text(_FLAKY.format(where=on, seen=str(self._place), failures=failures))
        alone = ("--rootdir", str(self._place), "-c", os.devnull, "-p", "no:cacheprovider")
        plugins = ("-p", "tests.support.second_try", "-p", "xdist", "-n", "1")
        return subprocess.run(
            [
                *(sys.executable, "-m", "tests.support.suite", *options, "test-some", "60"),
                *(sys.executable, "-m", "pytest", *alone, *plugins, str(test)),
            ],
            cwd=_ROOT,
            # Without the plugins that happen to be installed it is done in a fifth of the time.
            env={
                **os.environ,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "CI": ci,
                "CODEHUB_TEST_FLAKY": str(self._place / "flaky"),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def tries(self, where: str) -> int:
        return len((self._place / where).read_text())


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def test_a_test_that_passes_at_its_second_try_is_named_with_its_first_failure(
    suite: Suite, tmp_path: Path
) -> None:
    process = suite.run("--again", failures=1, on=["docker"])
    assert process.returncode == 0, process.stdout
    assert "flaky: test_flaky.py::test_it[docker]" in process.stdout
    assert "the first failure's words" in process.stdout.split("flaky: ")[1]
    assert (tmp_path / "flaky").read_text() == "flaky: test_flaky.py::test_it[docker]\n"


def test_a_test_that_fails_twice_has_failed(suite: Suite) -> None:
    process = suite.run("--again", failures=2, on=["docker"])
    assert process.returncode == 1
    assert suite.tries("docker") == 2
    assert "flaky:" not in process.stdout


def test_a_test_in_memory_has_no_second_try(suite: Suite) -> None:
    process = suite.run("--again", failures=1, on=["docker", "memory"])
    assert process.returncode == 1
    assert suite.tries("memory") == 1
    assert "not run again: test_flaky.py::test_it[memory]" in process.stdout


@pytest.mark.parametrize(("options", "ci"), [((), "true"), (("--again",), "")])
def test_without_asking_and_outside_ci_there_is_one_try(
    suite: Suite, options: tuple[str, ...], ci: str
) -> None:
    assert suite.run(*options, failures=1, on=["docker"], ci=ci).returncode == 1
    assert suite.tries("docker") == 1


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_machine_without_a_cluster_is_a_failure_in_ci_and_elsewhere_none(
    ci: str, code: int, tmp_path: Path
) -> None:
    """There none of the programs is found that a cluster needs."""
    environment = {name: value for name, value in os.environ.items() if name != "CODEHUB_TEST_KUBERNETES"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kubernetes", sys.executable, "-c", "pass"],
        cwd=_ROOT,
        env={**environment, "CI": ci, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert ("there can be no cluster here" in done.stderr) == bool(code)
