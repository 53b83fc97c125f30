"""Forgetting: a deletion that something dead holds up in, whether an admin may give it up out. Nothing is written here, and no file goes.

What is left lies where it was until purge_at, and can be undeleted; afterwards whoever finds it collects it."""

from dataclasses import replace
from datetime import datetime

from codehub.core.errors import ErrorReason
from codehub.core.judge import unknown_conditions
from codehub.core.operations import Operation, Phase
from codehub.core.requests import Accepted, Refusal, Refused, Ruling, Unchanged
from codehub.core.workspace import Status, Workspace


def rule_forgetting(workspace: Workspace, now: datetime) -> Ruling:
    """Rule on forgetting: the controller then lets go of it, whatever its backends say or don't say."""
    spec, status = workspace.spec, workspace.status
    if spec.deleted_at is None:
        return Refused(
            Refusal.INVALID_STATE, "Only a deletion that is held up can be forgotten. Delete it first."
        )
    if status.phase is Phase.DELETED:
        return Refused(Refusal.WORKSPACE_NOT_FOUND, "The workspace is deleted.")
    if spec.forgotten_at is not None:
        return Unchanged()
    if not is_held_up(status):
        return Refused(
            Refusal.INVALID_STATE,
            "Nothing holds its deletion up: its backends answer. Wait, or purge it; if that fails, forget it.",
        )
    return Accepted(replace(spec, forgotten_at=now, revision=spec.revision + 1))


def is_held_up(status: Status) -> bool:
    """Whether a deletion can't go on: a backend does not answer, or DELETING itself has failed for good."""
    error = status.error_info
    if unknown_conditions(status.conditions, status.operation):
        return True
    if error is None:
        return False
    return error.reason is ErrorReason.UNREACHABLE or (
        status.phase is Phase.ERROR and error.operation is Operation.DELETING
    )
