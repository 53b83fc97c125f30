"""The whole state space of one workspace, and a world with actuators that
work. A point is small and hashable; times are relative.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import NamedTuple, TypeVar

from tests.support.workspaces import KEY, NOW, OP_ID, ago, decided, error, workspace

from codehub.core.archives import CommittedArchive
from codehub.core.conditions import HEALTHY, INITIAL, Condition, Truth
from codehub.core.decide import FinishedStep
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.judge import Verdict, judge
from codehub.core.messages import verbatim
from codehub.core.observation import Archive, Instance, Observation, Unobserved, Volume
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Act, Plan
from codehub.core.transitions import Done
from codehub.core.workspace import HomeCtx, Status, Workspace


class Thing(StrEnum):
    """What the world has of something. HALF: there, but not ready.
    OTHER (volumes): complete, but not the one the row names.
    """

    UNREACHABLE = "unreachable"
    ABSENT = "absent"
    HALF = "half"
    READY = "ready"


class Deletion(StrEnum):
    NONE = "none"
    TRASH = "trash"
    KEPT = "kept"
    """In the trash, until a person purges it."""
    PURGE = "purge"


class Answer(StrEnum):
    """What a person did after the error."""

    NONE = "none"
    RECOVERED = "recovered"
    ACCEPTED_LOSS = "accepted loss"


class Point(NamedTuple):
    volume: Thing
    container: Thing
    archive: Thing
    has_key: bool
    knows_volume: bool
    has_marker: bool
    dirty: bool
    operation: Operation
    wish: DesiredState
    deletion: Deletion
    phase: Phase
    error: ErrorReason | None = None
    answer: Answer = Answer.NONE
    deletion_is_newer: bool = False


UNHEALTHY = Condition(Truth.FALSE, "Timeout", verbatim("as the test says"))
HAZARDS = (
    ErrorReason.TIMEOUT,
    ErrorReason.DATA_LOST,
    ErrorReason.CONTAINER_WITHOUT_VOLUME,
    ErrorReason.ARCHIVE_CORRUPTED,
)


def healthy_points(operation: Operation, wish: DesiredState) -> Iterator[Point]:
    """Yield every point without an error. Of the stored phases, those that a rule can tell apart."""
    stored = (Phase.STANDBY, Phase.RUNNING, Phase.DELETED)
    for resources, deletion, phase in product(_resources(), Deletion, stored):
        is_odd = phase is Phase.DELETED and operation not in (Operation.NONE, Operation.DELETING)
        if not is_odd:
            yield Point(*resources, operation, wish, deletion, phase)


def error_points(reason: ErrorReason, wish: DesiredState) -> Iterator[Point]:
    """Yield every point in ERROR. ERROR has no operation, so there is none to vary."""
    for resources, deletion, answer, newer in product(_resources(), Deletion, Answer, (False, True)):
        if not (newer and deletion is Deletion.NONE):
            yield Point(*resources, Operation.NONE, wish, deletion, Phase.ERROR, reason, answer, newer)


def _resources() -> Iterator[tuple[Thing, Thing, Thing, bool, bool, bool, bool]]:
    for volume, container, archive, has_key, knows, marker, dirty in product(
        Thing, Thing, Thing, (False, True), (False, True), (False, True), (False, True)
    ):
        is_odd = (marker and not (knows and has_key)) or (archive is not Thing.ABSENT and not has_key)
        if not is_odd:
            yield volume, container, archive, has_key, knows, marker, dirty


def build(point: Point) -> tuple[Workspace, Observation]:
    """Return the row and the look that a point stands for."""
    error_info = error(point.error, at=ago(50)) if point.error else None
    deleted_at = None if point.deletion is Deletion.NONE else ago(20 if point.deletion_is_newer else 80)
    purge_at = {Deletion.TRASH: ago(-1000), Deletion.PURGE: deleted_at}.get(point.deletion)
    row = workspace(
        point.phase,
        point.wish,
        operation=point.operation,
        spec={
            "deleted_at": deleted_at,
            "purge_at": purge_at,
            "recover_at": None if point.answer is Answer.NONE else ago(20),
            "recover_accepts_loss": point.answer is Answer.ACCEPTED_LOSS,
        },
        archive_key=KEY if point.has_key else None,
        home_ctx=HomeCtx(
            "v1" if point.knows_volume else None, KEY if point.has_marker else None, point.dirty
        ),
        error_info=error_info,
        conditions=replace(INITIAL, healthy=HEALTHY if error_info is None else UNHEALTHY),
    )
    look = Observation(
        instance=_look(
            point.container,
            Instance(running=True, healthy=False, failed_checks=9),
            Instance(running=True, healthy=True),
        ),
        volume=_look(point.volume, Volume(None), Volume("v1")),
        archive=_look(point.archive, Archive(committed=False), Archive(committed=True)),
        archives_left=Unobserved.UNREACHABLE
        if point.archive is Thing.UNREACHABLE
        else point.archive is not Thing.ABSENT,
        archives=_archives(point.archive, has_key=point.has_key),
    )
    return row, look


def _archives(thing: Thing, *, has_key: bool) -> tuple[CommittedArchive, ...] | Unobserved:
    """The row's own alone. What an archive that it does not name leads to has tables of its own."""
    if thing is Thing.UNREACHABLE:
        return Unobserved.UNREACHABLE
    return (CommittedArchive(KEY, ago(500)),) if thing is Thing.READY and has_key else ()


