"""The shapes of wire.md that go out, for the OpenAPI document."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from codehub.core.access import Role, Scope
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.visibility import Visibility
from codehub.core.workspace import HealthStatus, InstanceBackend, ObservedStatus, StorageBackend

_MESSAGE = "Text in the language of whoever asks (`Accept-Language`; English, if codehub does not speak it)."
_CODE = "Which text it is. `Verbatim`: one that has no code, of a backend or of an older codehub."
_FACTS = "What the text says beside."


class UserShape(BaseModel):
    id: UUID
    username: str
    role: Role
    disabled: bool
    created_at: datetime


class LoggedIn(BaseModel):
    user: UserShape


class Used(BaseModel):
    used: int
    max: int


class RunningLimit(BaseModel):
    running: Used


class SessionShape(BaseModel):
    user: UserShape
    limits: RunningLimit


class TokenShape(BaseModel):
    id: UUID
    name: str
    scope: Scope
    expires_at: datetime | None
    created_at: datetime
    last_used_at: datetime | None


class TokenMade(BaseModel):
    id: UUID
    name: str
    scope: Scope
    expires_at: datetime | None
    token: str = Field(examples=["cht_…"])


class TokenList(BaseModel):
    items: list[TokenShape]
    next_cursor: None


class KeyShape(BaseModel):
    id: UUID
    kind: Literal["session", "token"]
    name: str | None
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class KeyList(BaseModel):
    items: list[KeyShape]
    next_cursor: None


class UserList(BaseModel):
    items: list[UserShape]
    next_cursor: None


class OwnerShape(BaseModel):
    id: UUID
    username: str


class ResourcesShape(BaseModel):
    memory_mb: int
    cpus: float
    pids: int
    disk_mb: int


class ConditionShape(BaseModel):
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = Field(description=_MESSAGE)
    code: str = Field(description=_CODE)
    facts: dict[str, Any] = Field(description=_FACTS)
    last_transition_time: datetime | None


class ConditionsShape(BaseModel):
    volume_ready: ConditionShape = Field(alias="storage.volume_ready")
    archive_ready: ConditionShape = Field(alias="storage.archive_ready")
    container_ready: ConditionShape = Field(alias="infra.container_ready")
    healthy: ConditionShape = Field(alias="policy.healthy")


class ErrorInfoShape(BaseModel):
    reason: str
    message: str = Field(description=_MESSAGE)
    code: str = Field(description=_CODE)
    facts: dict[str, Any] = Field(description=_FACTS)
    is_terminal: bool
    operation: Operation
    error_count: int
    context: dict[str, str]
    occurred_at: datetime


class HeldUpShape(BaseModel):
    reason: str
    message: str = Field(description=_MESSAGE)
    code: str = Field(description=_CODE)
    facts: dict[str, Any] = Field(description=_FACTS)
    since: datetime
    next_try_at: datetime | None


class ProgressShape(BaseModel):
    stage: Literal["archive", "verify", "restore", "pull"]
    done_bytes: int
    total_bytes: int | None
    bytes_per_second: float | None
    eta_seconds: float | None


class UsageShape(BaseModel):
    memory_mb: int | None
    cpu: float | None
    disk_mb: int | None
    at: datetime


class WorkspaceShape(BaseModel):
    """What is shown of a workspace, in this order: `render.py` takes each field from the row by its name."""

    id: UUID
    name: str
    description: str | None
    memo: str | None
    pinned_at: datetime | None
    owner: OwnerShape
    url: str = Field(description="Where people open it: at its own origin, if this installation has these.")
    path_url: str = Field(
        description=(
            "The same below the installation's own address: it leads to `url`, and serves programs with a "
            "token."
        )
    )
    revision: int
    image_ref: str
    ide: str
    resources: ResourcesShape
    instance_backend: InstanceBackend
    storage_backend: StorageBackend
    desired_state: DesiredState
    phase: Phase
    display: Literal["PENDING", "ARCHIVED", "STANDBY", "RUNNING", "ERROR", "DELETED", "DELETING"]
    observed_status: ObservedStatus
    health_status: HealthStatus
    operation: Operation
    op_id: UUID | None
    op_started_at: datetime | None
    held_up: HeldUpShape | None
    conditions: ConditionsShape
    archive_key: str | None
    error: ErrorInfoShape | None
    progress: ProgressShape | None
    usage: UsageShape | None
    tab_script: bool
    cross_port_access: bool
    standby_ttl_seconds: int | None
    archive_ttl_seconds: int | None
    last_access_at: datetime | None
    awake_until: datetime | None
    sleeps_at: datetime | None
    phase_changed_at: datetime | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    purge_at: datetime | None
    observed_at: datetime | None = Field(
        description=(
            "When it was last looked at, whether anything was new or not. It moves on by itself: neither "
            "`revision`, `updated_at` nor the stream follows it."
        )
    )


class WorkspaceList(BaseModel):
    items: list[WorkspaceShape]
    next_cursor: str | None


class PortShape(BaseModel):
    port: int = Field(examples=[3000])
    process: str | None = Field(
        description='What listens there calls itself. `"?"`: it does not say. Null: nothing listens.',
        examples=["node"],
    )
    url: str = Field(examples=["https://3000-0123456789abcdef0123.ws.example.net/"])
    visibility: Visibility
    expires_at: datetime | None = Field(description="When it is private again.")


class PortList(BaseModel):
    items: list[PortShape]


class EventShape(BaseModel):
    seq: int
    at: datetime
    kind: Literal["wish", "operation", "phase", "error", "recovery", "deletion"]
    before: str | None = Field(alias="from")
    after: str | None = Field(alias="to")
    actor: str
    reason: str = Field(description=_CODE)
    message: str = Field(description=_MESSAGE)
    facts: dict[str, Any] = Field(description=_FACTS)
    request_id: str | None


class EventList(BaseModel):
    items: list[EventShape]
    next_cursor: str | None


class NextShape(BaseModel):
    operation: Operation
    why: str = Field(description=_MESSAGE)
    reason: str = Field(description=_CODE)


class WaitsShape(BaseModel):
    reason: str = Field(description=_CODE)
    message: str = Field(description=_MESSAGE)
    facts: dict[str, Any] = Field(description=_FACTS)


class ActionShape(BaseModel):
    label: str
    method: Literal["POST", "DELETE"]
    path: str


class ExplainShape(BaseModel):
    phase: Phase
    desired_state: DesiredState
    operation: Operation
    next: NextShape
    waiting_for: str | None
    waits: WaitsShape | None
    since: datetime | None
    error: ErrorInfoShape | None
    actions: list[ActionShape]
    decisions: list[EventShape] = Field(max_length=5)


class Failure(BaseModel):
    code: str
    message: str
    details: Any


class ErrorShape(BaseModel):
    error: Failure


class Health(BaseModel):
    status: Literal["ok"]


class Readiness(BaseModel):
    ready: bool
    checks: dict[str, str]
