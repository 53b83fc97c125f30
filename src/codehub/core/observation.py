"""What one look at the backends brought back for one workspace. Absence and blindness are different
things.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from codehub.core.archives import CommittedArchive
from codehub.core.conditions import NO_ARCHIVE, Condition, Conditions, Reason, Truth
from codehub.core.messages import Code, Message, bare_message
from codehub.core.rules import Rules
from codehub.core.workspace import Status


class Unobserved(Enum):
    """Nothing was learned. `None` in a look means that a complete and successful list does not have it."""

    UNREACHABLE = "unreachable"
    """The backend could not be asked."""
    NOT_LOOKED = "not_looked"
    """Not looked at in this pass."""


@dataclass(frozen=True, slots=True)
class Unmarked:
    """The homes' place answered, but without this installation's mark: it is another one, its disk is not
    mounted, or somebody removed the mark. An outage, not an empty list; patience does not end it.
    """

    mark: Message


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that was listed."""

    running: bool
    healthy: bool
    failed_checks: int = 0
    """Health checks that failed in a row, as the observer counted them."""
    has_ended: bool = False
    """Its program is over, and will not go on by itself."""
    exit_code: int | None = None
    """What its program ended with, where that is known. 128 and the signal's number, if one ended it."""
    is_out_of_sight: bool = False
    """Its host has fallen silent: it may run there all the same,
    so that it is neither replaced nor taken for gone.
    """
    why: Message | None = None
    """What keeps it from running, or has ended it, where its platform tells that."""


UNTOLD = "?"


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that was listed."""

    volume_id: str | None
    """None: the volume is there, but nothing says that it is complete."""
    bears: str | None = None
    """Of one without that was complete once, so that its identity was lost: the id that it had,
    or UNTOLD where nothing tells. None: it was cut off while it was made.
    """
    made_from: str | None = field(default=None, compare=False)
    """The archive that it was restored from. None: it was made empty, or nothing tells."""

    @property
    def name(self) -> str | None:
        """What a call must name to replace or delete it. None: half a volume, which nobody misses."""
        return self.volume_id or self.bears


@dataclass(frozen=True, slots=True)
class Archive:
    """The object that archive_key names."""

    committed: bool
    """Its `.meta` is there. Without it the object is half-written and does not count."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One workspace in one look."""

    instance: Instance | Unobserved | None
    volume: Volume | Unobserved | Unmarked | None
    archive: Archive | Unobserved | None
    """The object that archive_key names."""
    archives_left: bool | Unobserved = Unobserved.NOT_LOOKED
    """Whether any object of this workspace is left; looked at for a purge only."""
    archives: tuple[CommittedArchive, ...] | Unobserved = Unobserved.NOT_LOOKED
    """All its committed archives; looked at before a home is made anew, and when an error was answered."""


VOLUME_ABSENT = Condition(Truth.FALSE, Reason.ABSENT, bare_message(Code.VOLUME_ABSENT))
VOLUME_HALF = Condition(Truth.FALSE, Reason.NOT_READY, bare_message(Code.VOLUME_INCOMPLETE))
VOLUME_UNIDENTIFIED = Condition(Truth.FALSE, Reason.UNIDENTIFIED, bare_message(Code.VOLUME_UNIDENTIFIED))
VOLUME_READY = Condition(Truth.TRUE, Reason.READY, bare_message(Code.VOLUME_READY))
VOLUME_FOREIGN = Condition(Truth.FALSE, Reason.NOT_READY, bare_message(Code.VOLUME_FOREIGN))
VOLUME_UNKNOWN = Condition(Truth.UNKNOWN, Reason.UNREACHABLE, bare_message(Code.VOLUME_UNKNOWN))
ARCHIVE_GONE = Condition(Truth.FALSE, Reason.ABSENT, bare_message(Code.ARCHIVE_GONE))
ARCHIVE_READY = Condition(Truth.TRUE, Reason.READY, bare_message(Code.ARCHIVE_READY))
ARCHIVE_HALF = Condition(Truth.FALSE, Reason.NOT_READY, bare_message(Code.ARCHIVE_INCOMPLETE))
ARCHIVE_UNKNOWN = Condition(Truth.UNKNOWN, Reason.UNREACHABLE, bare_message(Code.ARCHIVE_UNKNOWN))
INSTANCE_ABSENT = Condition(Truth.FALSE, Reason.ABSENT, bare_message(Code.INSTANCE_ABSENT))
INSTANCE_STOPPED = Condition(Truth.FALSE, Reason.NOT_READY, bare_message(Code.INSTANCE_STOPPED))
INSTANCE_READY = Condition(Truth.TRUE, Reason.READY, bare_message(Code.INSTANCE_READY))
INSTANCE_SICK = Condition(Truth.FALSE, Reason.NOT_READY, bare_message(Code.INSTANCE_UNHEALTHY))
INSTANCE_UNKNOWN = Condition(Truth.UNKNOWN, Reason.UNREACHABLE, bare_message(Code.INSTANCE_UNKNOWN))


