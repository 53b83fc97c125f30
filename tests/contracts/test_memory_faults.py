"""The memory adapter's hooks: a fault before a commit leaves
nothing, one after it leaves everything but the hint.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.support.stores import World, memory_world

from codehub.core.amendments import RulingRecord
from codehub.core.history import Event, EventKind
from codehub.core.messages import verbatim
from codehub.core.requests import Accepted
from codehub.core.workspace import Workspace
from codehub.ports.store import Change, StoreUnavailable

EVENT = Event(EventKind.WISH, None, "RUNNING", "ann", verbatim("asked for"))


class OneFault:
    """Fails once, at the point that is set."""

    def __init__(self) -> None:
        self.point: str | None = None
        self.passed: list[str] = []

    async def __call__(self, point: str) -> None:
        self.passed.append(point)
        if point == self.point:
            self.point = None
            raise StoreUnavailable(point)


@pytest.fixture
def fault() -> OneFault:
    return OneFault()


@pytest.fixture
async def world(fault: OneFault) -> World:
    made = memory_world(fault)
    await made.add_user()
    return made


async def persist(world: World, workspace: Workspace) -> None:
    await world.controller.persist([Change(workspace.id, replace(workspace.status, error_count=7), (EVENT,))])


async def amend(world: World, workspace: Workspace) -> None:
    await world.api.amend(
        workspace.id, lambda each, _now: RulingRecord(Accepted(replace(each.spec, memo="new")), (EVENT,))
    )


@pytest.mark.parametrize("write", [persist, amend])
@pytest.mark.parametrize(("moment", "is_written"), [("before_commit", False), ("after_commit", True)])
async def test_a_fault_cuts_a_write_off(
    world: World,
    fault: OneFault,
    write: Callable[[World, Workspace], Awaitable[None]],
    moment: str,
    is_written: bool,
) -> None:
    created = await world.create()
    fault.point = f"{'persist' if write is persist else 'amend'}.{moment}"
    fault.passed.clear()
    with pytest.raises(StoreUnavailable):
        await write(world, created)
    assert "hints.send" not in fault.passed
    assert (await world.api.get(created.id) != created) == is_written
    assert len(await world.api.history(created.id)) == is_written


async def test_a_fault_cuts_a_creation_off(world: World, fault: OneFault) -> None:
    workspace_id = uuid4()
    fault.point = "create_workspace.before_commit"
    with pytest.raises(StoreUnavailable):
        await world.api.create_workspace(workspace_id, world.spec(), [EVENT])
    assert await world.api.history(workspace_id) == []
    await world.api.create_workspace(workspace_id, world.spec(), [EVENT])


async def test_another_pass_that_slips_in_before_the_commit_wins() -> None:
    rivals: list[Workspace] = []

    async def slip_in(point: str) -> None:
        if point == "persist.before_commit" and rivals:
            await persist(contested, rivals.pop())

    contested = memory_world(slip_in)
    await contested.add_user()
    created = await contested.create()
    rivals.append(created)
    assert await contested.controller.persist([Change(created.id, created.status)]) == {created.id}
    assert (await contested.api.get(created.id)).status.error_count == 7
