"""A workspace: what people set (Spec, written by the API alone) and
what was seen (Status, written by the controller alone).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from uuid import UUID

from codehub.core.conditions import INITIAL, Conditions
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.messages import Message
from codehub.core.operations import DesiredState, Operation, Phase

IMAGE_REF = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$"
IMAGE_REF_LENGTH_MAX = 512


class InstanceBackend(StrEnum):
    LOCAL_PROCESS = "local-process"
    LOCAL_DOCKER = "local-docker"
    K8S = "k8s"


class StorageBackend(StrEnum):
    LOCAL_DIR = "local-dir"
    DOCKER_VOLUME = "docker-volume"
    K8S_PVC = "k8s-pvc"
    OBJECT_STORE = "object-store"

    @classmethod
    def _missing_(cls, value: object) -> "StorageBackend | None":
        """Take `minio`, as the seeds name it, for what it is here."""
        return cls.OBJECT_STORE if value == "minio" else None


class RecoverChoice(StrEnum):
    """What a person chooses with a recovery, where there is something to
    choose from. It counts for the error that it answers.
    """

    NEWEST = "newest"
    """Go on with the newest archive that is there."""
    ADOPT = "adopt"
    """Go on with the volume that is there, whose identity is lost."""


class ObservedStatus(StrEnum):
    """The phase's resources alone, without health."""

    PENDING = "PENDING"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"
    DELETED = "DELETED"


class HealthStatus(StrEnum):
    OK = "OK"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Resources:
    """What an instance may use at most."""

    memory_mb: int = 2048
    cpus: float = 2.0
    pids: int = 1024
    disk_mb: int = 20_480
    """Of its home. Enforced where the filesystem of the homes can (project quota), else measured and
    shown.
    """


@dataclass(frozen=True, slots=True)
class HomeCtx:
    """What is known of the home: which volume it is, which archive it
    came from, whether it may hold what no archive holds.
    """

    volume_id: str | None = None
    restore_marker: str | None = None
    dirty: bool = False
    given_up_at: datetime | None = None
    """Until when a person gave up the archives that are newer than the row's.
    What was chosen instead is then committed as the newest.
    """
    replaces: str | None = None
    """What a volume bears that has lost its identity, and whose files a
    person gave up. No other such volume is replaced or deleted.
    """


# What people may set beside a wish: a change of it is a line of the history.
_SETTING: Mapping[str, bool] = {"is_setting": True}


@dataclass(frozen=True, slots=True)
class Spec:
    """What people set. The API's columns: each field is one,
    and the store reads from its type how it is kept.
    """

    owner_user_id: UUID
    name: str = field(metadata=_SETTING)
    image_ref: str = field(metadata=_SETTING)
    ide: str = field(metadata=_SETTING)
    instance_backend: InstanceBackend
    storage_backend: StorageBackend
    home_store_key: str
    standby_ttl_seconds: int | None = field(metadata=_SETTING)
    archive_ttl_seconds: int | None = field(metadata=_SETTING)
    description: str | None = field(default=None, metadata=_SETTING)
    memo: str | None = field(default=None, metadata=_SETTING)
    pinned_at: datetime | None = field(default=None, metadata=_SETTING)
    """Since when it is at the top of lists."""
    tab_script: bool = field(default=True, metadata=_SETTING)
    """Whether our script goes into the pages of its IDE."""
    cross_port_access: bool = field(default=False, metadata=_SETTING)
    """Whether a page at one of its ports may ask another, and its IDE show them in frames."""
    resources: Resources = field(default=Resources(), metadata=_SETTING)
    desired_state: DesiredState = DesiredState.RUNNING
    deleted_at: datetime | None = None
    purge_at: datetime | None = None
    recover_at: datetime | None = None
    recover_accepts_loss: bool = False
    recover_choice: RecoverChoice | None = None
    recover_offered_key: str | None = None
    """Of taking the newest archive: which one that was, as far as anybody
    knew. None: it was known to be gone, or there was none.
    """
    asked_again_at: datetime | None = field(default=None, metadata=_SETTING)
    """When a person last wished again for what is held up: a try at once."""
    forgotten_at: datetime | None = None
    """When an admin gave up on its deletion, which a dead backend held up."""
    last_access_at: datetime | None = None
    awake_until: datetime | None = field(default=None, metadata=_SETTING)
    revision: int = 1
    request_id: str | None = None
    """Of the last request that changed any of this: what the controller does about it carries it on."""


SETTINGS = tuple(each.name for each in fields(Spec) if each.metadata.get("is_setting"))


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why an operation can't go on, and since when."""

    reason: ErrorReason
    message: Message
    since: datetime
    is_trying: bool = False
    """It is tried once more: until the outcome is recorded a step may be in flight, and so it moves."""


@dataclass(frozen=True, slots=True)
class Status:
    """What was seen and what is being done. The controller's columns, one each."""

    conditions: Conditions = INITIAL
    observed_at: datetime | None = None
    phase: Phase = Phase.PENDING
    phase_changed_at: datetime | None = None
    operation: Operation = Operation.NONE
    op_started_at: datetime | None = None
    op_id: UUID | None = None
    retry_at: datetime | None = None
    held_up: HeldUp | None = None
    version: int = 0
    archive_key: str | None = None
    home_ctx: HomeCtx = field(default_factory=HomeCtx)
    error_info: ErrorInfo | None = None
    error_count: int = 0
    restarts: tuple[datetime, ...] = ()
    previous_status: ObservedStatus | None = None


