"""The lifecycle as one table: phases, wishes, and the operations that move a workspace one level up or
down.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What it is. Judged from conditions, never set by hand."""

    PENDING = "PENDING"
    ARCHIVED = "ARCHIVED"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"
    ERROR = "ERROR"
    DELETED = "DELETED"


class DesiredState(StrEnum):
    """What somebody wants. ERROR and DELETED can't be wished for; deletion is a request of its own."""

    PENDING = "PENDING"
    ARCHIVED = "ARCHIVED"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"


class Operation(StrEnum):
    """What is under way. One at a time."""

    NONE = "NONE"
    PROVISIONING = "PROVISIONING"
    CREATE_EMPTY_ARCHIVE = "CREATE_EMPTY_ARCHIVE"
    RESTORING = "RESTORING"
    STARTING = "STARTING"
    STOPPING = "STOPPING"
    ARCHIVING = "ARCHIVING"
    DELETING = "DELETING"


class Step(StrEnum):
    """One call of an actuator. Each can be cut off anywhere and run again."""

    PROVISION = "provision"
    ADOPT = "adopt"
    CREATE_EMPTY_ARCHIVE = "create_empty_archive"
    COPY_ARCHIVE = "copy_archive"
    RESTORE = "restore"
    START = "start"
    DELETE_INSTANCE = "delete_instance"
    ARCHIVE = "archive"
    DELETE_VOLUME = "delete_volume"
    PURGE_ARCHIVES = "purge_archives"


@dataclass(frozen=True, slots=True)
class Move:
    """An operation leads from one of these phases to that one, by these steps, in this order."""

    sources: tuple[Phase, ...]
    target: Phase
    steps: tuple[Step, ...]


LEVEL: Mapping[Phase, int] = {Phase.PENDING: 0, Phase.ARCHIVED: 5, Phase.STANDBY: 10, Phase.RUNNING: 20}

MOVES: Mapping[Operation, Move] = {
    Operation.PROVISIONING: Move((Phase.PENDING,), Phase.STANDBY, (Step.PROVISION,)),
    Operation.CREATE_EMPTY_ARCHIVE: Move((Phase.PENDING,), Phase.ARCHIVED, (Step.CREATE_EMPTY_ARCHIVE,)),
    Operation.RESTORING: Move((Phase.ARCHIVED,), Phase.STANDBY, (Step.RESTORE,)),
    Operation.STARTING: Move((Phase.STANDBY,), Phase.RUNNING, (Step.START,)),
    Operation.STOPPING: Move((Phase.RUNNING, Phase.STANDBY), Phase.STANDBY, (Step.DELETE_INSTANCE,)),
    Operation.ARCHIVING: Move((Phase.STANDBY,), Phase.ARCHIVED, (Step.ARCHIVE, Step.DELETE_VOLUME)),
    Operation.DELETING: Move(
        (Phase.PENDING, Phase.ARCHIVED),
        Phase.DELETED,
        (Step.DELETE_INSTANCE, Step.DELETE_VOLUME, Step.PURGE_ARCHIVES),
    ),
}

_P, _D, _O = Phase, DesiredState, Operation

# What comes next, without deletion and errors. NONE: the phase satisfies the wish.
NEXT: Mapping[Phase, Mapping[DesiredState, Operation]] = {
    _P.PENDING: {
        _D.PENDING: _O.NONE,
        _D.ARCHIVED: _O.CREATE_EMPTY_ARCHIVE,
        _D.STANDBY: _O.PROVISIONING,
        _D.RUNNING: _O.PROVISIONING,
    },
    _P.ARCHIVED: {
        _D.PENDING: _O.NONE,
        _D.ARCHIVED: _O.NONE,
        _D.STANDBY: _O.RESTORING,
        _D.RUNNING: _O.RESTORING,
    },
    _P.STANDBY: {
        _D.PENDING: _O.ARCHIVING,
        _D.ARCHIVED: _O.ARCHIVING,
        _D.STANDBY: _O.NONE,
        _D.RUNNING: _O.STARTING,
    },
    _P.RUNNING: {
        _D.PENDING: _O.STOPPING,
        _D.ARCHIVED: _O.STOPPING,
        _D.STANDBY: _O.STOPPING,
        _D.RUNNING: _O.NONE,
    },
}


def destination(phase: Phase, wish: DesiredState) -> Phase:
    """Return where a wish leads from here. PENDING asks to hold nothing
    active: whatever has files then rests in the archive.
    """
    if wish is DesiredState.PENDING and phase is not Phase.PENDING:
        return Phase.ARCHIVED
    return Phase(wish.value)
