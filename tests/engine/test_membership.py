"""Workspaces that change hands: what another controller has begun is
gone on with, whenever it is learnt that it has gone.
"""

import asyncio
from datetime import datetime
from uuid import UUID

import pytest
from tests.support.engine import BY, EVERYONE, Plane, breathe

from codehub.adapters.system.machine import SystemIdentity
from codehub.core.membership import Member, Members, handler_of
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Workspace
from codehub.engine.controller import WorkspaceController
from codehub.engine.membership import ALIVE_S
from codehub.engine.wakeups import Wakeup
from codehub.ports.store import StoreUnavailable


def member_that_takes_over(row: Workspace, mine: WorkspaceController) -> Member:
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
    await plane.converge(mine)
    row = await plane.get(workspace_id)
    theirs.members.me = member_that_takes_over(row, mine)
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
    await plane.converge(mine)
    assert (await plane.get(workspace_id)).status.phase is Phase.STANDBY
    await plane.close()


async def test_a_step_that_is_let_go_before_it_has_begun_can_be_done_later() -> None:
    plane = Plane()
    controller = plane.controller()
    workspace_id = await plane.create()
    await controller.members.beat()
    await controller.run_pass(EVERYONE)
    await controller.run_pass(EVERYONE)
    assert (controller.is_busy, plane.storage.made) == (True, [])
    theirs = plane.controller("theirs")
    theirs.members.me = member_that_takes_over(await plane.get(workspace_id), controller)
    await theirs.members.beat()
    await controller.members.beat()
    await breathe()
    assert (controller.is_busy, plane.storage.made) == (False, [])
    await theirs.leave()
    await controller.members.beat()
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    await plane.close()


async def test_who_leaves_lets_go_of_everything_and_is_heard_of_no_more() -> None:
    plane = Plane()
    leaving, staying = plane.controller("leaving"), plane.controller("staying")
    workspace_id = await plane.create()
    await leaving.members.beat()
    await leaving.run_pass(EVERYONE)
    await leaving.run_pass(EVERYONE)
    assert (leaving.is_busy, plane.storage.made) == (True, [])
    await leaving.leave()
    await leaving.members.beat()
    await leaving.run_pass(EVERYONE)
    await breathe()
    assert (leaving.is_busy, plane.storage.made) == (False, [])
    await staying.members.beat()
    assert staying.members.others == []
    await plane.converge(staying)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    await plane.close()


async def test_a_beat_that_is_under_way_brings_back_nobody_who_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plane, may_go_on = Plane(), asyncio.Event()
    members, beat = plane.controller().members, plane.store.beat

    async def late(me: Member, *, alive_s: float, looked_at: datetime | None) -> Members:
        await may_go_on.wait()
        return await beat(me, alive_s=alive_s, looked_at=looked_at)

    monkeypatch.setattr(plane.store, "beat", late)
    beating = asyncio.ensure_future(members.beat())
    await breathe()
    leaving = asyncio.ensure_future(members.leave())
    await breathe()
    may_go_on.set()
    await asyncio.gather(beating, leaving)
    assert await looks_of(plane) == {}
    await plane.close()


async def test_a_pass_that_is_under_way_begins_nothing_for_who_has_left() -> None:
    plane = Plane()
    leaving = plane.controller("leaving")
    await plane.create()
    await leaving.members.beat()
    await leaving.run_pass(EVERYONE)

    async def leave(point: str) -> None:
        if point == "persist.before_commit":
            plane.hook = None
            await leaving.leave()

    plane.hook = leave
    await leaving.run_pass(EVERYONE)
    await breathe()
    assert (leaving.is_busy, plane.storage.made) == (False, [])
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


async def looks_of(plane: Plane) -> dict[UUID, datetime | None]:
    """Return when each controller has said that it looked at all it handles."""
    return {record.member.id: record.looked_at for record in await plane.store.members()}


async def test_a_beat_tells_when_everybody_was_last_looked_at_and_no_other_write_does() -> None:
    plane = Plane()
    controller = plane.controller()
    workspace_id = await plane.create()
    await controller.members.beat()
    await plane.converge(controller)
    me, began_at = controller.members.me.id, plane.clock.now()
    version = (await plane.get(workspace_id)).status.version
    await controller.run_pass(EVERYONE)
    assert (await plane.get(workspace_id)).status.version == version
    assert await looks_of(plane) != {me: began_at}
    plane.clock.seconds += 5
    await controller.members.beat()
    assert await looks_of(plane) == {me: began_at}
    await plane.close()


async def test_a_pass_over_a_few_or_one_that_fails_is_no_look_at_everybody() -> None:
    plane = Plane()
    controller = plane.controller()
    workspace_id = await plane.create(DesiredState.STANDBY)
    await controller.members.beat()
    await plane.converge(controller)
    looked_at = plane.clock.now()
    plane.clock.seconds += 5
    await controller.run_pass(Wakeup(frozenset({workspace_id}), everyone=False))

    async def fail(point: str) -> None:
        if point == "persist.before_commit":
            raise StoreUnavailable

    plane.hook = fail
    await plane.service.set_wish(workspace_id, DesiredState.RUNNING, BY)
    with pytest.raises(StoreUnavailable):
        await controller.run_pass(EVERYONE)
    plane.hook = None
    await controller.members.beat()
    assert await looks_of(plane) == {controller.members.me.id: looked_at}
    await plane.close()


async def test_who_has_others_workspaces_now_has_not_looked_at_them_yet() -> None:
    plane = Plane()
    mine, theirs = plane.controller("mine"), plane.controller("theirs")
    await plane.create()
    await theirs.members.beat()
    await mine.members.beat()
    await mine.run_pass(EVERYONE)
    me = mine.members.me.id
    await mine.members.beat()
    assert (await looks_of(plane))[me] is not None

    plane.clock.seconds += ALIVE_S + 1  # in which nothing was heard of them
    news = await plane.make("news")
    while not mine.members.handles(news):
        news = await plane.make(f"news {news.id}")

    async def beat(point: str) -> None:
        if point == "persist.before_commit":
            plane.hook = None
            await mine.members.beat()  # which learns that they are gone

    plane.hook = beat
    await mine.run_pass(EVERYONE)  # which began when they were still there
    await mine.members.beat()
    assert (await looks_of(plane))[me] is None
    await mine.run_pass(EVERYONE)
    await mine.members.beat()
    assert (await looks_of(plane))[me] is not None
    await plane.close()
