"""A progress meter: who does a step sets it, at any rate; who
writes it down reads it when it likes. Nobody is called.
"""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from codehub.ports.storage import Amount
from codehub.ports.system import Clock


@dataclass(slots=True, eq=False)
class ProgressMeter:
    """How far one step is. It fits wherever a Report is taken."""

    op_id: UUID
    clock: Clock
    is_set: asyncio.Event
    """Set with every report, for all meters together."""
    amount: Amount | None = None
    stage_began: float = 0.0

    def __call__(self, amount: Amount) -> None:
        if self.amount is None or self.amount.stage != amount.stage:
            self.stage_began = self.clock.monotonic()
        self.amount = amount
        self.is_set.set()
