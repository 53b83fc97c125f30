"""The schema's rules in Python: which rows are idle, and which violate a constraint. A test compares them."""

from collections.abc import Iterator
from datetime import datetime

from codehub.core.idle import idle_wish
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Spec, Status, Workspace

_STANDBY_TTL_S_MIN = 10


def is_idle(workspace: Workspace, now: datetime) -> bool:
    return idle_wish(workspace, now) is not None


def contradictions(workspace: Workspace) -> Iterator[str]:
    """Yield the names of the constraints that this row would break."""
    for rules in (_of_spec(workspace.spec), _of_status(workspace.status)):
        for name, holds in rules:
            if not holds:
                yield name
    key = workspace.status.archive_key
    if key is not None and not (key.startswith(f"{workspace.id}/") and key.endswith("/home.tar.zst")):
        yield "workspaces_archive_key_is_its_own"


def _of_spec(spec: Spec) -> Iterator[tuple[str, bool]]:
    standby_ttl, archive_ttl = spec.standby_ttl_seconds, spec.archive_ttl_seconds
    is_deleted = spec.deleted_at is not None
    yield "workspaces_name_not_empty", 1 <= len(spec.name) <= 255  # noqa: PLR2004  # varchar(255)
    yield "workspaces_standby_ttl", standby_ttl is None or standby_ttl >= _STANDBY_TTL_S_MIN
    yield "workspaces_archive_ttl", archive_ttl is None or archive_ttl >= 0
    yield "workspaces_revision", spec.revision >= 1
    yield "workspaces_purge_time_has_deletion", spec.purge_at is None or is_deleted
    yield "workspaces_forgotten_is_deleted", spec.forgotten_at is None or is_deleted
    yield "workspaces_one_choice", not (spec.recover_accepts_loss and spec.recover_choice is not None)
    yield "workspaces_deletion_wishes_pending", not is_deleted or spec.desired_state is DesiredState.PENDING


def _of_status(status: Status) -> Iterator[tuple[str, bool]]:
    is_none, is_error = status.operation is Operation.NONE, status.phase is Phase.ERROR
    has_terminal = status.error_info is not None and status.error_info.is_terminal
    has_clock = status.op_started_at is not None
    yield "workspaces_version", status.version >= 0
    yield "workspaces_error_count", status.error_count >= 0
    yield "workspaces_operation_is_claimed", is_none or (status.op_id is not None and has_clock)
    yield "workspaces_no_operation_no_clock", not is_none or (not has_clock and status.retry_at is None)
    yield "workspaces_only_operations_are_held_up", not is_none or status.held_up is None
    yield "workspaces_error_has_no_operation", not is_error or is_none
    yield "workspaces_error_is_terminal", is_error == has_terminal
