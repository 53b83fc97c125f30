"""Progress of steps under way: reports in at any rate, at most
one write a second for all of them together out.
"""

import asyncio
from uuid import UUID

import structlog

from codehub.core.progress import Progress, calculate_progress
from codehub.ports.metrics import Metrics, NoMetrics
from codehub.ports.progress import ProgressMeter
from codehub.ports.storage import Amount
from codehub.ports.store import ControllerStore, StoreUnavailable
from codehub.ports.system import Clock

log = structlog.get_logger()

_INTERVAL_S = 1.0
_FIRST_AFTER_S = 0.2
"""A step shorter than this is never written about."""


class ProgressBoard:
    def __init__(self, store: ControllerStore, clock: Clock, metrics: Metrics | None = None) -> None:
        self._metrics = metrics or NoMetrics()
        self._store = store
        self._clock = clock
        self._meters: dict[UUID, ProgressMeter] = {}
        self._written: dict[UUID, Amount] = {}
        self._is_set = asyncio.Event()

    def begin(self, workspace_id: UUID, op_id: UUID) -> ProgressMeter:
        """Return a meter for a step of this workspace. One that has ended before takes nothing of it away."""
        meter = ProgressMeter(op_id, self._clock, self._is_set)
        self._meters[workspace_id] = meter
        return meter

    def end(self, workspace_id: UUID, meter: ProgressMeter) -> None:
        """Forget a step that has ended."""
        if self._meters.get(workspace_id) is meter:
            del self._meters[workspace_id]
        if meter.amount is not None:
            self._metrics.count_bytes(meter.amount.stage, meter.amount.done)
        self._is_set.set()

    async def run(self) -> None:
        """Write what changed, at most once a second, until cancelled.
        What can't be written is lost, and nobody misses it.
        """
        while True:
            await self._is_set.wait()
            await self._clock.sleep(_FIRST_AFTER_S)
            self._is_set.clear()
            try:
                await self.flush()
            except StoreUnavailable as error:
                log.warning("progress_not_written", reason=str(error))
            except Exception:
                log.exception("progress_failed")
            await self._clock.sleep(_INTERVAL_S - _FIRST_AFTER_S)

    async def flush(self) -> None:
        amounts = {
            workspace_id: meter.amount
            for workspace_id, meter in self._meters.items()
            if meter.amount is not None
        }
        changed = {
            workspace_id: (
                self._meters[workspace_id].op_id,
                self._calculate(self._meters[workspace_id], amount),
            )
            for workspace_id, amount in amounts.items()
            if self._written.get(workspace_id) != amount
        }
        ended = self._written.keys() - amounts.keys()
        if changed or ended:
            await self._store.write_progress(changed, frozenset(ended))
            self._written = amounts

    def _calculate(self, meter: ProgressMeter, amount: Amount) -> Progress:
        elapsed_s = self._clock.monotonic() - meter.stage_began
        return calculate_progress(amount.stage, amount.done, amount.total, elapsed_s=elapsed_s)
