"""Progress of steps under way: reports in at any rate, at most one write a second for all of them together out."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import structlog

from codehub.core.progress import Progress, measured
from codehub.ports.metrics import Metrics, NoMetrics
from codehub.ports.storage import Amount
from codehub.ports.store import ControllerStore, StoreUnavailable
from codehub.ports.system import Clock

log = structlog.get_logger()

_INTERVAL_S = 1.0
_FIRST_AFTER_S = 0.2
"""A step shorter than this is never written about."""


@dataclass(slots=True)
class _Stage:
    op_id: UUID
    began: float
    amount: Amount


class ProgressBoard:
    def __init__(self, store: ControllerStore, clock: Clock, metrics: Metrics | None = None) -> None:
        self._metrics = metrics or NoMetrics()
        self._store = store
        self._clock = clock
        self._stages: dict[UUID, _Stage] = {}
        self._written: dict[UUID, Amount] = {}
        self._reported = asyncio.Event()

    def report(self, workspace_id: UUID, op_id: UUID, amount: Amount) -> None:
        """Take in how far a step is. Returns at once."""
        stage = self._stages.get(workspace_id)
        if stage is None or stage.op_id != op_id or stage.amount.stage != amount.stage:
            self._stages[workspace_id] = _Stage(op_id, self._clock.monotonic(), amount)
        else:
            stage.amount = amount
        self._reported.set()

    def end(self, workspace_id: UUID) -> None:
        """Forget a step that has ended."""
        stage = self._stages.pop(workspace_id, None)
        if stage is not None:
            self._metrics.count_bytes(stage.amount.stage, stage.amount.done)
        self._reported.set()

    async def run(self) -> None:
        """Write what changed, at most once a second, until cancelled. What can't be written is lost, and nobody misses it."""
        while True:
            await self._reported.wait()
            await self._clock.sleep(_FIRST_AFTER_S)
            self._reported.clear()
            try:
                await self.flush()
            except StoreUnavailable as error:
                log.warning("progress_not_written", reason=str(error))
            except Exception:
                log.exception("progress_failed")
            await self._clock.sleep(_INTERVAL_S - _FIRST_AFTER_S)

    async def flush(self) -> None:
        changed = {
            workspace_id: (stage.op_id, self._measured(stage))
            for workspace_id, stage in self._stages.items()
            if self._written.get(workspace_id) != stage.amount
        }
        ended = self._written.keys() - self._stages.keys()
        if changed or ended:
            amounts = {workspace_id: stage.amount for workspace_id, stage in self._stages.items()}
            await self._store.write_progress(changed, frozenset(ended))
            self._written = amounts

    def _measured(self, stage: _Stage) -> Progress:
        elapsed_s = self._clock.monotonic() - stage.began
        return measured(stage.amount.stage, stage.amount.done, stage.amount.total, elapsed_s=elapsed_s)
