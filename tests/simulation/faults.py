"""Faults: one seed in, what goes wrong where out. Each that strikes has a
number, so that a run can be repeated with only some of them.
"""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.machine import Machine


class Fault(StrEnum):
    """What may go wrong. The number beside it is how often, per opportunity, when it is rife."""

    CRASH = "the process dies here"
    PAUSE = "the process is stopped for a while, and goes on as if nothing had happened"
    STORE_AWAY = "the database does not answer"
    COMMIT_UNKNOWN = "the connection is lost right after the commit"
    COMMIT_LOST = "the connection is lost right before the commit"
    HINT_LOST = "a hint is lost"
    HINT_LATE = "a hint comes late"
    HINT_TWICE = "a hint comes twice"
    EVENT_LOST = "an engine's event is lost"
    LOOK_FAILED = "a list fails, or is cut short, which the adapter notices"
    LOOK_STALE = "a list is old when it arrives"
    ACT_REFUSED = "an actuator can't be reached"
    ACT_FAILED = "an actuator fails"
    ACT_HALF = "an actuator fails half way: no space left, or its job was killed"
    ACT_LIED = "an actuator succeeds and reports failure"
    ACT_UNHEARD = "an actuator succeeds and its answer is lost"
    ACT_HUNG = "an actuator hangs for minutes"
    ACT_LATE = "an actuator is given up on, and succeeds later"
    OUTAGE = "a backend is away for a while"
    ENGINE_RESTART = "the engine restarts: every instance is gone"
    INSTANCE_DIED = "an instance dies"
    INSTANCE_SICK = "an instance fails its health checks for a while"
    INSTANCE_GONE = "an instance vanishes"
    VOLUME_GONE = "a volume vanishes"
    ARCHIVE_GONE = "an archive vanishes"
    CHOSEN_GONE = "an archive vanishes right after a person took it"
    IDENTITY_GONE = "what says which volume it is vanishes, and its files stay"
    ROLLBACK = "the database rolls back: an older dump is restored while the world went on"
    WATCH_BEHIND = "a process's watch is behind, and nobody knows"
    WATCH_BROKEN = "a process's watch is broken, and says so"
    ENDS_SLOWLY = "what is deleted ends slowly"
    ENDS_LATE = "a finalizer holds what is deleted"
    DISK_FULL = "the disk of homes is full for a while"
    LAST_CRASH = "a controller dies right after the last wishes"


