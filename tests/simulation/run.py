"""One seed: an hour of faults and people, then calm, in which
everything must come to its end. Returns what it came to.
"""

import gc
import hashlib
import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from tests.simulation.commits import is_satisfied
from tests.simulation.faults import Strike
from tests.simulation.numbers import EPOCH, GRACE, TRASH_S
from tests.simulation.people import Person
from tests.simulation.truth import Broken
from tests.simulation.world import World

from codehub.core.amendments import By
from codehub.core.archives import work_counts_from
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.requests import Refused, is_purge_asked, is_purge_due
from codehub.core.workspace import Workspace
from codehub.ports.store import Recorded

PASSES = 1_650
_STORM_S_MAX = 5_400.0
_CALM_S = 900.0
# Long enough for two rounds of garbage collection.
_STILL_S = 220.0
_SWEEP_S = 150.0
_CHANCE_OF_CHATTER = 0.25
# So often may a person be asked about one home; and after an older dump: a
# stray instance, a lost volume, an unknown one, newer archives.
_QUESTIONS, _QUESTIONS_AFTER_ROLLBACK = 3, 6
_SILENT = 50  # logging.CRITICAL: nothing here is
_BY = By("person", verbatim("because the storm is over"))


@dataclass(frozen=True)
class Outcome:
    """What one seed came to."""

    seed: int
    broken: Broken | None
    passes: int
    strikes: tuple[Strike, ...]
    workspace_seconds: float
    history: tuple[Recorded, ...]
    digest: str
    in_cluster: bool = False


def run(
    seed: int,
    *,
    only: Collection[int] | None = None,
    passes: int = PASSES,
    trash_s: int | None = TRASH_S,
    in_cluster: bool = False,
) -> Outcome:
    """`trash_s`: as CODEHUB_TRASH_SECONDS; None is never. `in_cluster`: with what only a cluster does."""
    log_config = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_SILENT))
    was_collecting = gc.isenabled()
    gc.disable()  # what a seed leaves is collected after it; meanwhile it costs a tenth
    gc.freeze()  # and only what it leaves
    try:
        world = World(seed, only=only, trash_s=trash_s, in_cluster=in_cluster)
        _storm(world, passes)
        if world.broken is None:
            _calm(world)
        return replace(_outcome(world), in_cluster=in_cluster)
    finally:
        structlog.configure(**log_config)
        gc.collect()
        gc.unfreeze()
        if was_collecting:
            gc.enable()


def _storm(world: World, passes: int) -> None:
    dice = world.dice
    persons = []
    for number in range(dice.choice((1, 3, 4, 4, 4))):
        world.loop.call_soon(world.start_controller, f"controller-{number}")
    for number in range(2):
        world.loop.call_soon(world.start_api, f"api-{number}")
    for number in range(dice.choice((1, 2, 3))):
        user_id = world.new_id()
        name = f"user{number}"
        world.spawn(
            world.add_user(user_id, name),
            name="user",
        )
        person = Person(
            world, user_id, name, nasty=dice.random() < 0.5, workspaces_max=dice.choice((1, 2, 4))
        )
        persons.append(person)
        world.people.append(world.spawn(person.live(), name=name))
    misfortune = world.spawn(world.misfortunes.strike_on(), name="misfortune")
    if random.Random(f"chatter {world.seed}").random() < _CHANCE_OF_CHATTER:
        world.begin_chatter()

    def is_over() -> bool:
        return world.broken is not None or bool(world.loop.failures)

    world.loop.run_until(_STORM_S_MAX, stop=lambda: world.passes >= passes or is_over())
    for task in world.people:
        task.cancel()
    for person in persons:
        world.spawn(person.wish_once_more(), name="last wishes")
    world.loop.run_until(world.loop.time() + dice.uniform(0, 20), stop=is_over)
    world.crash_one()
    world.loop.run_until(world.loop.time() + dice.uniform(0, 20), stop=is_over)
    misfortune.cancel()


