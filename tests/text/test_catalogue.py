"""The catalogue: each language has every key that the sources
use, no other, and with the facts that they give.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, get_args

import pytest
from jinja2 import Environment, nodes
from typer.main import get_command

import codehub.__main__
from codehub.cli.main import SECTIONS as SECTIONS_OF_HELP
from codehub.cli.main import cli
from codehub.core.conditions import NAMES, Reason
from codehub.core.errors import ErrorReason, Remedy
from codehub.core.explain import Ask, WaitsFor
from codehub.core.garbage import Leftover
from codehub.core.history import EventKind
from codehub.core.messages import Code
from codehub.core.operations import LEVEL, DesiredState, Operation, Phase
from codehub.core.plan import Why
from codehub.core.requests import Refusal
from codehub.core.tab_state import TabState
from codehub.core.visit import Page
from codehub.doctor.findings import Part
from codehub.text import DEFAULT, LANGUAGES, section, speaker, text, texts

ROOT = Path(codehub.__file__).parent
PYTHON = [
    path
    for folder in ("api", "app", "cli", "dashboard", "doctor", "proxy", "web")
    for path in sorted((ROOT / folder).rglob("*.py"))
] + [ROOT / "__main__.py", ROOT / "validation_messages.py"]
PAGES = sorted((ROOT / "dashboard" / "templates").glob("*.html"))
# What pydantic finds wrong with a field, by its own names or by ours.
PROBLEMS = {
    *("missing", "extra_forbidden", "string_type", "string_unicode", "string_too_short", "string_too_long"),
    *("string_pattern_mismatch", "int_parsing_size", "greater_than", "greater_than_equal", "less_than_equal"),
    *("enum", "value_error", "otherwise", "whole", "number", "truth", "object", "nul", "control", "empty"),
    *("reserved", "no_json", "not_said_json"),
}


def help_keys(command: Any, path: str = "") -> Iterator[str]:
    """The keys of the help of a command, of what it takes and of the commands below it."""
    catalogue = texts(DEFAULT)
    yield from (key for key in (path, f"{path}.epilog") if f"help.{key}" in catalogue or key == path)
    for parameter in command.params:
        own = f"{path}.{parameter.name}"
        yield own if f"help.{own}" in catalogue else f"option.{parameter.name}"
    for name, inner in getattr(command, "commands", {}).items():
        yield from help_keys(inner, name if path == "codehub" else f"{path}.{name}")


# What the script in a tab shows by itself.
TAB_CASES = ("again", "away", "gone", "limit", "signed_out", "warning")

# What is said of each value of an enumeration: no more, no less, but for keys that a source names.
FAMILIES: Mapping[str, set[str]] = {
    "phase": {*Phase, "DELETING"},
    "means": {*Phase, "DELETING"},
    "step": {*LEVEL},
    "wish": {*DesiredState},
    "op": {*Operation},
    "doing": {*Operation} - {Operation.NONE},
    "cond": {*NAMES},
    "seen": {*Reason},
    "event": {*EventKind},
    "no": {*Refusal},
    "under_way": {*Operation},
    "trouble": {*ErrorReason},
    "remedy": {*ErrorReason, *Remedy},
    "waits": {*WaitsFor},
    "look": {*NAMES.values()} - {NAMES["healthy"]},
    "reason": {
        *Why,
        *Code,
        *(f"{Code.UNSCHEDULABLE}.{form}" for form in ("one", "unknown")),
        f"{Code.LACKS_RESOURCE}.one",
    },
    "ask": {*Ask},
    "problem": PROBLEMS,
    "help": {
        *help_keys(get_command(cli), "codehub"),
        *("option.help", *(f"section.{name}" for name in SECTIONS_OF_HELP)),
        *(f"parser.{word}" for word in ("Usage", "Arguments", "Options", "Commands", "default", "required")),
    },
    "cli.doing": {*Operation} - {Operation.NONE},
    "cli.done": {*Operation} - {Operation.NONE},
    "cli.garbage": {*Leftover},
    "doctor.part": {*get_args(Part)},
    "cli.stage": {"archive", "verify", "restore", "pull"},
    "measure.stage": {"archive", "verify", "restore", "pull"},
    "measure.unit": {"s", "min", "h", "d"},
    "tab": {
        f"{case}.{part}"
        for case in (*(set(TabState) - {TabState.OPEN}), *TAB_CASES)
        for part in ("title", "why", "do")
    },
    "proxy": {
        *Page,
        "archived_why",
        "pending_why",
        "sessions_why",
        "foreign_why",
        "missing_why",
        "door_why",
        "port_why",
        "frame_why",
        "asleep_why",
    },
}
# Modules that read one section of the catalogue, by the rest of its keys.
SECTIONS: Mapping[str, str] = {
    "cli": "cli",
    "__main__.py": "cli",
    "app": "server",
    "doctor": "doctor",
    "policy": "proxy",
    "measures.py": "measure",
}


@dataclass(frozen=True)
class Use:
    """A place that says something: by a key, or by one that begins so and goes on with a value."""

    where: str
    key: str
    is_prefix: bool = False
    facts: frozenset[str] | None = None
    """The facts that it gives; None if that can't be told from the source."""