T = TypeVar("T")


def _look(thing: Thing, half: T, ready: T) -> T | Unobserved | None:
    return {
        Thing.UNREACHABLE: Unobserved.UNREACHABLE,
        Thing.ABSENT: None,
        Thing.HALF: half,
        Thing.READY: ready,
    }[thing]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass at one point, with an actuator that works."""

    row: Workspace
    look: Observation
    plan: Plan
    status: Status
    then: Point

    @property
    def verdict(self) -> Verdict:
        return judge(self.row, self.look, NOW)


def run_pass(point: Point) -> Pass:
    row, look = build(point)
    decision = decided(row, look)
    world = point
    if isinstance(decision.plan, Act):
        world, done = _act(point, decision.plan.step)
        finished = FinishedStep(decision.plan, OP_ID, done)
        decision = decided(row, look, finished=finished)
        assert decision.records_outcome, point
    return Pass(row, look, decision.plan, decision.status, _point(world, decision.status))


def _act(point: Point, step: Step) -> tuple[Point, Done]:
    """Return the world after an actuator that works, and what it returned."""
    match step:
        case Step.PROVISION | Step.ADOPT:
            return point._replace(volume=Thing.READY), Done(volume_id="v1")
        case Step.RESTORE:
            return point._replace(volume=Thing.READY), Done(volume_id="v1", restore_marker=KEY)
        case Step.ARCHIVE | Step.CREATE_EMPTY_ARCHIVE | Step.COPY_ARCHIVE:
            return point._replace(archive=Thing.READY), Done(archive_key=KEY)
        case Step.START:
            return point._replace(container=Thing.READY), Done()
        case Step.DELETE_INSTANCE:
            return point._replace(container=Thing.ABSENT), Done()
        case Step.DELETE_VOLUME:
            return point._replace(volume=Thing.ABSENT), Done()
        case Step.PURGE_ARCHIVES:
            return point._replace(archive=Thing.ABSENT), Done()


def _point(world: Point, status: Status) -> Point:
    """Return where the pass has led, in the same relative terms."""
    error_info: ErrorInfo | None = status.error_info
    is_new = error_info is not None and error_info.occurred_at == NOW
    return world._replace(
        has_key=status.archive_key is not None,
        archive=world.archive if status.archive_key is not None else Thing.ABSENT,
        knows_volume=status.home_ctx.volume_id is not None,
        has_marker=status.home_ctx.restore_marker is not None,
        dirty=status.home_ctx.dirty,
        operation=status.operation,
        phase=status.phase,
        error=error_info.reason if error_info else None,
        answer=Answer.NONE if is_new or error_info is None else world.answer,
        deletion_is_newer=world.deletion_is_newer and not is_new,
    )
