"""The walk from `POST :start` to RUNNING to the event: short,
downwards only, and listed in docs/architecture.md as it is.

What is counted, and how, stands in `tests/support/walk.py`.
"""

import re

import pytest
from tests.conftest import Servers
from tests.support.walk import DECISIONS, PAGE, Function, Walk, height, page, walk

FILES_MAX = 45
FUNCTIONS_MAX = 80
DRAWS = {
    (Function("core/decide.py", "decide"), Function("engine/system.py", f"System.{name}"))
    for name in ("jitter", "op_id")
}
"""What a decision leaves to chance (`core/decide.py`, Chance). It is drawn when it is needed:
drawn ahead, every seed that the simulator has recorded would mean another story.
"""


@pytest.fixture(scope="module")
async def traced(servers: Servers) -> Walk:
    return await walk(await servers("postgres-18"))


def test_the_walk_is_short(traced: Walk) -> None:
    assert len(traced.files) <= FILES_MAX
    assert len(traced.functions) <= FUNCTIONS_MAX


def test_every_decision_is_on_the_walk(traced: Walk) -> None:
    decisions = {Function(file, name) for file, names in DECISIONS.items() for name in names}
    assert decisions <= traced.functions


def test_nothing_calls_back_up(traced: Walk) -> None:
    """Of all that ran, not of the walk alone."""
    assert {call for call in traced.calls if height(call[0]) < height(call[1])} <= DRAWS


def test_nothing_is_handed_down_that_would_call_back_up(traced: Walk) -> None:
    """A function of the core is a value; a function of a higher layer
    that a lower one holds is a call that will be made.
    """
    assert {pair for pair in traced.handed_down if height(pair[0]) < height(pair[1])} == set()


def test_the_page_lists_the_walk(traced: Walk) -> None:
    assert _listed(PAGE.read_text()) == _listed(page(traced)), "run `make docs`"


def _listed(text: str) -> list[tuple[str, list[str]]]:
    """Return the page's files and functions. Which of two calls comes first is a matter of milliseconds."""
    items = re.findall(r"- \[(\S+)\]\(\S+\):((?:\s+`[^`]+`,?)+)", text)
    assert len(items) > 30
    return sorted((file, sorted(re.findall(r"`([^`]+)`", names))) for file, names in items)
