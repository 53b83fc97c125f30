"""Workspaces and looks for tests: a plain one of each, and words to vary them."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from codehub.core.archives import CommittedArchive
from codehub.core.conditions import NAMES, Condition, Conditions, Reason, Truth
from codehub.core.decide import Decision, Situation, decide
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.messages import verbatim
from codehub.core.observation import Archive, Instance, Observation, Unmarked, Unobserved, Volume
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.requests import Accepted, Refusal, Refused, Ruling
from codehub.core.workspace import (
    HeldUp,
    HomeCtx,
    InstanceBackend,
    Spec,
    Status,
    StorageBackend,
    Workspace,
    home_key,
)

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
WORKSPACE_ID = UUID("019a8b00-0000-7000-8000-000000000001")
OWNER_ID = UUID("019a8b00-0000-7000-8000-00000000000a")
OP_ID = UUID("019a8b00-0000-7000-8000-0000000000f0")
NEW_OP_ID = UUID("019a8b00-0000-7000-8000-0000000000f1")
KEY = f"{WORKSPACE_ID}/{OP_ID}/home.tar.zst"
SPEC = Spec(
    owner_user_id=OWNER_ID,
    name="demo",
    image_ref="codercom/code-server",
    ide="code-server",
    instance_backend=InstanceBackend.LOCAL_PROCESS,
    storage_backend=StorageBackend.LOCAL_DIR,
    home_store_key=home_key(InstanceBackend.LOCAL_PROCESS, StorageBackend.LOCAL_DIR, OWNER_ID, WORKSPACE_ID),
    standby_ttl_seconds=300,
    archive_ttl_seconds=86_400,
)
UNREACHABLE = Unobserved.UNREACHABLE
HEALTHY_INSTANCE = Instance(running=True, healthy=True)
UNHEALTHY_INSTANCE = Instance(running=True, healthy=False, failed_checks=9)
OUR_VOLUME = Volume("v1")
HALF_VOLUME = Volume(None)
FOREIGN_VOLUME = Volume("v2")
COMMITTED = Archive(committed=True)
HALF_ARCHIVE = Archive(committed=False)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def condition(status: Truth, reason: Reason) -> Condition:
    return Condition(status, reason, verbatim("as the test says"), ago(100))


READY = condition(Truth.TRUE, Reason.READY)
ABSENT = condition(Truth.FALSE, Reason.ABSENT)
NOT_READY = condition(Truth.FALSE, Reason.NOT_READY)
UNKNOWN = condition(Truth.UNKNOWN, Reason.UNREACHABLE)
FINE = condition(Truth.TRUE, Reason.HEALTHY)


def conditions(
    volume: Condition = ABSENT, archive: Condition = ABSENT, container: Condition = ABSENT
) -> Conditions:
    return Conditions(volume, archive, container, FINE)


def error(
    reason: ErrorReason = ErrorReason.TIMEOUT,
    *,
    at: datetime | None = None,
    operation: Operation = Operation.STARTING,
) -> ErrorInfo:
    return ErrorInfo(reason, verbatim("as the test says"), operation, 1, at or ago(50))


def held_up(
    reason: ErrorReason = ErrorReason.UNREACHABLE, *, since: datetime | None = None, is_trying: bool = False
) -> HeldUp:
    return HeldUp(reason, verbatim("as the test says"), since or ago(30), is_trying)


def workspace(
    phase: Phase = Phase.PENDING,
    wish: DesiredState = DesiredState.RUNNING,
    *,
    operation: Operation = Operation.NONE,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> Workspace:
    """Return a workspace in this phase with this wish; an
    operation began a second ago and was looked at just now.
    """
    under_way = operation is not Operation.NONE
    base = Status(
        phase=phase,
        phase_changed_at=ago(100),
        operation=operation,
        op_id=OP_ID,
        op_started_at=ago(1) if under_way else None,
        observed_at=ago(1),
    )
    return Workspace(
        id=WORKSPACE_ID,
        spec=replace(SPEC, desired_state=wish, **(spec or {})),
        status=replace(base, **status),
        created_at=ago(1000),
        updated_at=ago(100),
    )


def in_backends(
    instance: InstanceBackend, storage: StorageBackend, workspace_id: UUID, base: Spec = SPEC
) -> Spec:
    """Return such a spec as the API would make it for these backends."""
    return replace(
        base,
        instance_backend=instance,
        storage_backend=storage,
        home_store_key=home_key(instance, storage, base.owner_user_id, workspace_id),
    )


def home(volume_id: str | None = "v1", *, marker: str | None = None, dirty: bool = False) -> HomeCtx:
    return HomeCtx(volume_id, marker, dirty)


def observation(
    instance: Instance | Unobserved | None = None,
    volume: Volume | Unobserved | Unmarked | None = None,
    archive: Archive | Unobserved | None = None,
    archives_left: bool | Unobserved = Unobserved.NOT_LOOKED,
    archives: tuple[CommittedArchive, ...] | Unobserved = (),
) -> Observation:
    return Observation(instance, volume, archive, archives_left, archives)


CONDITION_NAMES = NAMES


@dataclass(frozen=True, slots=True)
class Drawn:
    """What chance gives to a decision."""

    op_id: UUID
    jitter: float


def decided(row: Workspace, look: Observation, now: datetime = NOW, **known: Any) -> Decision:
    """Return what a pass makes of it, by default of an operation of its own."""
    return decide(Situation(row, look, now, Drawn(NEW_OP_ID, 0.5), **{"is_mine": True, **known}))


def accepted(ruling: Ruling) -> Spec:
    assert isinstance(ruling, Accepted), ruling
    return ruling.spec


def refused(ruling: Ruling) -> Refusal:
    assert isinstance(ruling, Refused), ruling
    return ruling.code
