"""The core has no text: what people read stands in the
catalogue, under codes and with facts that the core gives.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.text.test_catalogue import variables

import codehub
import codehub.core
from codehub.core.messages import Code
from codehub.text import DEFAULT, section

ROOT = Path(codehub.__file__).parent
MODULES = sorted(Path(codehub.core.__file__).parent.glob("*.py"))
_MAKERS = ("Message", "bare_message")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LOWER = re.compile(r"\b[a-z]{2,}\b")
_KOREAN = re.compile(r"[가-힣]")


def strings(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module that are no documentation. Of an f-string, `0` stands for each value."""
    passed_over = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed_over |= {id(each) for each in ast.walk(node)}
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "0" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed_over:
            yield node.value


def prose(source: str) -> list[str]:
    """Return the strings of several words, one of them in lower
    case, or in Korean. No code, unit or time is so.
    """
    return [
        text
        for text in strings(ast.parse(source))
        if _KOREAN.search(text)
        or (" " in text.strip() and len(_WORD.findall(text)) > 1 and _LOWER.search(text))
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_core_has_no_text_for_people(path: Path) -> None:
    assert prose(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        'Refused(code, "The workspace is deleted.")',
        'message = f"{step} failed {count} times"',
        'CLAMPED = ("It starts with {memory} MB, " "{cpus} CPU")',
        'LABEL = "Try now"',
        'text = "삭제되었습니다"',
    ],
)
def test_a_text_for_people_is_recognised(source: str) -> None:
    assert prose(source) != []


@pytest.mark.parametrize(
    "source",
    [
        '"""A module says what it is for."""',
        'def f():\n    """Return nothing."""',
        'Message(Code.DELETED, {"max": f"{most:g} MB", "at": f"{at:%Y-%m-%d %H:%M:%S} UTC"})',
        'NAMES = {"volume_ready": "storage.volume_ready"}',
    ],
)
def test_codes_facts_and_documentation_are_no_text_for_people(source: str) -> None:
    assert prose(source) == []


def messages(path: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each message of a known code that a module makes, with the names of its facts."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in _MAKERS and node.args):
            continue
        codes = re.findall(r"Code\.([A-Z_]+)", ast.unparse(node.args[0]))
        facts = node.args[1] if len(node.args) > 1 else ast.Dict([], [])
        if isinstance(facts, ast.Dict):
            names = frozenset(key.value for key in facts.keys if isinstance(key, ast.Constant))
            yield from ((code, frozenset(map(str, names))) for code in codes)


def test_each_message_has_the_facts_that_its_text_takes() -> None:
    made = {(path.name, *each) for path in sorted(ROOT.rglob("*.py")) for each in messages(path)}
    assert len(made) > 60
    texts = section(DEFAULT, "reason")
    assert [each for each in made if not variables(texts[Code[each[1]]]) <= each[2]] == []
