"""Crash proof: at every boundary between two effects of every
operation, whatever happens there, the end is the same.

The boundaries are taken from a run without faults, so that a new one can't be forgotten.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.support.engine import BY, EVERYONE, Crashed, Plane, breathe, process

from codehub.core.errors import ErrorReason
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import RecoverChoice
from codehub.engine.controller import WorkspaceController
from codehub.ports.archives import archive_key
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.store import StoreUnavailable

FILES = {"notes.txt": b"every byte", "deep/er": b"\x00\xff"}
Act = Callable[[Plane, UUID], Awaitable[object]]


def wishing(wanted: DesiredState) -> Act:
    async def act(plane: Plane, workspace_id: UUID) -> None:
        await plane.service.set_wish(workspace_id, wanted, BY)

    return act


async def delete(plane: Plane, workspace_id: UUID) -> None:
    await plane.service.delete(workspace_id, BY)


async def purge(plane: Plane, workspace_id: UUID) -> None:
    await plane.service.delete(workspace_id, BY, purge=True)


async def adopt(plane: Plane, workspace_id: UUID) -> None:
    await plane.service.recover(workspace_id, BY, choice=RecoverChoice.ADOPT)


async def choose_the_older_archive(plane: Plane, workspace_id: UUID) -> None:
    """A newer archive is there than the row names, and a person gave it up."""
    row = await plane.get(workspace_id)
    now = plane.clock.now()
    plane.storage.put_archive(archive_key(workspace_id, uuid4()), {"of": b"the newer"}, now)
    chosen = replace(row.status, home_ctx=replace(row.status.home_ctx, given_up_at=now))
    plane.store.roll_back({workspace_id: replace(row, status=chosen)})
    await plane.service.set_wish(workspace_id, DesiredState.STANDBY, BY)


P, S, R, A = DesiredState.PENDING, DesiredState.STANDBY, DesiredState.RUNNING, DesiredState.ARCHIVED
# What is proved: the operation, the wishes that lead up to it
# (with files written on the way), and what sets it off.
OPERATIONS: dict[str, tuple[tuple[DesiredState, ...], Act]] = {
    "PROVISIONING": ((P,), wishing(S)),
    "CREATE_EMPTY_ARCHIVE": ((P,), wishing(A)),
    "STARTING": ((P, S), wishing(R)),
    "STOPPING": ((P, R), wishing(S)),
    "ARCHIVING": ((P, R, S), wishing(A)),
    "ARCHIVING what nobody touched": ((P, R, A, S), wishing(A)),
    "RESTORING": ((P, R, A), wishing(S)),
    "PROVISIONING by adoption": ((P, R, S), adopt),
    "RESTORING by adoption": ((P, R, A, R, S), adopt),
    "RESTORING what was chosen instead of a newer archive": ((P, R, A), choose_the_older_archive),
    "DELETING": ((P, R, A), delete),
    "DELETING by purge": ((P, R, A, R), purge),
}


@dataclass(frozen=True)
class End:
    """How it ended: everything that must be the same whatever happened on the way."""

    phase: Phase
    operation: Operation
    error: ErrorReason | None
    error_count: int
    dirty: bool
    has_archive: bool
    files: object
    archived: object
    instances: tuple[int, int]
    volumes: int | tuple[int, int]


@asynccontextmanager
async def prepared(operation: str) -> AsyncIterator[tuple[Plane, UUID, WorkspaceController]]:
    """A plane in which only the operation is left to be set off."""
    plane = Plane()
    wishes, _act = OPERATIONS[operation]
    controller = plane.controller("first")
    try:
        workspace_id = await plane.create(wishes[0])
        await plane.converge(controller)
        for wanted in wishes[1:]:
            await plane.service.set_wish(workspace_id, wanted, BY)
            await plane.converge(controller)
            if wanted is R:
                for path, content in FILES.items():
                    plane.instances.write(workspace_id, path, content)
        if OPERATIONS[operation][1] is adopt:
            plane.storage.lose_identity(workspace_id)
            await plane.converge(controller)
        plane.points.clear()
        for counted in (
            plane.instances.started,
            plane.instances.deleted,
            plane.storage.made,
            plane.storage.destroyed,
        ):
            counted.clear()
        yield plane, workspace_id, controller
    finally:
        plane.hook = None
        plane.dead = {"first", "second"}
        await plane.close()


async def ending(plane: Plane, workspace_id: UUID, operation: str) -> End:
    process.set("the test")
    row = await plane.get(workspace_id)
    status = row.status
    made, destroyed = len(plane.storage.made), len(plane.storage.destroyed)
    return End(
        status.phase,
        status.operation,
        status.error_info.reason if status.error_info else None,
        status.error_count,
        status.home_ctx.dirty,
        status.archive_key is not None,
        plane.storage.files(workspace_id),
        plane.storage.archived_files(status.archive_key) if status.archive_key else None,
        (len(plane.instances.started), len(plane.instances.deleted)),
        # What was restored and not recorded is restored again, in its place.
        made - destroyed if operation.startswith("RESTORING") else (made, destroyed),
    )


async def undisturbed(operation: str) -> tuple[End, list[str]]:
    async with prepared(operation) as (plane, workspace_id, controller):
        process.set("first")
        await OPERATIONS[operation][1](plane, workspace_id)
        await plane.converge(controller)
        points = list(plane.points)
        return await ending(plane, workspace_id, operation), points


# What may happen at a boundary. Each gets the plane and the point, and may raise.
Fault = Callable[[Plane, UUID, str], Awaitable[None]]


async def crash(plane: Plane, _workspace_id: UUID, _point: str) -> None:
    plane.dead.add("first")
    raise Crashed


async def second_controller(plane: Plane, _workspace_id: UUID, _point: str) -> None:
    """A second controller comes and does three passes right here;
    then the first goes on as if nothing had happened.
    """
    other = plane.controller("second")
    was = process.get()
    process.set("second")
    for _ in range(3):
        await other.run_pass(EVERYONE)
        await breathe()
    process.set(was)


async def lost_swap(plane: Plane, workspace_id: UUID, _point: str) -> None:
    """Somebody else has written the row in between."""
    row = plane.store.dump()[workspace_id]
    status = replace(row.status, version=row.status.version + 1)
    plane.store.roll_back({workspace_id: replace(row, status=status)})


async def failure(_plane: Plane, _workspace_id: UUID, point: str) -> None:
    if is_actuator(point):
        raise ActionFailed("no")
    raise StoreUnavailable("no") if is_store(point) else BackendUnreachable("no")


async def outage(_plane: Plane, _workspace_id: UUID, point: str) -> None:
    raise StoreUnavailable("gone") if is_store(point) else BackendUnreachable("gone")


def is_actuator(point: str) -> bool:
    return point.endswith(("_effect", "_effects"))


def is_store(point: str) -> bool:
    return point.startswith(("load", "persist", "amend", "create", "touch"))


FAULTS: dict[str, Fault] = {
    "crash": crash,
    "second controller": second_controller,
    "lost swap": lost_swap,
    "failure": failure,
    "outage": outage,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_whatever_happens_at_a_boundary_the_end_is_the_same(operation: str, fault: str) -> None:
    expected, points = await undisturbed(operation)
    assert len(points) > 5
    for place, point in enumerate(points):
        ended = await disturbed(operation, place, FAULTS[fault])
        assert ended == expected, f"{fault} at boundary {place} of {operation}: {point}"


async def disturbed(operation: str, place: int, fault: Fault) -> End:
    async with prepared(operation) as (plane, workspace_id, controller):
        observation = 0

        async def hook(point: str) -> None:
            nonlocal observation
            observation += 1
            if observation == place + 1:
                await fault(plane, workspace_id, point)

        plane.hook = hook
        process.set("first")
        try:
            await ask(plane, workspace_id, OPERATIONS[operation][1])
            await until_settled(plane, controller)
        except Crashed:
            pass
        process.set("the test")
        await ask(plane, workspace_id, OPERATIONS[operation][1])
        await until_settled(plane, plane.controller("third"))
        return await ending(plane, workspace_id, operation)


async def ask(plane: Plane, workspace_id: UUID, act: Act) -> None:
    """Ask as a person would: again, if the answer was lost."""
    for _ in range(2):
        try:
            await act(plane, workspace_id)
        except StoreUnavailable:
            continue
        return


async def until_settled(plane: Plane, controller: WorkspaceController) -> None:
    """Settle as the loop would: a pass that fails is followed by the next."""
    while True:
        try:
            await plane.converge(controller)
        except (StoreUnavailable, BackendUnreachable):
            plane.clock.seconds += 2
        else:
            return


async def test_every_boundary_that_the_adapters_name_is_crossed() -> None:
    """A boundary that no operation here crosses would not be proved."""
    sources = Path(__file__).parents[2] / "src/codehub/adapters/memory"
    named = {
        point
        for name in ("instances.py", "storage.py")
        for point in re.findall(r'_faults\("([\w.]+)"\)', (sources / name).read_text())
    }
    crossed = set()
    for operation in OPERATIONS:
        crossed |= set((await undisturbed(operation))[1])
    left_to_gc = {
        "storage.list_archives",
        "storage.delete_archive.before_effect",
        "storage.delete_archive.after_effect",
    }
    assert named - crossed == left_to_gc
