"""Who may open a port to others, and how far: every ruling, as a table."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from tests.support.workspaces import NOW, OWNER_ID, workspace

from codehub.core.access import Person, Role, Scope, User
from codehub.core.amendments import Denied
from codehub.core.messages import Code
from codehub.core.operations import Phase
from codehub.core.permissions import Denial
from codehub.core.requests import Refusal, Refused
from codehub.core.shared_ports import SHARED_PORTS_MAX, ShareRecord, rule_share
from codehub.core.visibility import SharedPort, Visibility
from codehub.core.workspace import Workspace

ROW = workspace(Phase.RUNNING)
GONE = workspace(Phase.DELETED, spec={"deleted_at": NOW, "purge_at": NOW})
HOUR = timedelta(hours=1)
PRIVATE, SHARED, SIGNED_IN, PUBLIC = Visibility
FULL = {port: SharedPort(port, SHARED) for port in range(1, SHARED_PORTS_MAX + 1)}


def person(user_id: UUID, role: Role = Role.MEMBER) -> Person:
    user = User(user_id, "somebody", role, disabled=False, created_at=NOW)
    return Person(user, Scope.WRITE, is_token=False, key_sha256=b"", expires_at=None)


OWNER, STRANGER, ADMIN = person(OWNER_ID), person(UUID(int=7)), person(UUID(int=7), Role.ADMIN)


def rule(
    visibility: Visibility,
    until: datetime | None = None,
    *,
    port: int = 3000,
    row: Workspace = ROW,
    shares: Mapping[int, SharedPort] | None = None,
    person: Person = OWNER,
    ceiling: Visibility = PUBLIC,
) -> ShareRecord:
    wanted = SharedPort(port, visibility, until)
    return rule_share(row, shares or {}, NOW, wanted=wanted, person=person, request_id="r", ceiling=ceiling)


@pytest.mark.parametrize(
    ("visibility", "until", "reason"),
    [
        (SHARED, None, Code.PORT_SHARED),
        (SIGNED_IN, None, Code.PORT_SHARED),
        (SIGNED_IN, NOW + HOUR, Code.PORT_SHARED_UNTIL),
        (PUBLIC, NOW + HOUR, Code.PORT_SHARED_UNTIL),
    ],
)
def test_its_owner_opens_a_port_with_a_line_of_the_history(
    visibility: Visibility, until: datetime | None, reason: Code
) -> None:
    record = rule(visibility, until)
    assert record.ruling == SharedPort(3000, visibility, until)
    assert [(event.reason.code, event.actor) for event in record.events] == [(reason, "somebody")]


@pytest.mark.parametrize("closer", [OWNER, ADMIN], ids=["owner", "admin"])
def test_a_port_is_closed_without_an_end_by_its_owner_or_an_admin(closer: Person) -> None:
    record = rule(PRIVATE, NOW + HOUR, shares=FULL, port=1, person=closer)
    assert record.ruling == SharedPort(1, PRIVATE)
    assert [event.reason.code for event in record.events] == [Code.PORT_MADE_PRIVATE]


@pytest.mark.parametrize(
    ("visibility", "port", "who"), [(PRIVATE, 3000, OWNER), (SHARED, 1, OWNER), (SHARED, 1, ADMIN)]
)
def test_what_is_so_already_changes_nothing(visibility: Visibility, port: int, who: Person) -> None:
    record = rule(visibility, port=port, shares=FULL, person=who)
    assert record == ShareRecord(SharedPort(port, visibility))


@pytest.mark.parametrize(
    ("row", "who", "visibility", "denial"),
    [
        (ROW, STRANGER, PRIVATE, Denial.FOREIGN),
        (ROW, STRANGER, SHARED, Denial.FOREIGN),
        (ROW, ADMIN, SHARED, Denial.OPENED_BY_OWNER),
        (GONE, OWNER, SHARED, Denial.NOT_FOUND),
    ],
)
def test_who_may_not_is_denied(row: Workspace, who: Person, visibility: Visibility, denial: Denial) -> None:
    with pytest.raises(Denied) as denied:
        rule(visibility, row=row, person=who)
    assert denied.value.denial is denial


@pytest.mark.parametrize(
    ("visibility", "until", "ceiling", "shares", "field", "problem"),
    [
        (SIGNED_IN, None, SHARED, {}, "visibility", Code.PORT_ABOVE_CEILING),
        (PUBLIC, NOW + HOUR, SIGNED_IN, {}, "visibility", Code.PORT_ABOVE_CEILING),
        (PUBLIC, None, PUBLIC, {}, "expires_at", Code.PUBLIC_NEEDS_END),
        (PUBLIC, NOW, PUBLIC, {}, "expires_at", Code.END_IS_PAST),
        (SHARED, NOW - HOUR, PUBLIC, {}, "expires_at", Code.END_IS_PAST),
        (SHARED, None, PUBLIC, FULL, "port", Code.TOO_MANY_PORTS),
    ],
)
def test_what_is_refused_names_its_field(
    visibility: Visibility,
    until: datetime | None,
    ceiling: Visibility,
    shares: Mapping[int, SharedPort],
    field: str,
    problem: Code,
) -> None:
    record = rule(visibility, until, ceiling=ceiling, shares=shares)
    assert isinstance(record.ruling, Refused)
    assert record.ruling.code is Refusal.INVALID_REQUEST
    assert [(refusal.field, refusal.problem.code) for refusal in record.ruling.fields] == [(field, problem)]
    assert record.events == ()


def test_of_many_ports_each_can_still_be_changed() -> None:
    record = rule(SIGNED_IN, port=1, shares=FULL)
    assert record.ruling == SharedPort(1, SIGNED_IN)