def _calm(world: World) -> None:
    """When faults stop, every workspace gets where it should be, or says
    why not; then nothing moves, and nothing is left over.
    """
    world.calm()
    loop = world.loop
    if world.is_restoring:
        loop.run_until(loop.time() + _CALM_S, stop=lambda: not world.is_restoring)
    _settle(world)
    loop.run_until(loop.time() + _SWEEP_S)  # what has vanished is noticed by then
    for _ in range(_QUESTIONS_AFTER_ROLLBACK if world.has_rolled_back else _QUESTIONS):
        _settle(world)
        _recover(world)
    world.is_still = True
    _settle(world)
    if any(_is_asked_by_the_trash(row, world.now()) for row in world.rows()):
        _recover(world)
        _settle(world)
    for row in world.rows():
        if not is_satisfied(row, world.now()):
            what = f"{row.status.phase} {row.status.operation} with the wish {row.spec.desired_state}: {row.status.error_info}"
            world.break_("liveness", row.id, what)
    reckon(world)


def reckon(world: World) -> None:
    """What has converged stays as it is, and nothing is left over."""
    loop = world.loop
    loop.run_until(
        loop.time() + _STILL_S,
        stop=lambda: (
            world.broken is not None or not any(_is_to_be_collected(world, row) for row in world.rows())
        ),
    )
    world.judges.commits.forbid_writes = True
    loop.run_until(loop.time() + _STILL_S, stop=lambda: world.broken is not None)
    _judge_leftovers(world)
    world.end_chatter()
    world.spawn(world.end(), name="end")
    world.judges.commits.forbid_writes = False
    loop.run_until(loop.time() + 60)
    if world.broken is None and (left := world.unfinished()):
        world.break_("no leaked task", None, ", ".join(left))


def _is_to_be_collected(world: World, row: Workspace) -> bool:
    """Whether its row tells of a volume beside its archive that garbage collection removes: its last
    question may have been answered just now, and that the volume is gone is written once.
    """
    is_recorded = row.status.conditions.volume_ready.is_present
    return row.status.phase is Phase.ARCHIVED and is_recorded and not _is_kept(world, row)


def _is_asked_by_the_trash(row: Workspace, now: datetime) -> bool:
    """Whether the end of its time in the trash has asked a person: that may come after their last answer."""
    return row.status.phase is Phase.ERROR and is_purge_due(row.spec, now) and not is_purge_asked(row.spec)


def _settle(world: World) -> None:
    """Wait until everybody is where they should be, or in ERROR; but not for ever."""
    deadline = world.loop.time() + _CALM_S
    while world.broken is None and world.loop.time() < deadline:
        world.loop.run_until(world.loop.time() + 25, stop=lambda: world.broken is not None)
        now = world.now()
        if all(row.status.phase is Phase.ERROR or is_satisfied(row, now) for row in world.rows()):
            return


def _recover(world: World) -> None:
    """A person recovers whatever is in ERROR, and asks again until it is
    accepted; at the limit, by stopping something else first.
    """

    async def recover(row: Workspace) -> None:
        while world.store._workspaces[row.id].status.phase is Phase.ERROR:
            ruled = await world.request(lambda service: service.recover(row.id, _BY, accept_loss=True))
            if ruled is not None and not isinstance(ruled.ruling, Refused):
                return
            if ruled is not None:
                await stop_another(row)
            await world.sleep(5)

    async def stop_another(row: Workspace) -> None:
        for other in world.rows():
            is_mine = other.spec.owner_user_id == row.spec.owner_user_id
            if is_mine and other.status.phase is Phase.RUNNING:
                await world.request(lambda service: service.set_wish(other.id, DesiredState.STANDBY, _BY))  # noqa: B023
                return

    asked = [
        world.spawn(recover(row), name="recover") for row in world.rows() if row.status.phase is Phase.ERROR
    ]
    world.loop.run_until(world.loop.time() + _CALM_S, stop=lambda: all(task.done() for task in asked))
    world.loop.run_until(world.loop.time() + 30)