def section_of(path: Path) -> str:
    name = next((SECTIONS[part] for part in (path.parent.name, path.name) if part in SECTIONS), None)
    return "" if name is None else f"{name}."


def python_uses(path: Path) -> Iterator[Use]:
    prefix = section_of(path)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Use(path.name, prefix + node.value)
            yield Use(path.name, node.value)
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            yield Use(path.name, prefix + str(node.values[0].value), is_prefix=True)
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("say", "caller.say"):
            key = node.args[0]
            given = [word.arg for word in node.keywords]
            if isinstance(key, ast.Constant) and None not in given:
                yield Use(path.name, prefix + str(key.value), facts=frozenset(str(name) for name in given))


def template_uses(path: Path) -> Iterator[Use]:
    template = Environment(autoescape=True).parse(path.read_text("utf-8"))
    yield from (
        Use(path.name, each.value) for each in template.find_all(nodes.Const) if isinstance(each.value, str)
    )
    for call in template.find_all(nodes.Call):
        if not (isinstance(call.node, nodes.Name) and call.node.name == "say"):
            continue
        (key,) = call.args
        facts = None if call.dyn_kwargs else frozenset(each.key for each in call.kwargs)
        for choice in _choices(key):
            if isinstance(choice, nodes.Concat):
                (beginning, *_) = choice.nodes
                assert isinstance(beginning, nodes.Const)
                yield Use(path.name, beginning.value, is_prefix=True)
            elif isinstance(choice, nodes.Const):  # else a macro's parameter: whoever calls it names the key
                yield Use(path.name, choice.value, facts=facts)


def _choices(key: nodes.Expr) -> Iterator[nodes.Expr]:
    if not isinstance(key, nodes.CondExpr):
        yield key
        return
    assert key.expr2 is not None
    yield from (*_choices(key.expr1), *_choices(key.expr2))


USES = [use for path in PYTHON for use in python_uses(path)] + [
    use for path in PAGES for use in template_uses(path)
]
SAID = [use for use in USES if use.facts is not None]


def variables(template: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


def test_a_language_is_one_file() -> None:
    files = {path.stem for path in (ROOT / "text" / "languages").glob("*.py")} - {"__init__"}
    assert set(LANGUAGES) == files
    assert LANGUAGES[0] == DEFAULT
    with pytest.raises(KeyError):
        texts("xx")


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_the_same_keys_with_the_same_variables(language: str) -> None:
    assert set(texts(language)) == set(texts(DEFAULT))
    for key, template in texts(language).items():
        assert variables(template) == variables(texts(DEFAULT)[key]), key
        assert template.strip(), key


def test_every_key_that_is_said_is_there_with_the_facts_that_it_takes() -> None:
    assert len(SAID) > 200
    catalogue = texts(DEFAULT)
    assert [use for use in SAID if use.key not in catalogue] == []
    assert [use for use in SAID if use.facts != variables(catalogue[use.key])] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_the_core_may_decide_has_a_text(family: str) -> None:
    assert set(section(DEFAULT, family)) >= FAMILIES[family]


def test_no_key_is_left_over() -> None:
    keys = {use.key for use in USES if not use.is_prefix}
    keys |= {f"{family}.{value}" for family, values in FAMILIES.items() for value in values}
    closed = tuple(f"{family}." for family in FAMILIES)
    prefixes = {use.key for use in USES if use.is_prefix and use.key.endswith(".")}
    open_prefixes = tuple(prefix for prefix in prefixes if not prefix.startswith(closed))
    unused = [key for key in texts(DEFAULT) if key not in keys and not key.startswith(open_prefixes)]
    assert unused == []


def test_a_korean_particle_that_depends_on_the_word_before_it_never_follows_a_fact() -> None:
    """Which of 을/를, 이/가, 은/는, 과/와 is right depends on a name that nobody knows here: a noun stands
    between.
    """
    particle = re.compile(r"\}[”\"]?(?:을|를|이|가|은|는|과|와)(?![가-힣])")
    assert [key for key, template in texts("ko").items() if particle.search(template)] == []


def test_a_key_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        speaker("en")("no such key")
    with pytest.raises(KeyError):
        text("en", "usage", used=1)
