"""The processes of the API: an address each goes in; the one that a request goes to comes out."""

from collections.abc import Sequence
from itertools import cycle

from codehub.ports.instances import Upstream
from codehub.ports.system import Clock
from codehub.proxy.engine.targets import Target

_AVOIDED_S = 5.0
_SILENT_S_MIN = 0.2
"""Nobody is asked again so soon: a request goes once round, not round and round."""


class ApiTargets:
    """Requests go to one after another, but to none that is about to
    end, or did not answer lately, while there is another.
    """

    def __init__(self, upstreams: Sequence[Upstream], clock: Clock) -> None:
        self._targets = [Target(upstream, has_twin=len(upstreams) > 1) for upstream in upstreams]
        self._turns = cycle(self._targets)
        self._clock = clock
        self._left_at: dict[Target, float] = {}
        self._silent_at: dict[Target, float] = {}

    def __contains__(self, target: Target) -> bool:
        return target in self._targets

    def choose(self) -> Target:
        """Return where the next request goes."""
        if len(self._targets) == 1:
            return self._targets[0]
        return min(self._in_turn(), key=self._reluctance)

    def find_other(self, silent: Target) -> Target | None:
        """Return where a request goes that this one did not answer, if anybody is left."""
        now = self._clock.monotonic()
        self._silent_at[silent] = now
        others = [
            target
            for target in self._in_turn()
            if now - self._silent_at.get(target, -_SILENT_S_MIN) >= _SILENT_S_MIN
        ]
        return min(others, key=self._reluctance, default=None)

    def _in_turn(self) -> list[Target]:
        return [next(self._turns) for _ in range(len(self._targets) + 1)][: len(self._targets)]

    def _reluctance(self, target: Target) -> int:
        now = self._clock.monotonic()
        if target.is_leaving:
            target.is_leaving = False
            self._left_at[target] = now
        if now - self._silent_at.get(target, -_AVOIDED_S) < _AVOIDED_S:
            return 2
        return 1 if now - self._left_at.get(target, -_AVOIDED_S) < _AVOIDED_S else 0
