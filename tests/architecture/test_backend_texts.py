"""What backends answer is a code with facts: no English sentence is
raised where a person would read it in another language.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.test_core_texts import prose

import codehub
from codehub.ports import backends

ROOT = Path(codehub.__file__).parent
MODULES = [
    path
    for folder in ("adapters", "api", "app", "engine", "ports", "service")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
_FAILURES = {"ActionFailed", "BackendUnreachable"}


def failures(trees: list[ast.Module]) -> set[str]:
    """Return the names of the failures of a backend, with what derives from them."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = set(_FAILURES)
    while (
        more := {each.name for each in classes if names & {ast.unparse(base) for base in each.bases}} - names
    ):
        names |= more
    return names


def texts_of(tree: ast.Module, makers: set[str]) -> Iterator[str]:
    """Yield each text that a failure, or `verbatim`, is made of."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in makers and node.args):
            continue
        if isinstance(node.args[0], ast.Constant | ast.JoinedStr):
            yield ast.unparse(node.args[0])


TREES = {path: ast.parse(path.read_text("utf-8")) for path in MODULES}
MAKERS = failures(list(TREES.values()))


def test_the_failures_are_found() -> None:
    assert {"EngineFailed", "MarkMissing", "KeepsNoAcls", "ArchiveMissing"} <= MAKERS
    assert {name for name in _FAILURES if hasattr(backends, name)} == _FAILURES


def test_no_failure_of_a_backend_is_a_sentence() -> None:
    assert [(path.name, text) for path, tree in TREES.items() for text in texts_of(tree, MAKERS)] == []


def test_a_text_of_somebody_else_has_no_words_of_ours() -> None:
    quoted = [(path.name, text) for path, tree in TREES.items() for text in texts_of(tree, {"verbatim"})]
    assert [each for each in quoted if prose(f"text = {each[1]}")] == []


@pytest.mark.parametrize(
    "source", ['ActionFailed("the home is in use")', 'ActionFailed(f"no home {name}", reason=REASON)']
)
def test_a_sentence_is_recognised(source: str) -> None:
    assert list(texts_of(ast.parse(source), MAKERS)) != []