def observed_conditions(
    stored: Status, seen: Observation, now: datetime, rules: Rules, *, starting_up: bool = False
) -> Conditions:
    """Return the conditions that follow from a look. What was not
    looked at stays; what could not be looked at is Unknown.

    `starting_up`: nobody knows how long an instance that fails its
    check has been ill (spec §5): one failed check is enough.
    """
    earlier = stored.conditions
    volume = _volume_ready(earlier.volume_ready, seen.volume, stored.home_ctx.volume_id)
    archive = _archive_ready(earlier.archive_ready, seen, stored.archive_key)
    checks_max = 1 if starting_up else rules.failed_checks_max
    container = _container_ready(earlier.container_ready, seen.instance, checks_max)
    return Conditions(
        volume_ready=volume.following(earlier.volume_ready, now),
        archive_ready=archive.following(earlier.archive_ready, now),
        container_ready=container.following(earlier.container_ready, now),
        healthy=earlier.healthy,
    )


def _volume_ready(
    earlier: Condition, look: Volume | Unobserved | Unmarked | None, volume_id: str | None
) -> Condition:
    match look:
        case Unobserved.NOT_LOOKED:
            return earlier
        case Unobserved.UNREACHABLE:
            return VOLUME_UNKNOWN
        case Unmarked(mark=mark):
            return Condition(Truth.UNKNOWN, Reason.MARK_MISSING, Message(Code.MARK_MISSING, {"mark": mark}))
        case None:
            return VOLUME_ABSENT
        case Volume(volume_id=None, bears=None):
            return VOLUME_HALF
        case Volume(volume_id=None):
            # Whether or not the row knows its id: the row may be older than the home.
            return VOLUME_UNIDENTIFIED
        case Volume(volume_id=seen_id) if seen_id == volume_id:
            return VOLUME_READY
        case _:
            return VOLUME_FOREIGN


def _archive_ready(earlier: Condition, seen: Observation, archive_key: str | None) -> Condition:
    if Unobserved.UNREACHABLE in (seen.archives_left, seen.archives):
        return ARCHIVE_UNKNOWN
    if archive_key is None:
        return NO_ARCHIVE
    match seen.archive:
        case Unobserved.NOT_LOOKED:
            return earlier
        case Unobserved.UNREACHABLE:
            return ARCHIVE_UNKNOWN
        case None:
            return ARCHIVE_GONE
        case Archive(committed=True):
            return ARCHIVE_READY
        case _:
            return ARCHIVE_HALF


def _container_ready(earlier: Condition, look: Instance | Unobserved | None, checks_max: int) -> Condition:
    match look:
        case Unobserved.NOT_LOOKED:
            return earlier
        case Unobserved.UNREACHABLE:
            return INSTANCE_UNKNOWN
        case None:
            return INSTANCE_ABSENT
        case Instance(is_out_of_sight=True, why=why):
            return replace(INSTANCE_UNKNOWN, message=why or INSTANCE_UNKNOWN.message)
        case Instance(running=False, why=why):
            return INSTANCE_STOPPED if why is None else replace(INSTANCE_STOPPED, message=why)
        case Instance(healthy=True):
            return INSTANCE_READY
        case Instance(failed_checks=failed) if earlier.is_true and failed < checks_max:
            return earlier
        case _:
            return INSTANCE_SICK
