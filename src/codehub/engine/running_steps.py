"""Flights: steps that are under way. One per workspace, long ones in a lane of their own, each with its outcome when it lands."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from codehub.core.plan import Act
from codehub.core.transitions import Outcome
from codehub.engine.execute import LONG_STEPS, Superseded
from codehub.ports.metrics import Metrics
from codehub.ports.system import Task, Tasks

# A step to be done once its task has really begun: one that is recalled before that leaves nothing behind.
Work = Callable[[], Coroutine[Any, Any, Outcome]]


@dataclass(slots=True)
class RunningStep:
    """One step under way, or landed with an outcome."""

    act: Act
    op_id: UUID
    task: Task | None = None
    outcome: Outcome | None = None
    is_queued: bool = True
    """Whether it still waits for a place in its lane."""

    def is_of(self, act: Act, op_id: UUID | None) -> bool:
        return self.act == act and self.op_id == op_id


class RunningSteps:
    """Bounded lanes: however much is archived or restored, a start never waits for it."""

    def __init__(
        self,
        tasks: Tasks,
        *,
        short_max: int,
        long_max: int,
        landed: Callable[[UUID], None],
        metrics: Metrics,
    ) -> None:
        self._tasks = tasks
        self._short = asyncio.Semaphore(short_max)
        self._long = asyncio.Semaphore(long_max)
        self._landed = landed
        self._metrics = metrics
        self._flying = {"short": 0, "long": 0}
        self._running_steps: dict[UUID, RunningStep] = {}

    def get(self, workspace_id: UUID) -> RunningStep | None:
        return self._running_steps.get(workspace_id)

    def launch(self, workspace_id: UUID, act: Act, op_id: UUID, work: Work) -> None:
        """Begin a step. Its workspace has no other under way."""
        running_step = RunningStep(act, op_id)
        self._running_steps[workspace_id] = running_step
        running_step.task = self._tasks.spawn(
            self._fly(workspace_id, running_step, work), name=f"{act.step} {workspace_id}"
        )

    def clear(self, workspace_id: UUID) -> None:
        """Forget what has landed or waits for its turn; cancel what is under way, which keeps its place until it has really ended."""
        running_step = self._running_steps.get(workspace_id)
        if running_step is None:
            return
        assert running_step.task is not None
        running_step.task.cancel()
        if running_step.is_queued or running_step.task.done():
            del self._running_steps[workspace_id]

    async def _fly(self, workspace_id: UUID, running_step: RunningStep, work: Work) -> None:
        name = "long" if running_step.act.step in LONG_STEPS else "short"
        try:
            async with self._long if name == "long" else self._short:
                running_step.is_queued = False
                self._count(name, 1)
                try:
                    running_step.outcome = await work()
                finally:
                    self._count(name, -1)
        except Superseded:
            pass
        finally:
            if running_step.outcome is None and self._running_steps.get(workspace_id) is running_step:
                del self._running_steps[workspace_id]
            self._landed(workspace_id)

    def _count(self, lane: str, change: int) -> None:
        self._flying[lane] += change
        self._metrics.flying(lane, self._flying[lane])

    @property
    def is_any_under_way(self) -> bool:
        return bool(self._running_steps)
