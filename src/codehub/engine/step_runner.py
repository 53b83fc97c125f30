"""The step runner: runs steps in bounded lanes, one per workspace, watches
closely what is about to be ready, and wakes the controller.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import structlog

from codehub.core.observation import Instance, Observation, Volume
from codehub.core.operations import Operation, Step
from codehub.core.plan import Act, Plan
from codehub.core.transitions import Done, Outcome
from codehub.core.workspace import Workspace
from codehub.engine.backends import Backends
from codehub.engine.execute import LONG_STEPS, Executor, Superseded
from codehub.engine.observe import Observer
from codehub.engine.progress import ProgressBoard
from codehub.engine.system import Cadence, System
from codehub.engine.wakeups import Wakeups
from codehub.engine.workspace_cache import Attempt, KnownWorkspace, RunningStep
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceController
from codehub.ports.metrics import Metrics
from codehub.ports.store import ControllerStore

log = structlog.get_logger()

_PROBE_GROWTH = 1.2

# A step to be done once its task has really begun: one that is recalled before that leaves nothing behind.
Work = Callable[[], Coroutine[Any, Any, Outcome]]


class StepRunner:
    """Long steps have a lane of their own: however much is archived or restored, a start never waits for
    it.
    """

    def __init__(
        self,
        backends: Backends,
        store: ControllerStore,
        observer: Observer,
        system: System,
        cadence: Cadence,
        wakeups: Wakeups,
        *,
        metrics: Metrics,
    ) -> None:
        self._observer = observer
        self._system = system
        self._cadence = cadence
        self._wakeups = wakeups
        self._executor = Executor(backends, store.holds)
        self._metrics = metrics
        self._lanes = {
            "short": asyncio.Semaphore(cadence.short_max),
            "long": asyncio.Semaphore(cadence.long_max),
        }
        self._counts = dict.fromkeys(self._lanes, 0)
        self.board = ProgressBoard(store, system.clock, metrics)

    def send(self, known: KnownWorkspace, act: Act, observation: Observation, now: datetime) -> None:
        """Begin the step, unless it is under way, or was done so lately that its effect may not be seen
        yet.
        """
        row, op_id = known.row, known.row.status.op_id
        assert op_id is not None
        if known.running_step is not None:
            if not known.running_step.is_of(act, op_id):
                _clear(known)
            return
        if self._was_just_done(known, op_id, act.step) or _has_ended(known, op_id, act, observation):
            return
        volume = observation.volume if isinstance(observation.volume, Volume) else None
        meter = self.board.begin(row.id, op_id)
        self._launch(
            known,
            RunningStep(act, op_id, meter),
            partial(self._executor.run, row, act, volume, now, meter),
        )

    def recall(self, known: KnownWorkspace, planned: Plan) -> None:
        """Forget what no longer fits: an outcome that is recorded, or a step of an operation that has
        ended.
        """
        status, step = known.row.status, known.running_step
        if status.operation is not Operation.STARTING:
            known.watched_op_id = None
        if step is None:
            return
        is_recorded = isinstance(planned, Act) and step.outcome is not None
        if is_recorded:
            known.last_attempt = Attempt(step.op_id, step.act.step, self._system.clock.monotonic())
        if is_recorded or step.op_id != status.op_id or status.operation is Operation.NONE:
            _clear(known)
        if is_recorded and step.act.step is Step.START and isinstance(step.outcome, Done):
            self._watch(known, known.row)

    def let_go(self, known: KnownWorkspace) -> None:
        """Somebody else handles it by now: what is under way here
        is cancelled, and what has ended is forgotten.
        """
        _clear(known)
        known.watched_op_id = None

    async def follow_events(self, instances: InstanceController) -> None:
        """Ring for whatever the backend says has changed. Without its events the tick finds out."""
        while True:
            try:
                async with instances.events() as events:
                    async for workspace_id in events:
                        self._wakeups.ring({workspace_id})
            except BackendUnreachable as error:
                log.warning("events_lost", reason=str(error))
            except Exception:  # an adapter's mistake costs its events, not the loop
                log.exception("events_failed")
            await self._system.clock.sleep(self._cadence.idle_s)

    def _launch(self, known: KnownWorkspace, step: RunningStep, work: Work) -> None:
        """Begin a step. Its workspace has no other under way."""
        known.running_step = step
        name = f"{step.act.step} {known.row.id}"
        step.task = self._system.tasks.spawn(self._run(known, known.row, step, work), name=name)

    async def _run(self, known: KnownWorkspace, row: Workspace, step: RunningStep, work: Work) -> None:
        """Do the step in its lane, leave its outcome, and ring.

        What was started is watched from here on, and rings when there is something to see."""
        lane = "long" if step.act.step in LONG_STEPS else "short"
        is_started = False
        try:
            async with self._lanes[lane]:
                step.is_queued = False
                self._count(lane, 1)
                try:
                    step.outcome = await work()
                finally:
                    self._count(lane, -1)
            is_started = step.act.step is Step.START and isinstance(step.outcome, Done)
            if is_started:
                self._watch(known, row)
        except Superseded:
            pass
        finally:
            if step.outcome is None and known.running_step is step:
                known.running_step = None
            self.board.end(known.row.id, step.meter)
            if not (is_started and known.running_step is step and step.op_id == known.watched_op_id):
                self._wakeups.ring({known.row.id})

    def _count(self, lane: str, change: int) -> None:
        self._counts[lane] += change
        self._metrics.set_running_steps(lane, self._counts[lane])

    def _was_just_done(self, known: KnownWorkspace, op_id: UUID, step: Step) -> bool:
        attempt = known.last_attempt
        if attempt is None or (attempt.op_id, attempt.step) != (op_id, step):
            return False
        return self._system.clock.monotonic() - attempt.at < self._cadence.active_s

    def _watch(self, known: KnownWorkspace, row: Workspace) -> None:
        """Watch a starting instance closely, so that nobody waits for
        a tick, until it is ready or its start has ended.
        """
        op_id = row.status.op_id
        if op_id is not None and known.watched_op_id != op_id:
            known.watched_op_id = op_id
            self._system.tasks.spawn(self._until_ready(known, row, op_id), name=f"watch {row.id}")

    async def _until_ready(self, known: KnownWorkspace, row: Workspace, op_id: UUID) -> None:
        delay_s, had_ended = self._cadence.probe_s_min, False
        while known.watched_op_id == op_id:
            instance = await self._observer.look_at_instance(row)
            if isinstance(instance, Instance) and instance.healthy:
                self._wakeups.ring({row.id})
                break
            if isinstance(instance, Instance) and instance.has_ended:
                # What it ended with may be known a moment later.
                is_known = had_ended or instance.exit_code is not None
                if is_known and self._tells_end(known, row, op_id, instance):
                    break
                self._wakeups.ring({row.id})
                had_ended = True
            await self._system.clock.sleep(delay_s)
            delay_s = min(delay_s * _PROBE_GROWTH, self._cadence.probe_s_max)
        if known.watched_op_id == op_id:
            known.watched_op_id = None

    def _tells_end(self, known: KnownWorkspace, row: Workspace, op_id: UUID, ended: Instance) -> bool:
        """Have it told as the start's failure how the instance has
        ended; but first the step before is recorded.
        """
        if known.running_step is not None:
            return False
        step = RunningStep(Act(Operation.STARTING, Step.START), op_id, self.board.begin(row.id, op_id))
        self._launch(known, step, partial(self._executor.explain_end, row, ended))
        return True


def _has_ended(known: KnownWorkspace, op_id: UUID, act: Act, observation: Observation) -> bool:
    """Whether what was started has ended: whoever watches it tells how. To start another would bury that."""
    is_watched = act.step is Step.START and known.watched_op_id == op_id
    return is_watched and isinstance(observation.instance, Instance) and observation.instance.has_ended


def _clear(known: KnownWorkspace) -> None:
    """Forget what has ended or waits for its turn; cancel what is under
    way, which keeps its place until it has really ended.
    """
    step = known.running_step
    if step is None:
        return
    assert step.task is not None
    step.task.cancel()
    if step.is_queued or step.task.done():
        known.running_step = None
