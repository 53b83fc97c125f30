"""A step that is cancelled keeps its workspace until its thread
has ended: what it removes is never the next one's.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.instances import LocalWorld, become_healthy, command_of, new_spec
from tests.support.patience import until

from codehub.adapters.local import launch
from codehub.adapters.local.directories import remove_whole
from codehub.adapters.local.launch import Launcher
from codehub.adapters.local.processes import find_marked
from codehub.adapters.local.records import NOTHING_READABLE, Paths
from codehub.adapters.processes import Process

_TURNS = 20
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")


class Halt:
    """A piece of work that comes to a point and stands there until it may go on, as on a disk that stalls."""

    def __init__(self) -> None:
        self.has_come = threading.Event()
        self.may_go_on = threading.Event()

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def halted(*args: Any, **options: Any) -> Any:
            self.has_come.set()
            self.may_go_on.wait()
            return work(*args, **options)

        return halted


@pytest.fixture
def halt() -> Iterator[Halt]:
    made = Halt()
    yield made
    made.may_go_on.set()  # a thread that waits for ever would keep the process


async def cancelled_at(halt: Halt, step: "asyncio.Task[None]") -> None:
    """Cancel a step at the halt, as one is cancelled whose effect was seen, and give it time to end."""
    await until(halt.has_come.is_set)
    step.cancel()
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def test_a_start_after_a_cancelled_delete_is_listed_and_is_the_only_one(
    world: LocalWorld, halt: Halt, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = new_spec()
    workspace_id = await world.run(spec)
    with monkeypatch.context() as patched:
        patched.setattr("codehub.adapters.local.records.remove_whole", halt.before(remove_whole))
        deleting = asyncio.create_task(world.instances.delete(workspace_id))
        await cancelled_at(halt, deleting)
        assert await world.instances.status(workspace_id) is None, "by which others take it for deleted"
        assert not deleting.done()
        starting = asyncio.create_task(world.instances.start(spec, f"volume of {workspace_id}"))
        halt.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await deleting
        await starting
    await become_healthy(world.instances, workspace_id)
    await world.instances.start(spec, f"volume of {workspace_id}")
    assert len(servers_of(workspace_id)) == 1


@pytest.mark.parametrize(
    "work",
    [(Launcher, "_prepare"), pytest.param((launch, "own_home"), marks=AS_ROOT)],
    ids=["making room", "giving the home"],
)
async def test_a_cancelled_start_keeps_its_workspace_until_its_work_has_ended(
    world: LocalWorld, halt: Halt, monkeypatch: pytest.MonkeyPatch, work: tuple[Any, str]
) -> None:
    spec = new_spec()
    volume_id = await world.make_volume(spec)
    monkeypatch.setattr(*work, halt.before(getattr(*work)))
    starting = asyncio.create_task(world.instances.start(spec, volume_id))
    await cancelled_at(halt, starting)
    assert not starting.done()
    halt.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert await world.instances.status(spec.workspace_id) is None


def test_removing_leaves_a_record_that_was_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(tmp_path / "instance")
    (paths.runtime / "deep").mkdir(parents=True)
    paths.log.write_text("")
    with just_before_rmdir(paths.directory, lambda: paths.write(NOTHING_READABLE), monkeypatch):
        paths.remove()
    assert paths.read() == NOTHING_READABLE
    paths.remove()
    assert not paths.directory.exists()


@contextmanager
def just_before_rmdir(
    place: Path, happens: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let something happen once, before this directory is to go."""
    rmdir, waiting = os.rmdir, [happens]

    def late(path: Any, **options: Any) -> None:
        if Path(path) == place and waiting:
            waiting.pop()()
        rmdir(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", late)
        yield


def servers_of(workspace_id: UUID) -> list[Process]:
    """Return the IDEs that run for a workspace, whoever knows of
    them: not those that start one, whose words name it too.
    """
    processes = find_marked(frozenset({f"CODEHUB_WORKSPACE={workspace_id}".encode()}), owner=None)
    return [each for each in processes if b"python" in command_of(each).partition(b"\0")[0]]
