"""Suites are markers: a test has exactly one, and `make test` runs each but those that say it doesn't."""

import re
from pathlib import Path, PurePosixPath

import pytest
from tests.support.markers import SUITES, SUITES_BY_PATH, suite_of, suites_of

_ROOT = Path(__file__).parents[2]
_TESTS = _ROOT / "tests"
_RULE = re.compile(r"^([a-z0-9-]+):([^#\n]*)##[^\n]*\n((?:\t[^\n]*\n)+)", re.MULTILINE)
_MARKER = re.compile(r"\$\(PYTEST\) -m (\S+)")
_OUTSIDE_MAKE_TEST = {"compose", "fuzz"}


def _rules() -> dict[str, tuple[set[str], str]]:
    """What each target of the Makefile depends on, and its commands."""
    text = (_ROOT / "Makefile").read_text()
    return {name: (set(needs.split()), commands) for name, needs, commands in _RULE.findall(text)}


def test_every_test_file_belongs_to_a_suite() -> None:
    files = {PurePosixPath(path.relative_to(_TESTS)) for path in _TESTS.rglob("test_*.py")}
    assert files
    assert {path for path in files if not suites_of(path)} == set()


def test_every_row_names_what_exists() -> None:
    assert {path for path in SUITES_BY_PATH if not (_TESTS / path).exists()} == set()
    assert {suite for suites in SUITES_BY_PATH.values() for suite in suites} == set(SUITES)


@pytest.mark.parametrize(
    ("path", "markers", "suite"),
    [
        ("api/test_people.py", set(), "api"),
        ("api/test_up.py", set(), "up"),
        ("integration/docker/test_homes.py", set(), "docker"),
        ("integration/docker/test_circle.py", {"skipif"}, "circle"),
        ("contracts/storage/test_volumes.py", {"parametrize"}, "local"),
        ("contracts/storage/test_volumes.py", {"docker", "skipif"}, "docker"),
    ],
)
def test_a_test_s_suite_comes_from_its_marker_then_its_file_then_its_folder(
    path: str, markers: set[str], suite: str
) -> None:
    assert suite_of(PurePosixPath(path), markers) == suite


@pytest.mark.parametrize(
    ("path", "markers"),
    [
        ("test_nowhere.py", set()),
        ("integration/test_of_no_suite.py", set()),
        ("contracts/storage/test_volumes.py", {"docker", "local"}),
        ("api/test_people.py", {"docker"}),
    ],
)
def test_a_test_without_exactly_one_suite_is_refused(path: str, markers: set[str]) -> None:
    with pytest.raises(pytest.UsageError, match=path):
        suite_of(PurePosixPath(path), markers)


def test_a_target_runs_the_suite_of_its_name() -> None:
    rules = _rules()
    targets = {suite: f"test-{suite}" for suite in SUITES} | {"fuzz": "fuzz", "kubernetes": "test-k8s"}
    assert {
        suite for suite, target in targets.items() if suite not in _MARKER.findall(rules[target][1])
    } == set()


def test_make_test_runs_every_suite_that_does_not_say_otherwise() -> None:
    rules = _rules()
    ran = {suite for target in rules["test"][0] for suite in _MARKER.findall(rules[target][1])}
    assert ran == SUITES.keys() - _OUTSIDE_MAKE_TEST
    assert {suite for suite, text in SUITES.items() if "not in `make test`" in text} == _OUTSIDE_MAKE_TEST


def test_core_leaves_out_only_what_it_then_runs_by_itself() -> None:
    """The one target that ignores a file, so that the longest enumeration runs without counting branches."""
    ignored = {name: re.findall(r"--ignore (\S+)", commands) for name, (_, commands) in _rules().items()}
    assert {name: paths for name, paths in ignored.items() if paths} == {
        "test-core": ["tests/core/test_state_space.py"]
    }
    assert "-m core -n 2 tests/core/test_state_space.py" in _rules()["test-core"][1]
