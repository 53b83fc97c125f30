"""The crew: sends steps on their way, one per workspace, watches what is about to be ready, and rings when something has happened."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog

from codehub.core.decide import FinishedStep
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
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceController
from codehub.ports.metrics import Metrics
from codehub.ports.storage import Amount
from codehub.ports.store import ControllerStore

log = structlog.get_logger()

_PROBE_GROWTH = 1.2


@dataclass(frozen=True, slots=True)
class Attempt:
    """A step that an actuator has done, as far as it says; it is done again if its effect is not seen after a while."""

    op_id: UUID
    step: Step
    at: float


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
            landed=self._landed,
            metrics=metrics,
        )
        self.board = ProgressBoard(store, system.clock, metrics)
        self._attempts: dict[UUID, Attempt] = {}
        self._watched: dict[UUID, UUID] = {}

    def finished(self, row: Workspace) -> FinishedStep | None:
        """Return the step whose outcome was not recorded yet."""
        running_step = self._running_steps.get(row.id)
        if running_step is None or running_step.outcome is None:
            return None
        return FinishedStep(running_step.act, running_step.op_id, running_step.outcome)

    def is_queued(self, row: Workspace) -> bool:
        """Whether its step waits for others to be done first."""
        running_step = self._running_steps.get(row.id)
        return running_step is not None and running_step.is_queued and running_step.op_id == row.status.op_id

    def is_acting(self, workspace_id: UUID) -> bool:
        """Whether a step is in flight: begun, or waiting for its turn, and without an outcome."""
        running_step = self._running_steps.get(workspace_id)
        return running_step is not None and running_step.outcome is None

    def send(self, row: Workspace, act: Act, observation: Observation, now: datetime) -> None:
        """Begin the step, unless it is under way, or was done so lately that its effect may not be seen yet."""
        op_id = row.status.op_id
        assert op_id is not None
        if self._running_steps.get(row.id) is not None:
            if not self._is_same(row, act):
                self._running_steps.clear(row.id)
            return
        if self._was_just_done(row.id, op_id, act.step) or self._has_ended(row.id, op_id, act, observation):
            return
        volume = observation.volume if isinstance(observation.volume, Volume) else None

        def report(amount: Amount) -> None:
            self.board.report(row.id, op_id, amount)

        async def work() -> Outcome:
            outcome = await self._executor.run(row, act, volume, now, report)
            if act.step is Step.START and isinstance(outcome, Done):
                self._watch(row)
            return outcome

        self._running_steps.launch(row.id, act, op_id, work)

    def recall(self, row: Workspace, planned: Plan) -> None:
        """Let go of what no longer fits: an outcome that is recorded, or a step of an operation that has ended."""
        if row.status.operation is not Operation.STARTING:
            self._watched.pop(row.id, None)
        running_step = self._running_steps.get(row.id)
        if running_step is None:
            return
        is_recorded = isinstance(planned, Act) and running_step.outcome is not None
        if is_recorded:
            self._attempts[row.id] = Attempt(
                running_step.op_id, running_step.act.step, self._system.clock.monotonic()
            )
        if is_recorded or running_step.op_id != row.status.op_id or row.status.operation is Operation.NONE:
            self._running_steps.clear(row.id)
        if is_recorded and running_step.act.step is Step.START and isinstance(running_step.outcome, Done):
            self._watch(row)

    def let_go(self, workspace_id: UUID) -> None:
        """Somebody else handles it by now: what is under way here is cancelled, and what has landed forgotten."""
        self._running_steps.clear(workspace_id)
        self._watched.pop(workspace_id, None)

    @property
    def is_busy(self) -> bool:
        return self._running_steps.is_any_under_way

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

    def _landed(self, workspace_id: UUID) -> None:
        """Ring. What was started and is watched from here on can wait for that: before, there is nothing to see."""
        self.board.end(workspace_id)
        running_step = self._running_steps.get(workspace_id)
        is_started = (
            running_step is not None
            and running_step.act.step is Step.START
            and isinstance(running_step.outcome, Done)
            and running_step.op_id == self._watched.get(workspace_id)
        )
        if not is_started:
            self._wakeups.ring({workspace_id})

    def _is_same(self, row: Workspace, act: Act) -> bool:
        running_step = self._running_steps.get(row.id)
        return running_step is not None and running_step.is_of(act, row.status.op_id)

    def _was_just_done(self, workspace_id: UUID, op_id: UUID, step: Step) -> bool:
        attempt = self._attempts.get(workspace_id)
        if attempt is None or (attempt.op_id, attempt.step) != (op_id, step):
            return False
        return self._system.clock.monotonic() - attempt.at < self._cadence.active_s

    def _has_ended(self, workspace_id: UUID, op_id: UUID, act: Act, observation: Observation) -> bool:
        """Whether what was started has ended: whoever watches it tells how. To start another would bury that."""
        is_watched = act.step is Step.START and self._watched.get(workspace_id) == op_id
        return is_watched and isinstance(observation.instance, Instance) and observation.instance.has_ended

    def _watch(self, row: Workspace) -> None:
        """Watch a starting instance closely, so that nobody waits for a tick, until it is ready or its start has ended."""
        op_id = row.status.op_id
        if op_id is not None and self._watched.get(row.id) != op_id:
            self._watched[row.id] = op_id
            self._system.tasks.spawn(self._until_ready(row, op_id), name=f"watch {row.id}")

    async def _until_ready(self, row: Workspace, op_id: UUID) -> None:
        delay_s, had_ended = self._cadence.probe_s_min, False
        while self._watched.get(row.id) == op_id:
            found = await self._observer.look_at_instance(row)
            if isinstance(found, Instance) and found.healthy:
                self._wakeups.ring({row.id})
                break
            if isinstance(found, Instance) and found.has_ended:
                # What it ended with may be known a moment later.
                if (had_ended or found.exit_code is not None) and self._tells_end(row, op_id, found):
                    break
                self._wakeups.ring({row.id})
                had_ended = True
            await self._system.clock.sleep(delay_s)
            delay_s = min(delay_s * _PROBE_GROWTH, self._cadence.probe_s_max)
        if self._watched.get(row.id) == op_id:
            del self._watched[row.id]

    def _tells_end(self, row: Workspace, op_id: UUID, ended: Instance) -> bool:
        """Have it told as the start's failure how the instance has ended; but first the step before is recorded."""
        if self._running_steps.get(row.id) is not None:
            return False
        start = Act(Operation.STARTING, Step.START)
        self._running_steps.launch(row.id, start, op_id, lambda: self._executor.tell_end(row, ended))
        return True
