"""Variables, parameters and attributes are named after what they hold, functions and
classes after what they do or are: never `found`, `one`, `said`, `told` or `words`.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEARCHED = ("src", "tests", "benchmarks", "scripts")
FORBIDDEN = frozenset({"found", "one", "said", "told", "words"})
NOT_IN_A_NAME = FORBIDDEN - {"one"}  # `refuse_one_more` counts
# HTTP's own word.
ALLOWED = frozenset({"NotFound"})
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")


def python_files() -> Sequence[Path]:
    return sorted(path for directory in SEARCHED for path in (ROOT / directory).rglob("*.py"))


def bound_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield every name that is bound, with its line: variables, parameters, attributes, captures and
    aliases.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield node.lineno, name
            case ast.MatchMapping(rest=str(name)):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def defined_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield every name of a function or a class, with its line. Tests are named as sentences."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if not name.startswith("test_"):
                    yield node.lineno, name


def is_forbidden(definition: str) -> bool:
    """Whether a function or a class is called so, or has such a word in its name."""
    if definition in ALLOWED:
        return False
    parts = {part.lower() for part in _WORDS.findall(definition)}
    return bool(parts & NOT_IN_A_NAME) or definition.strip("_") in FORBIDDEN


def forbidden_names(path: Path) -> list[str]:
    source = path.read_text("utf-8")
    names = [(line, name) for line, name in bound_names(source) if name in FORBIDDEN]
    names += [(line, name) for line, name in defined_names(source) if is_forbidden(name)]
    return [f"{path.relative_to(ROOT)}:{line}: {name}" for line, name in names]


def test_every_name_says_what_it_holds() -> None:
    problems = [problem for path in python_files() for problem in forbidden_names(path)]
    assert not problems, "name the thing instead:\n" + "\n".join(problems)


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for one in (): pass",
        "[words for words in ()]",
        "def look(told): ...",
        "lambda *, said: said",
        "class Look:\n    found: int",
        "self.told = 1",
        "if (found := 1): ...",
        "with open() as found: ...",
        "try: ...\nexcept OSError as told: ...",
        "match 1:\n    case one: ...",
        "match []:\n    case [*words]: ...",
        "match {}:\n    case {**said}: ...",
        "import json as words",
    ],
)
def test_every_way_to_bind_a_name_is_seen(source: str) -> None:
    assert {name for _, name in bound_names(source)} & FORBIDDEN


def test_a_name_that_is_only_read_or_part_of_another_is_allowed() -> None:
    source = "print(found, view.told)\nfound_rows = call(one=1)\n"
    assert not {name for _, name in bound_names(source)} & FORBIDDEN


@pytest.mark.parametrize(
    "source",
    [
        "def told(): ...",
        "async def _found(): ...",
        "class LongerThanSaid: ...",
        "def progress_in_words(): ...",
    ],
)
def test_every_way_to_define_a_name_is_seen(source: str) -> None:
    assert [is_forbidden(name) for _, name in defined_names(source)] == [True]


@pytest.mark.parametrize(
    "source", ["def test_who_is_told(): ...", "def refuse_one_more(): ...", "class Foundation: ..."]
)
def test_a_sentence_and_a_part_of_a_word_are_allowed(source: str) -> None:
    assert [name for _, name in defined_names(source) if is_forbidden(name)] == []
