"""The documentation is true: what is made from the code is fresh, and commands, figures and suites exist."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from docs.generate import DOCS, PAGES
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.main import get_command

import codehub.__main__
from codehub.cli.main import cli
from codehub.cli.usage import describe

ROOT = Path(__file__).parents[2]
CELLS = ("figure", "target", "measured", "date", "command")
FIGURE = re.compile("^" + "".join(rf"\| (?P<{cell}>[^|]+) " for cell in CELLS) + r"\|$")
WIDTH_MAX = 110
GLOSSARY_MAX = 20
TARGET = re.compile(r"`make ([a-z0-9-]+)")


def figures() -> list[re.Match[str]]:
    lines = (DOCS / "benchmarks.md").read_text().splitlines()
    rows = [match for line in lines if (match := FIGURE.match(line))]
    return [row for row in rows if row["figure"] != "figure"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_not_stale(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run `make docs`"


def test_the_benchmarks_are_one_table() -> None:
    assert len(figures()) >= 30


@pytest.mark.parametrize("row", figures(), ids=lambda row: row["figure"])
def test_every_figure_says_when_it_was_measured_and_by_what(row: re.Match[str]) -> None:
    assert all(cell.strip() for cell in row.groups())
    assert re.fullmatch(r"\d\d-\d\d", row["date"])
    command = row["command"].strip("`")
    if command.startswith("benchmarks."):
        assert (ROOT / f"{command.replace('.', '/')}.py").exists()
    else:
        assert command.startswith("make "), "a figure is measured by a benchmark or a target"


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")]), ids=lambda page: page.name
)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in TARGET.findall(page.read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"there is no `make {target}`"


@pytest.mark.parametrize("page", sorted((DOCS / "adr").glob("0*.md")), ids=lambda page: page.name)
def test_every_decision_says_its_context_alternatives_and_cost(page: Path) -> None:
    parts = re.findall(
        r"^(?:\*\*|## )(Context|Decision|Alternatives refused|Cost)\b", page.read_text(), re.MULTILINE
    )
    assert parts == ["Context", "Decision", "Alternatives refused", "Cost"]


def test_the_changelog_has_the_version_that_is_released_next() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    releases = [line for line in lines if line.startswith("## ")]
    assert releases[0] == "## Unreleased"
    assert re.fullmatch(rf"## {re.escape(version)} - \d{{4}}-\d\d-\d\d", releases[1])
    kinds = {line[4:] for line in lines if line.startswith("### ")}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert [line for line in lines if len(line) > WIDTH_MAX] == []


def test_the_glossary_is_short() -> None:
    rows = [line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    assert 2 <= len(rows) <= 1 + GLOSSARY_MAX


def test_the_readme_names_every_make_target_people_need() -> None:
    readme = (ROOT / "README.md").read_text()
    assert all(f"make {target}" in readme for target in ("up", "test", "check", "bench", "help"))


def test_no_requirement_names_an_address() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        assert "--hash=sha256:" in text


@pytest.mark.parametrize("name", ["run", "dev"])
def test_what_is_asked_for_with_an_extra_is_locked_with_it(name: str) -> None:
    # pip takes "jsonschema[x]" for something else than the locked "jsonschema", and refuses as soon as there
    # is a newer one.
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    locked = {
        requirement.name: requirement
        for requirement in (Requirement(line.rstrip(" \\")) for line in lines if "==" in line)
    }
    installed = [
        distribution for distribution in distributions() if canonicalize_name(distribution.name) in locked
    ]
    requirements = [Requirement(text) for distribution in installed for text in distribution.requires or ()]
    with_extras = [
        requirement
        for requirement in requirements
        if requirement.extras and (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
    ]
    assert with_extras
    for requirement in with_extras:
        assert requirement.extras <= locked[canonicalize_name(requirement.name)].extras, str(requirement)


def commands() -> dict[str, Any]:
    """Every command of `codehub`, by what is typed."""

    def leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield path, command
            return
        for name, subcommand in command.commands.items():
            yield from leaves(f"{path} {name}", subcommand)

    assert codehub.__main__.__doc__, "it adds what runs a server"
    root: Any = get_command(cli)
    describe(root)
    return dict(leaves("codehub", root))


@pytest.mark.parametrize("path", commands())
def test_every_command_and_option_is_documented(path: str) -> None:
    """And has words of its own: what it does, and what each option is for."""
    page = (DOCS / "cli.md").read_text()
    section = page.partition(f"### `{path}`\n")[2].partition("\n###")[0]
    command = commands()[path]
    assert command.help
    assert section, f"{path} is in none of codehub.cli.main.SECTIONS"
    for parameter in command.params:
        assert "--help" in parameter.opts or parameter.help, f"{parameter.name} says nothing"
        for option in (name for name in parameter.opts if name.startswith("--") and name != "--help"):
            assert option in section


_RUNS_ON = {"codehub up", "codehub api", "codehub proxy", "codehub controller"}


@pytest.mark.parametrize("path", sorted(commands().keys() - _RUNS_ON))
def test_every_command_that_ends_speaks_json(path: str) -> None:
    assert any("--json" in parameter.opts for parameter in commands()[path].params)
