"""Looks at several platforms: what one of them says, or does not say, takes nothing from what another
said.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from tests.simulation.loop import VirtualLoop
from tests.support.engine import ManualClock, Plane
from tests.support.workspaces import COMMITTED, KEY, SPEC, workspace

from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.messages import Code, Message
from codehub.core.observation import Archive, Instance, Unmarked, Unobserved, Volume
from codehub.core.operations import Operation, Phase
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.engine.backends import Backends
from codehub.engine.observe import ArchiveLook, Observer
from codehub.ports.backends import MarkMissing
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home

T = TypeVar("T")
_A_DAY_S = 86400.0
MARK = Message(Code.MARK_OF_ENGINE, {"name": "codehub-x"})


class Shelf(MemoryStorage):
    """Archives that are told or not, after so many seconds; `asked` counts how often somebody wanted to
    know.
    """

    def __init__(self, answers_after_s: Callable[[], float]) -> None:
        super().__init__(now=ManualClock().now, identity=SystemIdentity())
        self._answers_after_s = answers_after_s
        self.asked = 0

    async def head_archive(self, archive_key: str) -> Archive | None:
        del archive_key
        await self._answer()
        return COMMITTED

    async def has_archives(self, workspace_id: UUID) -> bool:
        del workspace_id
        await self._answer()
        return True

    async def _answer(self) -> None:
        self.asked += 1
        await asyncio.sleep(self._answers_after_s())


def hole() -> Shelf:
    """A store that swallows every packet."""
    return Shelf(lambda: _A_DAY_S)


def observer(**stores: Shelf) -> Observer:
    return Observer(
        Backends({}, {StorageBackend[name.upper()]: store for name, store in stores.items()}), ManualClock()
    )


def rows(
    count: int, backend: StorageBackend, operation: Operation = Operation.ARCHIVING
) -> Sequence[Workspace]:
    row = workspace(Phase.STANDBY, operation=operation, archive_key=KEY)
    spec = replace(row.spec, storage_backend=backend)
    return [replace(row, id=uuid4(), spec=spec) for _ in range(count)]


def timed(looking: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Return what came of it, and how many seconds it took, in time that jumps."""
    loop = VirtualLoop()  # type: ignore[abstract]  # sockets and programs it has none
    done = loop.create_task(looking)
    ended: list[float] = []
    done.add_done_callback(lambda _: ended.append(loop.time()))
    loop.run_until(_A_DAY_S, stop=done.done)
    return done.result(), ended[0]


async def start_unhealthy(plane: Plane, backend: InstanceBackend) -> Workspace:
    row = await plane.get(await plane.create())
    volume_id = await plane.storage.provision(Home(row.id, SPEC.home_store_key))
    spec = InstanceSpec(
        row.id, SPEC.storage_backend, SPEC.home_store_key, SPEC.image_ref, SPEC.ide, SPEC.resources
    )
    await plane.instances.start(spec, volume_id)
    plane.instances.sicken(row.id)
    return replace(row, spec=replace(row.spec, instance_backend=backend))


async def test_failed_checks_are_counted_on_every_platform() -> None:
    here, there = Plane(), Plane()
    there.clock = here.clock
    local = await start_unhealthy(here, InstanceBackend.LOCAL_PROCESS)
    docker = await start_unhealthy(there, InstanceBackend.LOCAL_DOCKER)
    backends = Backends(
        {InstanceBackend.LOCAL_PROCESS: here.instances, InstanceBackend.LOCAL_DOCKER: there.instances}, {}
    )
    observer = Observer(backends, here.clock)
    for count in (1, 2, 3):
        looks = await observer.look()
        for row in (local, docker):
            assert looks.instance(row) == Instance(running=True, healthy=False, failed_checks=count)
        here.clock.seconds += 10


async def test_a_place_without_its_mark_is_known_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane()

    async def unmarked() -> Mapping[UUID, Volume]:
        raise MarkMissing(MARK)

    monkeypatch.setattr(plane.storage, "list_volumes", unmarked)
    looks = await Observer(Backends({}, {StorageBackend.LOCAL_DIR: plane.storage}), plane.clock).look()
    assert looks.volume(workspace()) == Unmarked(MARK)


def test_a_store_that_does_not_answer_costs_a_pass_one_wait_and_blinds_no_other_stores_rows() -> None:
    dead, living = hole(), Shelf(lambda: 1.0)
    looking = observer(local_dir=dead, docker_volume=living)
    lost, readable = rows(130, StorageBackend.LOCAL_DIR), rows(40, StorageBackend.DOCKER_VOLUME)
    looks, seconds = timed(looking.look_at_archives([*lost, *readable]))
    assert seconds == pytest.approx(10.0)
    assert all(looks[row.id] == ArchiveLook(Unobserved.UNREACHABLE) for row in lost)
    assert all(looks[row.id] == ArchiveLook(COMMITTED) for row in readable)
    assert dead.asked == 32


def test_a_deletion_asks_a_store_that_does_not_answer_once() -> None:
    dead = hole()
    looking = observer(local_dir=dead)
    looks, seconds = timed(looking.look_at_archives(rows(1, StorageBackend.LOCAL_DIR, Operation.DELETING)))
    assert (list(looks.values()), dead.asked) == (
        [ArchiveLook(Unobserved.UNREACHABLE, Unobserved.UNREACHABLE)],
        1,
    )
    assert seconds == pytest.approx(10.0)


def test_the_batches_of_a_pass_share_the_wait_and_the_next_pass_asks_again() -> None:
    dead = hole()
    looking = observer(local_dir=dead)

    async def passes() -> list[int]:
        asked = []
        for _ in range(2):
            await looking.look()
            for _ in range(3):
                await looking.look_at_archives(rows(2, StorageBackend.LOCAL_DIR))
            asked.append(dead.asked)
        return asked

    asked, seconds = timed(passes())
    assert asked == [2, 4]
    assert seconds == pytest.approx(20.0)


def test_a_store_that_is_slow_and_answers_is_waited_for() -> None:
    looks, seconds = timed(
        observer(local_dir=Shelf(lambda: 9.0)).look_at_archives(rows(130, StorageBackend.LOCAL_DIR))
    )
    assert set(looks.values()) == {ArchiveLook(COMMITTED)}
    assert seconds == pytest.approx(45.0)
