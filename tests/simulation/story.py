"""A failure's story: the seed, the contract that was broken, the fewest
faults that still break it, and the workspace's timeline.
"""

from collections.abc import Iterator

from tests.simulation.faults import Strike
from tests.simulation.numbers import EPOCH
from tests.simulation.run import Outcome, run

_TRIES_MAX = 60
_EVENTS_MAX = 60


def shrink(outcome: Outcome) -> Outcome:
    """Return the same failure with as few faults as could be found:
    halves are left out, then quarters, then single ones.
    """
    assert outcome.broken is not None
    best, numbers = outcome, [strike.number for strike in outcome.strikes]
    size, tries = max(1, len(numbers) // 2), 0
    while tries < _TRIES_MAX:
        for start in range(0, len(numbers), size):
            fewer = numbers[:start] + numbers[start + size :]
            tries += 1
            smaller = run(outcome.seed, only=fewer, in_cluster=outcome.in_cluster)
            if smaller.broken is not None and smaller.broken.contract == outcome.broken.contract:
                best, numbers = smaller, [strike.number for strike in smaller.strikes]
                size = min(size, max(1, len(numbers) // 2))
                break
            if tries >= _TRIES_MAX:
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return best


def tell(outcome: Outcome, *, known: Outcome | None = None) -> str:
    """Say what happened. `known` is the failure before it was shrunk."""
    assert outcome.broken is not None
    lines = [
        f"seed {outcome.seed} breaks contract {outcome.broken}",
        f"workspace {outcome.broken.workspace_id}",
    ]
    if known is not None:
        lines.append(f"faults: {len(outcome.strikes)} of {len(known.strikes)} are enough")
    lines.extend(_timeline(outcome))
    only = ",".join(str(strike.number) for strike in outcome.strikes)
    where = " CLUSTER=1" if outcome.in_cluster else ""
    lines.append(f"replay: make simulate SEED={outcome.seed}{where} ONLY={only or 'none'}")
    return "\n".join(lines)


def _timeline(outcome: Outcome) -> Iterator[str]:
    """Faults, and what the history says of this workspace, in the order in which they happened."""
    assert outcome.broken is not None
    workspace_id = outcome.broken.workspace_id
    lines: list[tuple[float, str]] = [(strike.at, _strike(strike)) for strike in outcome.strikes]
    for entry in outcome.history:
        if entry.workspace_id == workspace_id:
            event = entry.event
            text = f"{event.kind}: {event.before} -> {event.after}, by {event.actor}: {event.reason}"
            lines.append(((entry.at - EPOCH).total_seconds(), text))
    lines.sort(key=lambda each: each[0])
    if len(lines) > _EVENTS_MAX:
        yield f"  ({len(lines) - _EVENTS_MAX} earlier lines left out)"
    for at, text in lines[-_EVENTS_MAX:]:
        yield f"  {at:10.3f}  {text}"


def _strike(strike: Strike) -> str:
    return f"FAULT {strike.fault.name} at {strike.point}: {strike.fault.value}"
