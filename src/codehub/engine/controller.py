"""The workspace controller: observe, decide (judge and plan), persist,
execute, over and over. It decides nothing itself; the core does.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import structlog

from codehub.core.decide import Decision, NextLook, Situation, decide
from codehub.core.membership import Member, Members
from codehub.core.observation import Archive, Observation
from codehub.core.operations import Operation, Phase
from codehub.core.plan import Abandon, Act, Begin, Complete, Plan, TakeOver
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.core.workspace import Workspace
from codehub.engine.backends import Backends
from codehub.engine.membership import Membership
from codehub.engine.observe import ArchiveLook, CloseLooks, Looks, Observer
from codehub.engine.step_runner import StepRunner
from codehub.engine.system import Cadence, System
from codehub.engine.wakeups import Wakeup, Wakeups
from codehub.engine.workspace_cache import KnownWorkspace, WorkspaceCache
from codehub.ports.hints import Hints
from codehub.ports.metrics import Metrics, NoMetrics
from codehub.ports.store import Change, ControllerStore, HistoryChanged, StoreUnavailable

log = structlog.get_logger()


class WorkspaceController:
    """One controller process. Several may run side by side: compare-and-swap and op_id keep them right."""

    def __init__(
        self,
        name: str,
        store: ControllerStore,
        backends: Backends,
        hints: Hints,
        system: System,
        *,
        host: str = "localhost",
        rules: Rules = DEFAULT_RULES,
        cadence: Cadence = Cadence(),  # noqa: B008  # frozen
        metrics: Metrics | None = None,
    ) -> None:
        self.name = name
        self._store = store
        self._backends = backends
        self._hints = hints
        self._system = system
        self._rules = rules
        self._cadence = cadence
        self._metrics = metrics or NoMetrics()
        self._wakeups = Wakeups()
        self.passed_at = system.clock.monotonic()
        """When the last pass ended well."""
        self._looked_at = self.passed_at
        """When the last look at everybody ended, well or not."""
        self._cache = WorkspaceCache(store)
        self._observer = Observer(backends, system.clock)
        self._step_runner = StepRunner(
            backends, store, self._observer, system, cadence, self._wakeups, metrics=self._metrics
        )
        names = frozenset[str]({*backends.instances, *backends.storage})
        me = Member(system.identity.new_id(), host, names)
        self.members = Membership(me, store, system.clock, changed=self._start_over)
        self._sweep_at = system.clock.monotonic() + cadence.sweep_s
        self._is_starting_up = True

    async def run(self) -> None:
        """Run until cancelled. Whatever a pass raises is logged; the
        next one comes all the same. Raises HistoryChanged.
        """
        for backend, instances in self._backends.instances.items():
            self._system.tasks.spawn(self._step_runner.follow_events(instances), name=f"events of {backend}")
        self._system.tasks.spawn(self._step_runner.board.run(), name="progress")
        self._system.tasks.spawn(self.members.run(), name="membership")
        # Listening comes first: what was hinted before is seen by the first pass, what comes later rings.
        async with self._hints.listen() as hints:
            self._system.tasks.spawn(self._follow(hints), name="hints")
            wakeup = Wakeup(frozenset(), everyone=True)
            while True:
                try:
                    await self.run_pass(wakeup)
                except StoreUnavailable as error:
                    log.warning("store_unavailable", reason=str(error))
                except HistoryChanged:
                    raise
                except Exception:
                    log.exception("pass_failed")
                if wakeup.everyone:
                    self._looked_at = self._system.clock.monotonic()
                wakeup = await self._wakeups.wait(self._until_next_look())

    def _until_next_look(self) -> float:
        """Return how long until the next look at everybody. A pass over
        a few does not put it off, however many there are.
        """
        period_s = self._cadence.active_s if self._cache.is_any_at_work else self._cadence.idle_s
        return self._looked_at + period_s - self._system.clock.monotonic()

    async def leave(self) -> None:
        """Hand everything over at once: nothing is its own any more,
        what is under way is let go, and others go on.
        """
        mine = [known.row.id for known in self._cache if self.members.handles(known.row)]
        await self.members.leave()
        await self._hints.send(mine)
        self._start_over()

    async def run_pass(self, wakeup: Wakeup) -> int:
        """Run one pass and return how many rows it wrote. What it can't see or write is left to the next
        one.
        """
        this_pass = await self._observe(wakeup)  # reality, in bulk
        for batch in this_pass.batches(self._cadence.batch_max):
            situations = await self._describe(batch, this_pass)  # with the archives that matter now
            decisions = [decide(situation, self._rules) for situation in situations]  # pure: judge, then plan
            refused = await self._persist(decisions, this_pass)  # one transaction, compare-and-swap
            self._execute(decisions, refused)  # idempotent steps, each a task of its own
        return self._end_pass(this_pass)

    async def _observe(self, wakeup: Wakeup) -> "Pass":
        """Take in the rows that changed, look at the backends, and choose whom to decide about."""
        began, members = self._system.clock.monotonic(), self.members.current
        now = await self._cache.refresh()
        if wakeup.everyone:
            lists, swept = await self._observer.look(), await self._sweep()
            chosen = self._own(self._choose(lists, swept))
            return Pass(began, now, members, chosen, lists, swept, is_of_everybody=True)
        focus = {known.row.id for known in self._own(wakeup.workspaces | self._cache.changed)}
        rows = [known.row for known in self._own(focus)]
        looks: Looks | CloseLooks
        if all(row.status.operation is Operation.STARTING for row in rows):
            looks = await self._observer.look_closely(rows)
        else:
            looks = await self._observer.look()
        # Who handles them may have changed while it was looked at.
        return Pass(began, now, members, self._own(set(focus)), looks, {})

    async def _sweep(self) -> Mapping[UUID, ArchiveLook]:
        """Look at every archive now and then, and return those that are not as the rows say."""
        now = self._system.clock.monotonic()
        if now < self._sweep_at:
            return {}
        self._sweep_at = now + self._cadence.sweep_s
        looks = await self._observer.sweep_archives(known.row for known in self._cache)
        return {
            workspace_id: look
            for workspace_id, look in looks.items()
            if (known := self._cache.get(workspace_id)) is not None
            and known.row.status.conditions.archive_ready.is_true != (look.archive == Archive(committed=True))
        }

    def _choose(self, looks: Looks, swept: Iterable[UUID]) -> set[UUID]:
        """Return whom to decide about. What rests, and looks as it
        did, would be judged as before (contract 14).
        """
        changed = {*self._cache.changed, *swept}
        chosen = {*changed, *self._cache.waiting}
        chosen |= {known.row.id for known in self._cache if looks.pair(known.row) != known.judged_by}
        return chosen

    def _own(self, workspace_ids: Iterable[UUID]) -> Sequence[KnownWorkspace]:
        """Return those of these that are this controller's to handle."""
        every = (known for each in workspace_ids if (known := self._cache.get(each)) is not None)
        return [known for known in every if self.members.handles(known.row)]

    async def _describe(self, batch: Sequence[KnownWorkspace], this_pass: "Pass") -> Sequence[Situation]:
        """Return what there is to decide by: what was seen, and what is in flight."""
        closer = await self._observer.look_at_archives([known.row for known in batch])
        archives = {**this_pass.swept, **closer}
        return [
            self._situation(
                known,
                this_pass.looks.of(known.row, archives.get(known.row.id, ArchiveLook())),
                this_pass.now,
            )
            for known in batch
        ]

    def _situation(self, known: KnownWorkspace, observation: Observation, now: datetime) -> Situation:
        return Situation(
            known.row,
            observation,
            now,
            self._system,
            is_mine=known.is_mine,
            is_acting=known.is_acting,
            is_queued=known.is_queued,
            is_starting_up=self._is_starting_up,
            finished=known.finished_step,
            ceilings=self._backends.ceilings,
        )

    async def _persist(self, decisions: Sequence[Decision], this_pass: "Pass") -> Collection[UUID]:
        """Write what has changed, and return which workspaces were
        refused: their rows are newer than what was decided by.
        """
        changed = [decision for decision in decisions if decision.is_worth_writing]
        refused = await self._store.persist([_change(decision, self.name) for decision in changed])
        this_pass.refused += len(refused)
        this_pass.written += len(changed) - len(refused)
        for decision in changed:
            if decision.workspace_id not in refused:
                self._tell(decision)
        return refused

    def _execute(self, decisions: Sequence[Decision], refused: Collection[UUID]) -> None:
        """Do what was decided, now that it is recorded. What was refused is decided anew at once."""
        for decision in decisions:
            if decision.workspace_id in refused:
                self._wakeups.ring({decision.workspace_id})
                continue
            known = self._cache.get(decision.workspace_id)
            assert known is not None, "only what is known was decided about"
            self._note(known, decision)
            if not self.members.handles(known.row):  # it has changed hands while this was recorded
                self._let_go(known)
            elif isinstance(decision.plan, Act) and not decision.records_outcome:
                situation = decision.situation
                self._step_runner.send(known, decision.plan, situation.observation, situation.now)
            else:
                self._step_runner.recall(known, decision.plan)
            if decision.is_urgent:
                self._wakeups.ring({known.row.id})

    def _note(self, known: KnownWorkspace, decision: Decision) -> None:
        """Remember what was decided, and by what."""
        if decision.is_worth_writing:
            self._cache.note_status(known, decision.status)
        observation = decision.situation.observation
        known.judged_by = (observation.instance, observation.volume)
        self._cache.note_next_look(known, decision.next_look)
        if isinstance(decision.plan, Begin | TakeOver):
            known.issued_op_id = decision.status.op_id

    def _end_pass(self, this_pass: "Pass") -> int:
        if this_pass.is_of_everybody:
            self._is_starting_up = False
            self.members.note_pass(this_pass.now, this_pass.members)
        self._cache.changed.clear()
        self.passed_at = self._system.clock.monotonic()
        if this_pass.is_of_everybody or this_pass.chosen:
            took_s = self.passed_at - this_pass.began
            self._metrics.record_pass(took_s, written=this_pass.written, lost=this_pass.refused)
        return this_pass.written

    def _start_over(self) -> None:
        """Let go of what others handle by now, and judge everything else once more: some of it is new
        here.
        """
        for known in self._cache:
            known.judged_by = None
            if not self.members.handles(known.row):
                self._let_go(known)
        self._wakeups.ring(everyone=True)

    def _let_go(self, known: KnownWorkspace) -> None:
        """Leave it to others, until it comes back: then it is judged once more."""
        known.judged_by = None
        self._step_runner.let_go(known)
        self._cache.note_next_look(known, NextLook.ON_CHANGE)

    def running(self) -> Sequence[Workspace]:
        """Return what runs and is this controller's to handle, as far as it knows: the database is not
        asked.
        """
        rows = (known.row for known in self._cache)
        return [row for row in rows if row.status.phase is Phase.RUNNING and self.members.handles(row)]

    @property
    def is_busy(self) -> bool:
        """Whether a step is under way."""
        return any(known.running_step is not None for known in self._cache)

    def _tell(self, decision: Decision) -> None:
        """Log and count what became of operations, under the request that asked for it."""
        row, now = decision.situation.workspace, decision.situation.now
        before, after = row.status, decision.status
        if before.op_id == after.op_id and before.operation is after.operation:
            return
        about = {"workspace_id": str(row.id), "request_id": row.spec.request_id}
        if before.operation is not Operation.NONE and not isinstance(decision.plan, TakeOver):
            outcome = _outcome(decision.plan)
            took_s = 0.0 if before.op_started_at is None else (now - before.op_started_at).total_seconds()
            self._metrics.record_operation(before.operation, outcome, took_s)
            log.info("operation_ended", operation=before.operation, outcome=outcome, took_s=took_s, **about)
        if after.operation is not Operation.NONE:
            log.info("operation_began", operation=after.operation, op_id=str(after.op_id), **about)

    async def _follow(self, hints: AsyncIterator[frozenset[UUID]]) -> None:
        async for workspace_ids in hints:
            self._metrics.count_hints(max(len(workspace_ids), 1))
            self._wakeups.ring(everyone=not workspace_ids)
            if len(self._own(workspace_ids)) < len(workspace_ids):
                self.members.doubt()


@dataclass(slots=True)
class Pass:
    """One pass: when it began, whom it is about, what was seen, and what it came to."""

    began: float
    now: datetime
    """The database's time."""
    members: Members
    chosen: Sequence[KnownWorkspace]
    looks: Looks | CloseLooks
    swept: Mapping[UUID, ArchiveLook]
    is_of_everybody: bool = False
    written: int = 0
    refused: int = 0

    def batches(self, size: int) -> Iterator[Sequence[KnownWorkspace]]:
        return (self.chosen[start : start + size] for start in range(0, len(self.chosen), size))


def _outcome(planned: Plan) -> str:
    if isinstance(planned, Complete):
        return "completed"
    return "abandoned" if isinstance(planned, Abandon) else "failed"


def _change(decision: Decision, actor: str) -> Change:
    row, events = decision.situation.workspace, tuple(decision.events(actor))
    change = Change(row.id, decision.status, events, is_quiet=decision.is_quiet)
    if not decision.depends_on_request:
        return change
    return replace(change, revision=row.spec.revision, recover_at=row.spec.recover_at)
