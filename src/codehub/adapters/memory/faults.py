"""Faults: an async hook that is called at named points and may raise, wait, or let something else happen
first.
"""

from collections.abc import Awaitable, Callable

# Called with a point's name: "load", "<call>.before_commit", "<call>.after_commit" (call: persist, amend,
# create_workspace) or "hints.send". What it raises before a commit leaves nothing behind; after one, the
# caller can't know.
Faults = Callable[[str], Awaitable[None]]


async def no_faults(_point: str) -> None:
    return
