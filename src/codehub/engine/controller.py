"""The workspace controller: observe, judge, plan, execute, persist, over and over. It decides nothing itself; the core does."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import structlog

from codehub.core.decide import Decision, Situation, decide
from codehub.core.membership import Member
from codehub.core.observation import Archive, Observation
from codehub.core.operations import Operation, Phase
from codehub.core.plan import Abandon, Act, Begin, Complete, TakeOver
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.core.workspace import Workspace
from codehub.engine.membership import Membership
from codehub.engine.observe import ArchiveLook, CloseLooks, Looks, Observer, Pair
from codehub.engine.platforms import Platforms
from codehub.engine.step_runner import StepRunner
from codehub.engine.system import Cadence, System
from codehub.engine.wakeups import Wakeup, Wakeups
from codehub.engine.workspace_cache import WorkspaceCache
from codehub.ports.hints import Hints
from codehub.ports.metrics import Metrics, NoMetrics
from codehub.ports.store import Change, ControllerStore, StoreUnavailable

log = structlog.get_logger()


class WorkspaceController:
    """One controller process. Several may run side by side: compare-and-swap and op_id keep them right."""

    def __init__(
        self,
        name: str,
        store: ControllerStore,
        platforms: Platforms,
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
        self._platforms = platforms
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
        self._observer = Observer(platforms, system.clock)
        self._step_runner = StepRunner(
            platforms, store, self._observer, system, cadence, self._wakeups, metrics=self._metrics
        )
        backends = frozenset[str]({*platforms.instances, *platforms.storage})
        me = Member(system.identity.new_id(), host, backends)
        self.members = Membership(me, store, system.clock, changed=self._start_over)
        self._issued: dict[UUID, UUID] = {}
        self._restless: set[UUID] = set()
        self._changed: set[UUID] = set()
        self._judged: dict[UUID, Pair] = {}
        """What each was last judged by, in whatever pass: not what the last look at everybody saw, which may be older."""
        self._sweep_at = system.clock.monotonic() + cadence.sweep_s
        self._is_starting_up = True
        self._lost = 0

    async def run(self) -> None:
        """Run until cancelled. Whatever a pass raises is logged; the next one comes all the same."""
        for backend, instances in self._platforms.instances.items():
            self._system.tasks.spawn(self._step_runner.follow_events(instances), name=f"events of {backend}")
        self._system.tasks.spawn(self._step_runner.board.run(), name="progress")
        self._system.tasks.spawn(self.members.run(), name="membership")
        # Listening comes first: what was hinted before is seen by the first pass, what comes later rings.
        async with self._hints.listen() as hints:
            self._system.tasks.spawn(self._follow(hints), name="hints")
            wakeup = Wakeup(frozenset(), everyone=True)
            while True:
                await self._try_pass(wakeup)
                if wakeup.everyone:
                    self._looked_at = self._system.clock.monotonic()
                wakeup = await self._wakeups.wait(self._until_next_look())

    def _until_next_look(self) -> float:
        """Return how long until the next look at everybody. A pass over a few does not put it off, however many there are."""
        period_s = self._cadence.active_s if self._is_active else self._cadence.idle_s
        return self._looked_at + period_s - self._system.clock.monotonic()

    async def leave(self) -> None:
        """Say that this controller goes, so that others take over at once. For the very end: it does nothing afterwards."""
        await self.members.leave()
        await self._hints.send([row.id for row in self._cache if self.members.handles(row)])

    async def _try_pass(self, wakeup: Wakeup) -> None:
        try:
            await self.run_pass(wakeup)
        except StoreUnavailable as error:
            log.warning("store_unavailable", reason=str(error))
        except Exception:
            log.exception("pass_failed")

    async def run_pass(self, wakeup: Wakeup) -> int:
        """Run one pass and return how many rows it wrote."""
        began = self._system.clock.monotonic()
        self._lost = 0
        members = self.members.current
        refreshed = await self._cache.refresh()
        # Until a pass over them has come to its end: one that fails half way must not be the only one that knew.
        self._changed |= refreshed.changed
        focus = None
        if not wakeup.everyone:
            focus = {row.id for row in self._handled(wakeup.workspaces | self._changed)}
            if not focus:
                self._changed.clear()
                self.passed_at = self._system.clock.monotonic()
                return 0
        looks = await self._observe(focus)
        swept = await self._sweep() if focus is None else {}
        rows = self._choose(focus, {*self._changed, *swept}, looks)
        written = 0
        for start in range(0, len(rows), self._cadence.batch_max):
            batch = rows[start : start + self._cadence.batch_max]
            written += await self._judge_and_persist(batch, looks, swept, refreshed.now)
        if focus is None:
            self._is_starting_up = False
            self.members.note_pass(refreshed.now, members)
        self._changed.clear()
        self.passed_at = self._system.clock.monotonic()
        self._metrics.passed(self.passed_at - began, written=written, lost=self._lost)
        return written

    async def _judge_and_persist(
        self,
        rows: Sequence[Workspace],
        looks: Looks | CloseLooks,
        swept: Mapping[UUID, ArchiveLook],
        now: datetime,
    ) -> int:
        """Judge, plan and record, then do what was planned; return how many rows were written. The heart of a pass."""
        archives = {**swept, **await self._observer.look_at_archives(rows)}
        decisions = [
            self._decide(row, looks.of(row, archives.get(row.id, ArchiveLook())), now) for row in rows
        ]
        changed = [found for found in decisions if found.is_worth_writing]
        lost = await self._store.persist([_change(found, self.name) for found in changed])
        self._lost += len(lost)
        for found in changed:
            if found.situation.workspace.id not in lost:
                self._cache.note(found.situation.workspace.id, found.status)
                self._tell(found, now)
        for found in decisions:
            if found.situation.workspace.id not in lost:
                self._judged[found.situation.workspace.id] = (
                    found.situation.observation.instance,
                    found.situation.observation.volume,
                )
        for found in decisions:
            if found.situation.workspace.id in lost:
                self._wakeups.ring({found.situation.workspace.id})
            else:
                self._carry_out(found, now)
        return len(changed) - len(lost)

    def running(self) -> Sequence[Workspace]:
        """Return what runs and is this controller's to handle, as far as it knows: the database is not asked."""
        return [row for row in self._cache if row.status.phase is Phase.RUNNING and self.members.handles(row)]

    @property
    def is_busy(self) -> bool:
        """Whether a step is under way."""
        return self._step_runner.is_busy

    @property
    def _is_active(self) -> bool:
        return any(
            (row := self._cache.get(workspace_id)) is not None and row.status.operation is not Operation.NONE
            for workspace_id in self._restless
        )

    async def _observe(self, focus: Collection[UUID] | None) -> Looks | CloseLooks:
        if focus is None:
            return await self._observer.look()
        rows = self._handled(focus)
        if all(row.status.operation is Operation.STARTING for row in rows):
            return await self._observer.look_closely(rows)
        return await self._observer.look()

    async def _sweep(self) -> Mapping[UUID, ArchiveLook]:
        """Look at every archive now and then, and return those that are not as the rows say."""
        now = self._system.clock.monotonic()
        if now < self._sweep_at:
            return {}
        self._sweep_at = now + self._cadence.sweep_s
        looks = await self._observer.sweep_archives(self._cache)
        return {
            workspace_id: look
            for workspace_id, look in looks.items()
            if (row := self._cache.get(workspace_id)) is not None
            and row.status.conditions.archive_ready.is_true != (look.archive == Archive(committed=True))
        }

    def _choose(
        self, focus: Collection[UUID] | None, changed: Iterable[UUID], looks: Looks | CloseLooks
    ) -> Sequence[Workspace]:
        """Return whom to judge. What rests, and looks as it did, would be judged as before (contract 14)."""
        if focus is not None or isinstance(looks, CloseLooks):
            chosen: set[UUID] = set(focus or ())
        else:
            chosen = {*changed, *self._restless}
            chosen |= {row.id for row in self._cache if looks.pair(row) != self._judged.get(row.id)}
        return self._handled(chosen)

    def _handled(self, workspace_ids: Iterable[UUID]) -> Sequence[Workspace]:
        """Return those of these rows that are this controller's to handle."""
        known = (row for each in workspace_ids if (row := self._cache.get(each)) is not None)
        return [row for row in known if self.members.handles(row)]

    def _start_over(self) -> None:
        """Let go of what others handle by now, and judge everything else once more: some of it is new here."""
        for row in self._cache:
            if not self.members.handles(row):
                self._step_runner.let_go(row.id)
                self._restless.discard(row.id)
        self._judged.clear()
        self._wakeups.ring(())

    def _decide(self, row: Workspace, observation: Observation, now: datetime) -> Decision:
        finished = self._step_runner.finished(row)
        situation = Situation(
            row,
            observation,
            now,
            op_id=self._system.identity.new_id(),
            jitter=0.0 if finished is None else self._system.randomness.fraction(),
            is_mine=self._issued.get(row.id) == row.status.op_id,
            is_acting=self._step_runner.is_acting(row.id),
            is_queued=self._step_runner.is_queued(row),
            is_starting_up=self._is_starting_up,
            finished=finished,
        )
        return decide(situation, self._rules)

    def _carry_out(self, found: Decision, now: datetime) -> None:
        """Do what the decision asks for, now that it is recorded."""
        workspace_id = found.situation.workspace.id
        if found.look_at is None:
            self._restless.discard(workspace_id)
        else:
            self._restless.add(workspace_id)
        if isinstance(found.plan, Begin | TakeOver) and found.status.op_id is not None:
            self._issued[workspace_id] = found.status.op_id
        row = self._cache.get(workspace_id)
        if row is None:
            return
        if isinstance(found.plan, Act) and not found.records_outcome:
            self._step_runner.send(row, found.plan, found.situation.observation, now)
        else:
            self._step_runner.recall(row, found.plan)
        if found.is_urgent:
            self._wakeups.ring({workspace_id})

    def _tell(self, found: Decision, now: datetime) -> None:
        """Log and count what became of operations, under the request that asked for it."""
        before, after = found.situation.workspace.status, found.status
        if before.op_id == after.op_id and before.operation is after.operation:
            return
        about = {
            "workspace_id": str(found.situation.workspace.id),
            "request_id": found.situation.workspace.spec.request_id,
        }
        if before.operation is not Operation.NONE and not isinstance(found.plan, TakeOver):
            outcome = _outcome(found)
            took_s = 0.0 if before.op_started_at is None else (now - before.op_started_at).total_seconds()
            self._metrics.operated(before.operation, outcome, took_s)
            log.info("operation_ended", operation=before.operation, outcome=outcome, took_s=took_s, **about)
        if after.operation is not Operation.NONE:
            log.info("operation_began", operation=after.operation, op_id=str(after.op_id), **about)

    async def _follow(self, hints: AsyncIterator[frozenset[UUID]]) -> None:
        async for workspace_ids in hints:
            self._metrics.hinted(max(len(workspace_ids), 1))
            self._wakeups.hint(workspace_ids)
            if len(self._handled(workspace_ids)) < len(workspace_ids):
                self.members.doubt()


def _outcome(found: Decision) -> str:
    if isinstance(found.plan, Complete):
        return "completed"
    return "abandoned" if isinstance(found.plan, Abandon) else "failed"


def _change(decision: Decision, actor: str) -> Change:
    row, events = decision.situation.workspace, tuple(decision.events(actor))
    change = Change(row.id, decision.status, events, is_quiet=decision.is_quiet)
    if not decision.depends_on_request:
        return change
    return replace(change, revision=row.spec.revision, recover_at=row.spec.recover_at)
