"""What is really so, whatever the database says: each home, each look,
each use; and what it is called when a contract is broken.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

# When the call was made that has its effect now: it may come late, and misfortune may have come first.
ASKED_AT: ContextVar[float] = ContextVar("asked_at")
# Whether the step that runs has asked for room, and was told that there is some.
HAS_ROOM: ContextVar[bool] = ContextVar("has_room", default=False)


class Broken(Exception):
    """A contract was broken."""

    def __init__(self, contract: str, workspace_id: UUID | None, what: str) -> None:
        super().__init__(f"{contract}: {what}")
        self.contract = contract
        self.workspace_id = workspace_id
        self._arguments = (contract, workspace_id, what)

    def __reduce__(self) -> tuple[type["Broken"], tuple[str, UUID | None, str]]:
        return type(self), self._arguments


@dataclass
class Truth:
    """What is really so of one workspace, whatever the database says."""

    expected: Mapping[str, bytes] | None = field(default_factory=dict)
    """What its home holds as far as its owner knows; None: its owner gave it up."""
    writes: int = 0
    healthy_at: float = -1.0
    no_instance_at: float = -1.0
    no_volume_at: float = -1.0
    volume_at: dict[str, float] = field(default_factory=dict)
    began_at: float = 0.0
    ran_before_s: float = 0.0
    """Of an operation that was under way in a dump which was restored: for how long it had run in that."""
    struck_at: float = -1e9
    losses: deque[float] = field(default_factory=deque)
    used_at: float = -1e9
    written_at: float = -1e9
    committed: dict[str, float] = field(default_factory=dict)
    """Which archives were committed, and when first."""
    named: list[tuple[float, str | None]] = field(default_factory=list)
    """Which archive the row named, and from when on."""
    given_up: list[tuple[float, str | None]] = field(default_factory=list)
    """Which volume without an identity the row said that a person gave up, and from when on."""
    volumes_gone: set[str] = field(default_factory=set)

    def named_at(self, at: float) -> str | None:
        """Return which archive the row named then."""
        return _at(self.named, at)

    def given_up_at(self, at: float) -> str | None:
        """Return which volume had been given up then."""
        return _at(self.given_up, at)


def _at(changes: Sequence[tuple[float, str | None]], at: float) -> str | None:
    return next((what for since, what in reversed(changes) if since <= at), None)


class Watched(dict[Any, Any]):
    """A dictionary that tells what changes in it."""

    def __init__(self, on_change: Callable[[Any, Any, Any], None]) -> None:
        super().__init__()
        self._on_change = on_change

    def __setitem__(self, key: Any, value: Any) -> None:
        before = self.get(key)
        super().__setitem__(key, value)
        self._on_change(key, before, value)

    def __delitem__(self, key: Any) -> None:
        before = self[key]
        super().__delitem__(key)
        self._on_change(key, before, None)

    def pop(self, key: Any, *default: Any) -> Any:
        is_there = key in self
        value = super().pop(key, *default)
        if is_there:
            self._on_change(key, value, None)
        return value