def _judge_leftovers(world: World) -> None:
    """No orphan after garbage collection: what lies there is what a
    workspace needs, or what is left of a forgotten one.
    """
    rows = world.store._workspaces
    for key, archive in world.storage._objects.items():
        workspace_id = world.owner_of(key)
        status = rows[workspace_id].status
        is_old = world.now() + world.skew - archive.modified_at > GRACE + timedelta(seconds=200)
        if archive.committed:
            is_old &= world.judges.was_replaced_before(rows[workspace_id], key, _STILL_S)
        is_needed = key == status.archive_key or str(status.op_id) in key or status.phase is Phase.ERROR
        # While the archive itself is missing, an older one may be the best that is left.
        is_spare = status.archive_key is not None and status.archive_key not in world.storage._objects
        if is_old and not is_needed and not is_spare:
            world.break_("no orphan", workspace_id, f"nobody needs {key}")
    forgotten = {
        row.id
        for row in world.rows()
        if row.spec.forgotten_at is not None and not is_purge_due(row.spec, world.now())
    }
    for workspace_id in world.storage._disks.keys() - forgotten:
        # In PENDING a volume that nobody knows may be a home that came back: the next start finds
        # it. And one that somebody worked in before an older dump was restored stays until a
        # person says what to do with it, as does one whose identity is lost.
        row = rows[workspace_id]
        is_used = row.status.phase in (Phase.PENDING, Phase.STANDBY, Phase.RUNNING)
        if not is_used and not _is_kept(world, row):
            world.break_("no orphan", workspace_id, f"a volume in {row.status.phase}")
    for workspace_id in world.instances._instances.keys() - forgotten:
        row = rows[workspace_id]
        # What runs on a home that stays, stays with it.
        is_kept = _is_worked_on_since_deletion(world, row) or _has_lost_its_identity(world, row)
        if row.status.phase is not Phase.RUNNING and not is_kept:
            world.break_("no orphan", workspace_id, f"an instance in {row.status.phase}")


def _is_kept(world: World, row: Workspace) -> bool:
    return (
        _is_worked_on_since_deletion(world, row)
        or (world.has_rolled_back and _is_worked_on(world, row))
        or _has_lost_its_identity(world, row)
        or _may_be_the_last_copy(world, row)
    )


def _may_be_the_last_copy(world: World, row: Workspace) -> bool:
    """Whether it was restored from an archive that is gone: contract 11 keeps that until a person speaks."""
    disk = world.storage._disks.get(row.id)
    if disk is None or disk.volume_id is None or is_purge_asked(row.spec):
        return False
    return disk.made_from is not None and disk.made_from not in world.storage._objects


def _is_worked_on(world: World, row: Workspace) -> bool:
    disk = world.storage._disks.get(row.id)
    return disk is not None and disk.volume_id is not None and disk.files != disk.as_made


def _has_lost_its_identity(world: World, row: Workspace) -> bool:
    """Whether its home is there without saying which it is: that
    stays until a person gives up this very one, or asks for a purge.
    """
    disk = world.storage._disks.get(row.id)
    if disk is None or disk.former_id in (None, row.status.home_ctx.replaces):
        return False
    return not is_purge_asked(row.spec)


def _is_worked_on_since_deletion(world: World, row: Workspace) -> bool:
    """Whether the end of the trash's time must leave it: somebody worked on it after its
    deletion, and nobody asked for a purge. It was forgotten, or a dump that was restored knows
    nothing of the work; any other deletion has archived it, and is over.
    """
    spec = row.spec
    if spec.deleted_at is None or is_purge_asked(spec) or not _is_worked_on(world, row):
        return False
    if spec.forgotten_at is None and not world.has_rolled_back:
        return False
    written_at = world.storage._disks[row.id].written_at
    return written_at is not None and written_at > work_counts_from(spec.deleted_at)


def _outcome(world: World) -> Outcome:
    if world.broken is not None:
        world.abandon()
    if world.broken is None and world.loop.failures:
        world.break_("no task fails", None, repr(world.loop.failures[0]))
    seconds = sum((world.now() - row.created_at).total_seconds() for row in world.rows())
    history = tuple(world.store._history)
    history_text = "\n".join(
        f"{(record.at - EPOCH).total_seconds():.6f} {record.workspace_id} {record.event.kind} {record.event.after} {record.event.actor}"
        for record in history
    )
    digest = hashlib.sha256(f"{history_text}\n{world.passes}\n{world.faults.strikes}".encode()).hexdigest()
    return Outcome(
        world.seed, world.broken, world.passes, tuple(world.faults.strikes), seconds, history, digest
    )
