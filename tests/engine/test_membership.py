"""Workspaces that change hands: what another controller has begun is gone on with, whenever it is learnt that it has gone."""

import asyncio

import pytest
from tests.support.engine import BY, EVERYONE, Plane, breathe

from codehub.adapters.system.machine import SystemIdentity
from codehub.core.membership import Member, Members, handler_of
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Workspace
from codehub.engine.controller import Controller
from codehub.engine.membership import ALIVE_S


def one_who_takes_over(row: Workspace, mine: Controller) -> Member:
    """Return a member to whom this row goes as soon as it joins."""
    me = mine.members.me
    while True:
        other = Member(SystemIdentity().new_id(), me.host, me.backends)
        if handler_of(row, {me.id: me, other.id: other}) == other.id:
            return other


async def test_what_comes_back_in_the_middle_of_a_pass_is_gone_on_with() -> None:
    plane = Plane()
    mine, theirs = plane.controller("mine"), plane.controller("theirs")
    workspace_id = await plane.create()
    await plane.settle(mine)
    row = await plane.get(workspace_id)
    theirs.members.me = one_who_takes_over(row, mine)
    await theirs.members.beat()
    await mine.members.beat()
    await theirs.members.beat()
    await plane.service.set_wish(workspace_id, DesiredState.STANDBY, BY)
    await theirs.run_pass(EVERYONE)
    await mine.run_pass(EVERYONE)  # which hears of it, and leaves it to them
    assert (await plane.get(workspace_id)).status.operation is Operation.STOPPING

    busy = await plane.make("busy", DesiredState.STANDBY)
    while not mine.members.handles(busy):
        busy = await plane.make(f"busy {busy.id}", DesiredState.STANDBY)
    plane.clock.seconds += ALIVE_S + 1  # in which nothing was heard of them

    async def beat(point: str) -> None:
        if point == "persist.before_commit":
            plane.hook = None
            await mine.members.beat()

    plane.hook = beat
    await mine.run_pass(EVERYONE)
    assert mine.members.handles(row)
    await plane.settle(mine)
    assert (await plane.get(workspace_id)).status.phase is Phase.STANDBY
    await plane.close()


async def test_a_step_that_is_let_go_before_it_has_begun_can_be_done_later() -> None:
    plane = Plane()
    controller = plane.controller()
    workspace_id = await plane.create()
    await controller.run_pass(EVERYONE)
    await controller.run_pass(EVERYONE)
    controller._crew.let_go(workspace_id)
    await breathe()
    assert not controller.is_busy
    await plane.settle(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    await plane.close()


async def test_a_beat_that_fails_unexpectedly_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane()
    members, beats = plane.controller().members, 0

    async def beat(*_: object, **__: object) -> Members:
        nonlocal beats
        beats += 1
        if beats == 1:
            raise RuntimeError("two wanted the same rows the other way round")
        return {}

    monkeypatch.setattr(plane.store, "beat", beat)
    beating = asyncio.ensure_future(members.run())
    for _ in range(2):
        members.doubt()
        await breathe()
    beating.cancel()
    assert beats == 2
    await plane.close()
