"""An error and a person's decision about it in, what the row then says of home and archive out. Judges
nothing.
"""

from dataclasses import replace
from datetime import datetime

from codehub.core.archives import NOTHING_GIVEN_UP, newest
from codehub.core.conditions import NO_ARCHIVE
from codehub.core.errors import NEWEST_ARCHIVE, ErrorInfo, ErrorReason
from codehub.core.observation import ARCHIVE_GONE, ARCHIVE_READY, UNTOLD, Observation, Unobserved, Volume
from codehub.core.workspace import HomeCtx, RecoverChoice, Spec, Status


def is_answered(spec: Spec, error: ErrorInfo) -> bool:
    """Whether a recovery or a deletion was asked for after the error."""
    return is_recovered(spec, error) or (spec.deleted_at is not None and spec.deleted_at > error.occurred_at)


def is_recovered(spec: Spec, error: ErrorInfo) -> bool:
    return spec.recover_at is not None and spec.recover_at > error.occurred_at


def error_time(spec: Spec, now: datetime) -> datetime:
    """Return when an error counts as new: no request that was there
    before answers it, though a clock was set back since.
    """
    return max([now, *(at for at in (spec.recover_at, spec.deleted_at) if at is not None)])


def answer(spec: Spec, status: Status, error: ErrorInfo, observation: Observation, now: datetime) -> Status:
    """Drop an error that a newer request answers, and what was counted towards it."""
    if is_recovered(spec, error) and not status.conditions.volume_ready.is_true:
        if spec.recover_accepts_loss:
            status = _accept_loss(status, error, observation)
        elif spec.recover_choice is RecoverChoice.NEWEST:
            status = _take_newest(spec, status, observation, now)
    return replace(status, error_info=None, error_count=0, restarts=())


def is_adopted(spec: Spec, stored: Status, status: Status) -> bool:
    error, conditions = stored.error_info, status.conditions
    return (
        error is not None
        and is_recovered(spec, error)
        and spec.recover_choice is RecoverChoice.ADOPT
        and conditions.volume_ready.is_unidentified
        and conditions.container_ready.is_absent
    )


def adopt(status: Status, observation: Observation) -> Status:
    """Take what is there for the home: a person said so. Nobody
    knows what became of it since it was last archived.
    """
    home, borne = status.home_ctx, _borne(observation)
    if borne not in (None, UNTOLD, home.volume_id):
        home = HomeCtx(borne, given_up_at=home.given_up_at)
    return replace(status, home_ctx=replace(home, dirty=True))


def _accept_loss(status: Status, error: ErrorInfo, observation: Observation) -> Status:
    """Go on without what is gone: a person said so. A corrupted
    archive is gone, and a newer one is if the error named it.
    """
    volume = observation.volume
    home = replace(status.home_ctx, dirty=False, replaces=volume.name if isinstance(volume, Volume) else None)
    if error.reason is ErrorReason.ARCHIVE_CORRUPTED or NEWEST_ARCHIVE in error.context:
        home = replace(home, given_up_at=error.occurred_at)
    status = replace(status, home_ctx=home)
    if status.conditions.archive_ready.is_true and error.reason is not ErrorReason.ARCHIVE_CORRUPTED:
        return status
    archive_ready = replace(
        NO_ARCHIVE, last_transition_time=status.conditions.archive_ready.last_transition_time
    )
    return replace(
        status, archive_key=None, conditions=replace(status.conditions, archive_ready=archive_ready)
    )


def _take_newest(spec: Spec, status: Status, observation: Observation, now: datetime) -> Status:
    """Go on with the newest archive that was seen: a person said so. Where there is none, nothing changes."""
    archives = () if isinstance(observation.archives, Unobserved) else observation.archives
    offered = spec.recover_offered_key
    if offered is not None and all(archive.key != offered for archive in archives):
        return _name_what_is_gone(status, offered, now)
    is_any_full = not all(each.is_empty for each in archives)
    must_be_full = status.archive_key is None and is_any_full  # as the error that is answered has named it
    archive = newest(each for each in archives if not (must_be_full and each.is_empty))
    if archive is None:
        return status
    # Where the row's own archive is gone, or a loss of one was accepted, it may have been newer. What is
    # taken in its place is committed anew first: its removal may be under way, for it had been replaced.
    has_own = any(each.key == status.archive_key for each in archives)
    given_up_at = None if has_own else NOTHING_GIVEN_UP
    ready = ARCHIVE_READY.following(status.conditions.archive_ready, now)
    return replace(
        status,
        archive_key=archive.key,
        home_ctx=replace(status.home_ctx, dirty=False, given_up_at=given_up_at, replaces=_borne(observation)),
        conditions=replace(status.conditions, archive_ready=ready),
    )


def _name_what_is_gone(status: Status, offered: str, now: datetime) -> Status:
    """Name the archive that a person took and that has vanished since: they are asked again, for nobody said
    that an older one will do. Files without an identity may still be adopted, so these are not given up.
    """
    home = status.home_ctx
    if not status.conditions.volume_ready.is_unidentified:
        home = replace(home, dirty=False, given_up_at=None)
    gone = ARCHIVE_GONE.following(status.conditions.archive_ready, now)
    return replace(
        status,
        archive_key=offered,
        home_ctx=home,
        conditions=replace(status.conditions, archive_ready=gone),
    )


def _borne(observation: Observation) -> str | None:
    """Return what the volume bears that is there without an identity."""
    return observation.volume.bears if isinstance(observation.volume, Volume) else None
