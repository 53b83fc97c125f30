"""Ports of a workspace that are open to more than its owner: what is wished and who wishes it go in, a ruling
with its line of the history comes out (spec §14).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from codehub.core.access import Person
from codehub.core.amendments import Denied
from codehub.core.history import Event, EventKind
from codehub.core.messages import Code, Message
from codehub.core.permissions import deny, deny_opening
from codehub.core.requests import FieldRefusal, Refusal, Refused
from codehub.core.visibility import ORDER, SharedPort, Visibility
from codehub.core.workspace import Workspace

SHARED_PORTS_MAX = 100
"""Of one workspace at a time."""


@dataclass(frozen=True, slots=True)
class ShareRecord:
    """A ruling made under the row's lock. Without an event it changes nothing."""

    ruling: SharedPort | Refused
    events: tuple[Event, ...] = ()


def rule_share(
    row: Workspace,
    shares: Mapping[int, SharedPort],
    now: datetime,
    *,
    wanted: SharedPort,
    person: Person,
    request_id: str,
    ceiling: Visibility,
) -> ShareRecord:
    """Rule on who may enter a port from now on, among those that are shared now. Raises Denied.

    Whoever manages the workspace may make it private; only who may enter opens it.
    """
    if (denial := deny(person, row)) is not None:
        raise Denied(denial)
    if wanted.visibility is Visibility.PRIVATE:
        wanted = SharedPort(wanted.port, Visibility.PRIVATE)
    known = shares.get(wanted.port, SharedPort(wanted.port, Visibility.PRIVATE))
    if known == wanted:
        return ShareRecord(wanted)
    is_opened = wanted.visibility is not Visibility.PRIVATE
    if is_opened and (denial := deny_opening(person, row)) is not None:
        raise Denied(denial)
    if (refusal := _refusal(shares, now, wanted, ceiling)) is not None:
        message = Message(Code.OF_FIELD, {"field": refusal.field, "problem": refusal.problem})
        return ShareRecord(Refused(Refusal.INVALID_REQUEST, message, fields=[refusal]))
    wish = row.spec.desired_state
    event = Event(EventKind.WISH, wish, wish, person.user.username, _reason(wanted), request_id)
    return ShareRecord(wanted, (event,))


def _refusal(
    shares: Mapping[int, SharedPort], now: datetime, wanted: SharedPort, ceiling: Visibility
) -> FieldRefusal | None:
    if ORDER.index(wanted.visibility) > ORDER.index(ceiling):
        problem = Message(Code.PORT_ABOVE_CEILING, {"max": ceiling})
        return FieldRefusal("visibility", problem, {"max": ceiling})
    if wanted.visibility is Visibility.PUBLIC and wanted.expires_at is None:
        return FieldRefusal("expires_at", Message(Code.PUBLIC_NEEDS_END), {})
    if wanted.expires_at is not None and wanted.expires_at <= now:
        return FieldRefusal("expires_at", Message(Code.END_IS_PAST), {})
    if wanted.port not in shares and len(shares) >= SHARED_PORTS_MAX and _is_shared(wanted):
        problem = Message(Code.TOO_MANY_PORTS, {"max": SHARED_PORTS_MAX})
        return FieldRefusal("port", problem, {"max": SHARED_PORTS_MAX})
    return None


def _is_shared(wanted: SharedPort) -> bool:
    return wanted.visibility is not Visibility.PRIVATE


def _reason(wanted: SharedPort) -> Message:
    if wanted.visibility is Visibility.PRIVATE:
        return Message(Code.PORT_MADE_PRIVATE, {"port": wanted.port})
    if wanted.expires_at is None:
        return Message(Code.PORT_SHARED, {"port": wanted.port, "visibility": wanted.visibility})
    until = wanted.expires_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Message(
        Code.PORT_SHARED_UNTIL, {"port": wanted.port, "visibility": wanted.visibility, "until": until}
    )
