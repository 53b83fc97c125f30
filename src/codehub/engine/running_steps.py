"""Running steps: steps in bounded lanes, one per workspace; long ones have a lane of their own. Each leaves its outcome when it ends."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from codehub.core.plan import Act
from codehub.core.transitions import Outcome
from codehub.engine.execute import LONG_STEPS, Superseded
from codehub.engine.workspace_cache import KnownWorkspace, RunningStep
from codehub.ports.metrics import Metrics
from codehub.ports.system import Tasks

# A step to be done once its task has really begun: one that is recalled before that leaves nothing behind.
Work = Callable[[], Coroutine[Any, Any, Outcome]]


class RunningSteps:
    """Bounded lanes: however much is archived or restored, a start never waits for it."""

    def __init__(
        self,
        tasks: Tasks,
        *,
        short_max: int,
        long_max: int,
        ended: Callable[[KnownWorkspace], None],
        metrics: Metrics,
    ) -> None:
        self._tasks = tasks
        self._short = asyncio.Semaphore(short_max)
        self._long = asyncio.Semaphore(long_max)
        self._ended = ended
        self._metrics = metrics
        self._counts = {"short": 0, "long": 0}

    def launch(self, known: KnownWorkspace, act: Act, op_id: UUID, work: Work) -> None:
        """Begin a step. Its workspace has no other under way."""
        step = RunningStep(act, op_id)
        known.running_step = step
        step.task = self._tasks.spawn(self._run(known, step, work), name=f"{act.step} {known.row.id}")

    def clear(self, known: KnownWorkspace) -> None:
        """Forget what has ended or waits for its turn; cancel what is under way, which keeps its place until it has really ended."""
        step = known.running_step
        if step is None:
            return
        assert step.task is not None
        step.task.cancel()
        if step.is_queued or step.task.done():
            known.running_step = None

    async def _run(self, known: KnownWorkspace, step: RunningStep, work: Work) -> None:
        lane = "long" if step.act.step in LONG_STEPS else "short"
        try:
            async with self._long if lane == "long" else self._short:
                step.is_queued = False
                self._count(lane, 1)
                try:
                    step.outcome = await work()
                finally:
                    self._count(lane, -1)
        except Superseded:
            pass
        finally:
            if step.outcome is None and known.running_step is step:
                known.running_step = None
            self._ended(known)

    def _count(self, lane: str, change: int) -> None:
        self._counts[lane] += change
        self._metrics.set_running_steps(lane, self._counts[lane])
