"""Who may do what, as tables."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from tests.support.workspaces import NOW, OWNER_ID

from codehub.core.access import (
    ACCOUNT,
    ADDRESS,
    PAIR,
    Person,
    Role,
    Scope,
    Throttle,
    User,
    is_foreign,
    is_username,
    login_throttles,
    may_enter,
    may_manage,
)

OWNER = Person(
    User(OWNER_ID, "ann", Role.MEMBER, disabled=False, created_at=NOW), Scope.WRITE, False, b"", None
)
STRANGER = replace(OWNER, user=replace(OWNER.user, id=UUID(int=1), username="bob"))
ADMIN = replace(STRANGER, user=replace(STRANGER.user, role=Role.ADMIN))


@pytest.mark.parametrize(
    ("person", "manages", "enters"),
    [(OWNER, True, True), (STRANGER, False, False), (ADMIN, True, False)],
    ids=["owner", "stranger", "admin"],
)
def test_admins_manage_but_only_the_owner_enters(person: Person, manages: bool, enters: bool) -> None:
    assert may_manage(person, OWNER_ID) is manages
    assert may_enter(person.id, OWNER_ID) is enters


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("ann", True),
        ("Ann.B-c_d@example.org", True),
        ("0", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("", False),
        ("-ann", False),
        ("ann\n", False),
        ("an n", False),
        ("änn", False),
        ("me", False),
        ("ALL", False),
    ],
)
def test_names_that_somebody_may_have(text: str, is_valid: bool) -> None:
    assert is_username(text) is is_valid


BASE = "https://code.example.org"


@pytest.mark.parametrize(
    ("origin", "fetch_site", "is_refused"),
    [
        (None, None, False),
        (None, "none", False),
        (None, "same-origin", False),
        (BASE, "same-origin", False),
        (BASE, None, False),
        ("https://code.example.org:443", None, False),
        ("https://CODE.example.org", None, False),
        ("http://code.example.org", None, True),
        ("https://code.example.org:8443", None, True),
        ("https://code.example.org.evil.org", None, True),
        ("https://evil.org", None, True),
        ("null", None, True),
        ("", None, True),
        ("https://[", None, True),
        ("https://code.example.org:x", None, True),
        (None, "cross-site", True),
        (None, "same-site", True),
        (BASE, "cross-site", True),
    ],
)
def test_another_site_s_request_is_foreign(
    origin: str | None, fetch_site: str | None, is_refused: bool
) -> None:
    assert is_foreign(origin, fetch_site, {BASE}) is is_refused


@pytest.mark.parametrize(
    ("failures", "seconds_ago", "wait_s"),
    [
        (0, 0, 0),
        (4, 0, 0),
        (5, 0, 1),
        (6, 0, 2),
        (8, 3, 5),
        (8, 9, 0),
        (11, 0, 60),
        (10_000, 0, 60),
        (9, 900, 0),
    ],
)
def test_each_failure_beyond_the_free_ones_doubles_the_wait(
    failures: int, seconds_ago: float, wait_s: float
) -> None:
    last_at = NOW - timedelta(seconds=seconds_ago)
    assert Throttle(free=5, wait_s_max=60.0).wait_s(failures, last_at, NOW) == wait_s


def test_a_try_counts_against_the_account_the_address_and_both_together() -> None:
    throttles = login_throttles("Ann", "10.0.0.1")
    assert list(throttles.values()) == [PAIR, ACCOUNT, ADDRESS]
    assert throttles == login_throttles("ann", "10.0.0.1")
    assert len(throttles.keys() & login_throttles("ann", "10.0.0.2").keys()) == 1
    assert len(throttles.keys() & login_throttles("bob", "10.0.0.1").keys()) == 1
