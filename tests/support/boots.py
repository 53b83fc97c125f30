"""Instances in memory that become healthy when a test says so, however slow the machine is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from codehub.adapters.memory.instances import MemoryInstances

_LONG_S = 3600.0


@contextmanager
def starts_held(instances: MemoryInstances) -> Iterator[Callable[[], None]]:
    """Let whatever is started within the block boot until what is yielded is called, or the block ends."""
    before = instances.boot_s

    def let_go() -> None:
        instances.boot_s = before
        instances.finish_boots()

    instances.boot_s = _LONG_S
    try:
        yield let_go
    finally:
        let_go()
