"""What an engine is given: the machine's ports, and the numbers of its rhythm."""

from dataclasses import dataclass
from uuid import UUID

from codehub.ports.system import Clock, Identity, Randomness, Tasks


@dataclass(frozen=True, slots=True)
class System:
    """The machine's ports."""

    clock: Clock
    randomness: Randomness
    identity: Identity
    tasks: Tasks

    @property
    def op_id(self) -> UUID:
        """A fresh one: what a decision leaves to chance."""
        return self.identity.new_id()

    @property
    def jitter(self) -> float:
        return self.randomness.fraction()


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often it looks, and how much it does at once."""

    idle_s: float = 10.0
    active_s: float = 2.0
    probe_s_min: float = 0.05
    probe_s_max: float = 1.0
    sweep_s: float = 3600.0
    short_max: int = 64
    long_max: int = 2
    batch_max: int = 2_000
