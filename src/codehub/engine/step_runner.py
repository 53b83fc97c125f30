"""The step runner: begins steps, one per workspace, watches closely what is about to be ready, and wakes the controller when one ends."""

from datetime import datetime
from uuid import UUID

import structlog

from codehub.core.observation import Instance, Observation, Volume
from codehub.core.operations import Operation, Step
from codehub.core.plan import Act, Plan
from codehub.core.transitions import Done, Outcome
from codehub.core.workspace import Workspace
from codehub.engine.execute import Executor
from codehub.engine.observe import Observer
from codehub.engine.platforms import Platforms
from codehub.engine.progress import ProgressBoard
from codehub.engine.running_steps import RunningSteps
from codehub.engine.system import Cadence, System
from codehub.engine.wakeups import Wakeups
from codehub.engine.workspace_cache import Attempt, KnownWorkspace
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceController
from codehub.ports.metrics import Metrics
from codehub.ports.storage import Amount
from codehub.ports.store import ControllerStore

log = structlog.get_logger()

_PROBE_GROWTH = 1.2


class StepRunner:
    def __init__(
        self,
        platforms: Platforms,
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
        self._executor = Executor(platforms, store.holds)
        self._running_steps = RunningSteps(
            system.tasks,
            short_max=cadence.short_max,
            long_max=cadence.long_max,
            ended=self._ended,
            metrics=metrics,
        )
        self.board = ProgressBoard(store, system.clock, metrics)

    def send(self, known: KnownWorkspace, act: Act, observation: Observation, now: datetime) -> None:
        """Begin the step, unless it is under way, or was done so lately that its effect may not be seen yet."""
        row, op_id = known.row, known.row.status.op_id
        assert op_id is not None
        if known.running_step is not None:
            if not known.running_step.is_of(act, op_id):
                self._running_steps.clear(known)
            return
        if self._was_just_done(known, op_id, act.step) or _has_ended(known, op_id, act, observation):
            return
        volume = observation.volume if isinstance(observation.volume, Volume) else None

        def report(amount: Amount) -> None:
            self.board.report(row.id, op_id, amount)

        async def work() -> Outcome:
            outcome = await self._executor.run(row, act, volume, now, report)
            if act.step is Step.START and isinstance(outcome, Done):
                self._watch(known, row)
            return outcome

        self._running_steps.launch(known, act, op_id, work)

    def recall(self, known: KnownWorkspace, planned: Plan) -> None:
        """Forget what no longer fits: an outcome that is recorded, or a step of an operation that has ended."""
        status, step = known.row.status, known.running_step
        if status.operation is not Operation.STARTING:
            known.watched_op_id = None
        if step is None:
            return
        is_recorded = isinstance(planned, Act) and step.outcome is not None
        if is_recorded:
            known.last_attempt = Attempt(step.op_id, step.act.step, self._system.clock.monotonic())
        if is_recorded or step.op_id != status.op_id or status.operation is Operation.NONE:
            self._running_steps.clear(known)
        if is_recorded and step.act.step is Step.START and isinstance(step.outcome, Done):
            self._watch(known, known.row)

    def let_go(self, known: KnownWorkspace) -> None:
        """Somebody else handles it by now: what is under way here is cancelled, and what has ended is forgotten."""
        self._running_steps.clear(known)
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

    def _ended(self, known: KnownWorkspace) -> None:
        """Ring. What was started and is watched from here on can wait for that: before, there is nothing to see."""
        self.board.end(known.row.id)
        step = known.running_step
        is_started = (
            step is not None
            and step.act.step is Step.START
            and isinstance(step.outcome, Done)
            and step.op_id == known.watched_op_id
        )
        if not is_started:
            self._wakeups.ring({known.row.id})

    def _was_just_done(self, known: KnownWorkspace, op_id: UUID, step: Step) -> bool:
        attempt = known.last_attempt
        if attempt is None or (attempt.op_id, attempt.step) != (op_id, step):
            return False
        return self._system.clock.monotonic() - attempt.at < self._cadence.active_s

    def _watch(self, known: KnownWorkspace, row: Workspace) -> None:
        """Watch a starting instance closely, so that nobody waits for a tick, until it is ready or its start has ended."""
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
        """Have it told as the start's failure how the instance has ended; but first the step before is recorded."""
        if known.running_step is not None:
            return False
        start = Act(Operation.STARTING, Step.START)
        self._running_steps.launch(known, start, op_id, lambda: self._executor.tell_end(row, ended))
        return True


def _has_ended(known: KnownWorkspace, op_id: UUID, act: Act, observation: Observation) -> bool:
    """Whether what was started has ended: whoever watches it tells how. To start another would bury that."""
    is_watched = act.step is Step.START and known.watched_op_id == op_id
    return is_watched and isinstance(observation.instance, Instance) and observation.instance.has_ended