RIFE = {
    Fault.CRASH: 0.004,
    Fault.PAUSE: 0.002,
    Fault.STORE_AWAY: 0.02,
    Fault.COMMIT_UNKNOWN: 0.05,
    Fault.COMMIT_LOST: 0.05,
    Fault.HINT_LOST: 0.5,
    Fault.HINT_LATE: 0.3,
    Fault.HINT_TWICE: 0.2,
    Fault.EVENT_LOST: 0.5,
    Fault.LOOK_FAILED: 0.05,
    Fault.LOOK_STALE: 0.1,
    Fault.ACT_REFUSED: 0.1,
    Fault.ACT_FAILED: 0.15,
    Fault.ACT_HALF: 0.15,
    Fault.ACT_LIED: 0.1,
    Fault.ACT_UNHEARD: 0.1,
    Fault.ACT_HUNG: 0.05,
    Fault.ACT_LATE: 0.3,
    # The rest strike by the minute, not by the call.
    Fault.OUTAGE: 0.08,
    Fault.ENGINE_RESTART: 0.03,
    Fault.INSTANCE_DIED: 0.1,
    Fault.INSTANCE_SICK: 0.05,
    Fault.INSTANCE_GONE: 0.06,
    Fault.VOLUME_GONE: 0.015,
    Fault.ARCHIVE_GONE: 0.015,
    Fault.LAST_CRASH: 0.8,
    Fault.ROLLBACK: 0.02,
}
# Drawn by dice of their own, and in every third seed: what the others mean stays as it was.
RIFE_TOO = {Fault.IDENTITY_GONE: 0.03}
_SEEDS_WITH_OTHERS = 3
# Drawn by dice of their own too: how often a choice is overtaken, where that happens at all.
RIFE_WHERE_CHOSEN = {Fault.CHOSEN_GONE: 0.5}
_CHANCE_OF_A_CHOICE = 0.15
# What a cluster does, and a full disk: drawn by dice of their own, and in runs on a cluster alone.
RIFE_IN_A_CLUSTER = {
    Fault.WATCH_BEHIND: 0.15,
    Fault.WATCH_BROKEN: 0.05,
    Fault.ENDS_SLOWLY: 0.5,
    Fault.ENDS_LATE: 0.1,
    Fault.DISK_FULL: 0.05,
}
_CHANCE_OF_A_KIND = 0.45
_CHANCE_IN_A_CLUSTER = 0.7
# Trouble comes in spells: what failed at one point is likely to fail there again, for a while.
_SPELLS = frozenset(
    {
        Fault.ACT_REFUSED,
        Fault.ACT_FAILED,
        Fault.ACT_HALF,
        Fault.ACT_LIED,
        Fault.ACT_UNHEARD,
        Fault.ACT_LATE,
        Fault.INSTANCE_DIED,
    }
)
_CHANCE_OF_A_SPELL = 0.3
_SPELL_S_MAX = 600.0
_RATE_IN_A_SPELL = 0.85


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that struck: its number, when, what, and at which point."""

    number: int
    at: float
    fault: Fault
    point: str


class Faults:
    """Which kinds there are in this run is drawn first: all together hide each other's traces."""

    def __init__(
        self,
        seed: int,
        *,
        time: Callable[[], float] = float,
        only: Collection[int] | None = None,
        in_cluster: bool = False,
    ) -> None:
        self._time = time
        self._dice = random.Random(f"faults {seed}")
        self._only = None if only is None else frozenset(only)
        self._opportunities = 0
        strength = self._dice.choice((0.3, 1.0, 1.0, 2.0))
        self.rates = {
            fault: rate * strength * self._dice.random()
            for fault, rate in RIFE.items()
            if self._dice.random() < _CHANCE_OF_A_KIND
        }
        other_dice = random.Random(f"other faults {seed}")
        self.rates |= {
            fault: rate * strength * other_dice.random()
            for fault, rate in RIFE_TOO.items()
            if other_dice.random() < _CHANCE_OF_A_KIND and seed % _SEEDS_WITH_OTHERS == 0
        }
        chosen_dice = random.Random(f"chosen archives {seed}")
        self.rates |= {
            fault: rate
            for fault, rate in RIFE_WHERE_CHOSEN.items()
            if chosen_dice.random() < _CHANCE_OF_A_CHOICE
        }
        cluster_dice = random.Random(f"cluster faults {seed}")
        self.rates |= {
            fault: rate * strength * cluster_dice.random()
            for fault, rate in RIFE_IN_A_CLUSTER.items()
            if in_cluster and cluster_dice.random() < _CHANCE_IN_A_CLUSTER
        }
        self._dice_of = {
            **dict.fromkeys(RIFE_TOO, other_dice),
            **dict.fromkeys(RIFE_WHERE_CHOSEN, chosen_dice),
            **dict.fromkeys(RIFE_IN_A_CLUSTER, cluster_dice),
        }
        self._spells: dict[tuple[Fault, str], float] = {}
        self.strikes: list[Strike] = []

    def strike(self, fault: Fault, point: str, machine: "Machine | None" = None) -> bool:
        """Draw whether it strikes at this point, and note it."""
        rate = self.rates.get(fault)
        if rate is None:
            return False
        self._opportunities += 1
        if self._spells and self._spells.get((fault, point), 0.0) > self._time():
            rate = _RATE_IN_A_SPELL
        if self._dice_of.get(fault, self._dice).random() >= rate:
            return False
        if self._only is not None and self._opportunities not in self._only:
            return False
        at = self._time()
        where = point if machine is None else f"{machine.name}: {point}"
        self.strikes.append(Strike(self._opportunities, at, fault, where))
        if fault in _SPELLS and self._dice.random() < _CHANCE_OF_A_SPELL:
            self._spells[fault, point] = at + self._dice.random() * _SPELL_S_MAX
        return True