# An operation that begins has another op_id too: its start alone moves only where its clock stood still.
_substance = attrgetter(
    *(each.name for each in fields(Status) if each.name not in ("observed_at", "op_started_at", "version"))
)


def says_the_same(status: Status, other: Status) -> bool:
    """Whether they differ in nothing but when it was looked, for how
    long it was at work, and how often it was written.
    """
    return bool(_substance(status) == _substance(other))


@dataclass(frozen=True, slots=True)
class Workspace:
    """A row: who may write which half is decided by its type."""

    id: UUID
    spec: Spec
    status: Status
    created_at: datetime
    updated_at: datetime
    label: str = ""
    """What its own origin is named by (core/origins.py). The store makes it."""


def home_key(
    instance: InstanceBackend, storage: StorageBackend, owner_user_id: UUID, workspace_id: UUID
) -> str:
    """Return where the home of a new workspace lies: a directory of this
    machine, or a volume's name. Storage alone reads it.

    `object-store` is no volume of its own: it is the one that
    such instances usually have, and it never rests.
    """
    is_usual = storage is StorageBackend.OBJECT_STORE
    if storage is StorageBackend.LOCAL_DIR or (is_usual and instance is InstanceBackend.LOCAL_PROCESS):
        return f"users/{owner_user_id}/workspaces/{workspace_id}/home"
    return f"ws-{workspace_id}-home"


_RESOURCES: Mapping[Phase, ObservedStatus] = {
    Phase.PENDING: ObservedStatus.PENDING,
    Phase.ARCHIVED: ObservedStatus.PENDING,
    Phase.STANDBY: ObservedStatus.STANDBY,
    Phase.RUNNING: ObservedStatus.RUNNING,
    Phase.DELETED: ObservedStatus.DELETED,
}


def observed_status(status: Status) -> ObservedStatus:
    """Return the resources behind the phase. The database derives its column by the same rule."""
    if status.phase is not Phase.ERROR:
        return _RESOURCES[status.phase]
    seen = status.conditions
    if not seen.volume_ready.is_true:
        return ObservedStatus.PENDING
    return ObservedStatus.RUNNING if seen.container_ready.is_true else ObservedStatus.STANDBY


def health_status(status: Status) -> HealthStatus:
    return HealthStatus.ERROR if status.phase is Phase.ERROR else HealthStatus.OK


def display(workspace: Workspace) -> str:
    """Return the word people are shown: the phase, or DELETING while a deletion is open."""
    if workspace.spec.deleted_at is not None and workspace.status.phase is not Phase.DELETED:
        return "DELETING"
    return workspace.status.phase


def holdup(status: Status) -> HeldUp | None:
    """Return what holds its operation up while no step is in
    flight (spec §2.4); None if it moves, or there is none.
    """
    held_up = status.held_up
    return None if held_up is None or held_up.is_trying else held_up


def start_facts(spec: Spec) -> dict[str, str]:
    """Return what a start is made with that a person may have
    chosen wrongly: an error of a start remembers it.
    """
    return {"image_ref": spec.image_ref, "ide": spec.ide}


def is_outdated(error: ErrorInfo, spec: Spec) -> bool:
    """Whether what a start failed with was changed since: the error then says nothing about the next one."""
    return any(error.context.get(name, now) != now for name, now in start_facts(spec).items())


def is_condemned(status: Status) -> bool:
    """Whether the volume's deletion may have been asked for: the
    call may come late, and must not meet new files.

    From the write that stores its archive on, a volume is not used any more:
    nothing is started on it, and nobody is led to what a late start may have put
    there. A volume that was restored from that archive is another.
    """
    return status.archive_key is not None and status.home_ctx.restore_marker != status.archive_key


def is_adopting(status: Status) -> bool:
    """Whether the operation takes the volume that is there for the home. Any other
    that makes a volume begins without one, and with nothing unsaved.
    """
    is_making = status.operation in (Operation.PROVISIONING, Operation.RESTORING)
    return is_making and status.home_ctx.dirty and status.home_ctx.volume_id is not None


def is_as_restored(status: Status) -> bool:
    """Whether the row knows of nobody who used the volume since
    it was made from the archive that the row names.
    """
    home = status.home_ctx
    return status.archive_key is not None and home.restore_marker == status.archive_key and not home.dirty


def is_deleted(workspace: Workspace) -> bool:
    """Whether it is gone for everybody but those who may undelete or
    purge it. One that was undeleted is there at once.
    """
    return workspace.status.phase is Phase.DELETED and workspace.spec.deleted_at is not None


def counts_as_running(workspace: Workspace) -> bool:
    """Whether it takes one of its owner's places: from the wish RUNNING until its container is gone."""
    status = workspace.status
    container = status.conditions.container_ready
    if container.is_unknown:
        may_run = status.phase in (Phase.RUNNING, Phase.ERROR) or status.operation in (
            Operation.STARTING,
            Operation.STOPPING,
        )
    else:
        may_run = container.is_present
    return may_run or (
        workspace.spec.desired_state is DesiredState.RUNNING and status.phase is not Phase.ERROR
    )
