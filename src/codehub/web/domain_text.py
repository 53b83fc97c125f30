"""Text for what the core decides: its values in, a sentence of the catalogue out, in the language that is asked for.

Pages speak of homes and IDEs where the core speaks of volumes and instances.
"""

import re
from collections.abc import Mapping
from string import Formatter

from codehub.core import observation
from codehub.core.ceilings import CLAMPED
from codehub.core.conditions import HEALTHY, NO_ARCHIVE, NOTHING_YET
from codehub.core.disk_space import GREW, NO_ROOM
from codehub.core.errors import (
    ARCHIVED_SINCE,
    KEPT_REMEDY,
    LAST_COPY,
    NEWER_REMEDY,
    NOT_DELETED,
    NOT_REPLACED,
    WORKED_ON_SINCE,
    ErrorReason,
)
from codehub.core.explain import Waiting, WaitsFor
from codehub.core.idle import UNUSED
from codehub.core.judge import (
    ARCHIVE_LOST,
    DIED_AGAIN,
    IDENTITY_LOST,
    NEWER_ARCHIVE,
    VOLUME_LOST,
    WITHOUT_VOLUME,
)
from codehub.core.operations import Operation
from codehub.core.plan import LAST_TRY, TOOK_LONGER, Why
from codehub.core.transitions import ENDED_EARLY, ENDED_SAYING, FAILED_AGAIN, NEW_ARCHIVE
from codehub.text import text


def code_of(member: Why | WaitsFor) -> str:
    """Return the code under which the catalogue has it: IN_TRASH is InTrash."""
    return "".join(part.capitalize() for part in member.name.split("_"))


# Sentences of the core, by the code under which the catalogue has them.
SENTENCES: Mapping[str, str] = {
    **{why.value: code_of(why) for why in Why},
    NOTHING_YET.message: "NothingYet",
    observation.VOLUME_ABSENT.message: "VolumeAbsent",
    observation.VOLUME_HALF.message: "VolumeIncomplete",
    observation.VOLUME_UNIDENTIFIED.message: "VolumeUnidentified",
    observation.VOLUME_READY.message: "VolumeReady",
    observation.VOLUME_FOREIGN.message: "VolumeForeign",
    observation.VOLUME_UNKNOWN.message: "VolumeUnknown",
    NO_ARCHIVE.message: "NoArchive",
    observation.ARCHIVE_GONE.message: "ArchiveGone",
    observation.ARCHIVE_READY.message: "ArchiveReady",
    observation.ARCHIVE_HALF.message: "ArchiveIncomplete",
    observation.ARCHIVE_UNKNOWN.message: "ArchiveUnknown",
    observation.INSTANCE_ABSENT.message: "InstanceAbsent",
    observation.INSTANCE_STOPPED.message: "InstanceStopped",
    observation.INSTANCE_READY.message: "InstanceReady",
    observation.INSTANCE_SICK.message: "InstanceUnhealthy",
    observation.INSTANCE_UNKNOWN.message: "InstanceUnknown",
    HEALTHY.message: "Healthy",
    NEW_ARCHIVE.message: "ArchiveUnseen",
    WITHOUT_VOLUME: "WithoutVolume",
    IDENTITY_LOST: "IdentityLost",
    VOLUME_LOST: "VolumeLost",
    ARCHIVE_LOST: "ArchiveLost",
    NOT_REPLACED: "NotReplaced",
    LAST_COPY: "LastCopy",
    NOT_DELETED: "NotDeleted",
    WORKED_ON_SINCE: "WorkedOnSince",
    UNUSED: "Unused",
}
# The core's sentences with holes.
TEMPLATES: Mapping[str, str] = {
    CLAMPED: "Clamped",
    DIED_AGAIN: "DiedAgain",
    NEWER_ARCHIVE: "NewerArchive",
    ARCHIVED_SINCE: "ArchivedSince",
    observation.MARK_MISSING: "MarkMissing",
    LAST_TRY.format(outcome=TOOK_LONGER, message="{message}"): "TookLongerLastTry",
    TOOK_LONGER: "TookLonger",
    ENDED_SAYING: "EndedSaying",
    ENDED_EARLY: "EndedEarly",
    NO_ROOM: "NoRoom",
    GREW: "Grew",
    FAILED_AGAIN: "FailedAgain",
}
# Where there is something to choose from.
_CHOICES: Mapping[str, str] = {NEWER_REMEDY: "NewerArchive", KEPT_REMEDY: "KeptArchive"}


def trouble_text(reason: ErrorReason, language: str) -> str:
    """Return what went wrong, as a headline."""
    return text(language, f"trouble.{reason}")


def under_way_text(operation: Operation, language: str) -> str:
    return text(language, f"under_way.{operation}")


def why_text(why: Why, language: str) -> str:
    return text(language, f"reason.{code_of(why)}")


def remedy_text(reason: ErrorReason, language: str, remedy: str | None = None) -> str:
    """Return what can be done about an error. `remedy`: as the core says it of this one."""
    return text(language, f"remedy.{reason if remedy is None else _CHOICES.get(remedy, reason)}")


def waiting_text(waiting: Waiting, language: str) -> str:
    facts = dict(waiting.facts)
    if waiting.on is WaitsFor.LOOK:
        facts["conditions"] = ", ".join(
            text(language, f"look.{name}") for name in facts["conditions"].split(", ")
        )
    if waiting.on is WaitsFor.MARK:
        facts["message"] = reason_text(facts["message"], language)
    if waiting.on is WaitsFor.REMEDY:
        facts["remedy"] = remedy_text(ErrorReason(facts["reason"]), language, facts["remedy"])
    return text(language, f"waits.{code_of(waiting.on)}", **facts)


def reason_text(reason: str, language: str) -> str:
    """Return a reason, or what an error says, as pages say it, if it is one of the core's sentences; else as it was written."""
    code = SENTENCES.get(reason)
    if code is not None:
        return text(language, f"reason.{code}")
    for pattern, template_code in _PATTERNS:
        if match := pattern.fullmatch(reason):
            return text(language, f"reason.{template_code}", **match.groupdict())
    return reason


def _pattern(sentence: str) -> re.Pattern[str]:
    """Return what matches a sentence whatever is in its holes."""
    parts = Formatter().parse(sentence)
    return re.compile(
        "".join(re.escape(literal) + (f"(?P<{hole}>.+)" if hole else "") for literal, hole, _, _ in parts),
        re.DOTALL,
    )


_PATTERNS = [(_pattern(sentence), code) for sentence, code in TEMPLATES.items()]
