"""Seeds: with faults everywhere every contract holds; the same seed gives
the same run anywhere; a dead controller is replaced in time.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.simulation.__main__ import KILLERS, kills
from tests.simulation.mutants import MUTANTS, alive
from tests.simulation.numbers import CADENCE
from tests.simulation.run import reckon, run
from tests.simulation.story import shrink, tell
from tests.simulation.world import World
from tests.support.workspaces import SPEC

from codehub.adapters.memory.contents import Disk
from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase

SEEDS = int(os.environ.get("CODEHUB_SEEDS", "200"))
SEEDS_IN_A_CLUSTER = SEEDS // 4
BATCH = 10
BY = By("person", verbatim("because"))
MUTANTS_MIN = 25


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_contract_holds(first: int) -> None:
    for seed in range(first, first + BATCH):
        outcome = run(seed)
        assert outcome.broken is None, tell(shrink(outcome), known=outcome)


@pytest.mark.parametrize("first", range(0, SEEDS_IN_A_CLUSTER, BATCH))
def test_every_contract_holds_where_things_end_slowly_and_watches_are_behind(first: int) -> None:
    for seed in range(first, first + BATCH):
        outcome = run(seed, in_cluster=True)
        assert outcome.broken is None, tell(shrink(outcome), known=outcome)


def test_every_contract_holds_where_the_trash_has_no_end() -> None:
    for seed in range(BATCH):
        outcome = run(seed, trash_s=None)
        assert outcome.broken is None, outcome.broken


def test_the_same_seed_gives_the_same_run_whatever_hashes_are() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", "from tests.simulation.run import run; print(run(7).digest)"],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": number},
        ).stdout
        for number in ("1", "2")
    }
    assert len(digests) == 1


RECORDED: dict[str, dict[str, str]] = json.loads(KILLERS.read_text())


@pytest.mark.parametrize("name", RECORDED)
def test_a_mutant_is_found(name: str) -> None:
    """One of its seeds is enough: any change to the engine changes what a seed means."""
    assert any(kills(name, int(seed)) for seed in RECORDED[name])


def test_every_mutant_has_a_seed_that_kills_it() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN
    assert set(RECORDED) == set(MUTANTS)
    assert all(RECORDED.values())


def test_a_failure_tells_its_story() -> None:
    name = "begin_starting_without_dirty"
    seed = int(next(iter(RECORDED[name])))
    with alive(name):
        outcome = run(seed)
        small = shrink(outcome)
    assert outcome.broken is not None
    story = tell(small, known=outcome)
    assert outcome.broken.contract in story
    assert f"make simulate SEED={seed}" in story
    assert len(small.strikes) <= len(outcome.strikes)


class Quiet(World):
    """A world in which nothing goes wrong: two controllers, and workspaces that are archived."""

    def __init__(self) -> None:
        super().__init__(1)
        self.faults.rates.clear()
        for name in ("first", "second"):
            self.loop.call_soon(self.start_controller, name)
        self.loop.call_soon(self.start_api, "api")
        user_id = self.new_id()
        self.spawn(self.add_user(user_id, "ann"), name="user")
        for number in range(12):
            spec = replace(
                SPEC, owner_user_id=user_id, name=f"ws-{number}", desired_state=DesiredState.ARCHIVED
            )
            self.spawn(self.store.create_workspace(self.new_id(), spec, []), name="create")
        self.loop.run_until(60)
        assert {row.status.phase for row in self.rows()} == {Phase.ARCHIVED}

    def wish_for_standby(self) -> None:
        for row in self.rows():
            self.spawn(self._wish(row.id), name="wish")

    async def _wish(self, workspace_id: UUID) -> None:
        await self.request(lambda service: service.set_wish(workspace_id, DesiredState.STANDBY, BY))

    def handlers(self) -> set[str]:
        """Return who has begun something since the wish."""
        begun = (record.event for record in self.store._history if record.event.after == Operation.RESTORING)
        return {event.actor for event in begun}

    def are_all_moving(self) -> bool:
        return all(
            row.status.operation is not Operation.NONE or row.status.phase is Phase.STANDBY
            for row in self.rows()
        )


def test_two_controllers_share_the_work() -> None:
    world = Quiet()
    world.wish_for_standby()
    world.loop.run_until(world.loop.time() + 5)
    assert world.handlers() == {"first", "second"}


def test_the_work_of_a_killed_controller_is_taken_over_within_15_seconds() -> None:
    world = Quiet()
    machine = world.controllers["first"]
    machine.is_dead = True
    world.spawn(machine.tasks.cancel_all(), name="killed")
    world.wish_for_standby()
    world.loop.run_until(world.loop.time() + 15)
    assert world.handlers() == {"second"}
    assert world.are_all_moving()


def test_the_work_of_a_controller_that_leaves_is_taken_over_at_once() -> None:
    world = Quiet()
    world.spawn(world.leave("first"), name="leave")
    world.loop.run_until(world.loop.time() + 1)
    world.wish_for_standby()
    world.loop.run_until(world.loop.time() + 4)  # a call to the API takes up to 2 s here
    assert world.handlers() == {"second"}
    assert world.are_all_moving()


def test_hints_without_an_end_put_off_no_look_at_everybody() -> None:
    world = Quiet()
    world.wish_for_standby()
    world.loop.run_until(world.loop.time() + 60)
    world.begin_chatter()
    world.loop.run_until(world.loop.time() + 30)
    lost = world.rows()[0]
    world.storage.lose_volume(lost.id)
    world.loop.run_until(world.loop.time() + 2 * CADENCE.idle_s)
    assert world.store._workspaces[lost.id].status.op_id != lost.status.op_id


@pytest.mark.parametrize(("given_up", "breaks"), [("lost", False), ("another", True), (None, True)])
def test_only_what_was_given_up_may_be_met_by_a_call_from_then(given_up: str | None, breaks: bool) -> None:
    world = Quiet()
    row = world.rows()[0]
    truth = world.judges.truth(row.id)
    truth.expected = {"notes": b"1"}
    truth.given_up.append((world.loop.time(), given_up))
    world.storage._disks[row.id] = Disk(None, {"notes": b"1"}, former_id="lost")
    del world.storage._disks[row.id]
    world.abandon()
    assert (world.broken is not None) is breaks


def test_what_garbage_collection_removes_is_gone_before_nothing_may_be_written() -> None:
    world = Quiet()
    archived = world.rows()[0]
    world.storage.leave_half_a_volume(archived.id, {})
    world.loop.run_until(world.loop.time() + 2 * CADENCE.idle_s)
    assert archived.id in world.storage.disks, "it was collected before its row told of it"
    reckon(world)
    assert world.broken is None, world.broken
    assert archived.id not in world.storage.disks
