"""Visits, as the tables of spec §8 and wire.md say them."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.workspaces import NOW, OWNER_ID, workspace

from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.origins import Door
from codehub.core.requests import Accepted, Refusal, Refused, Ruling, Unchanged
from codehub.core.visit import (
    AtLimit,
    Connect,
    Decision,
    Follow,
    Forbidden,
    Intent,
    Later,
    NoSuch,
    Page,
    Show,
    SignIn,
    Visit,
    Visitor,
    Wake,
    after_wake,
    decide,
    intent,
    is_forged,
    is_from_elsewhere,
    is_on_its_way,
    is_open,
    refuse_entry,
    wants_page,
)
from codehub.core.workspace import StorageBackend

OWNER = Visitor(OWNER_ID, "ann")
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
NAVIGATION = Visit(fetch_mode="navigate", fetch_dest="document", fetch_site="none", agent=FIREFOX)
PROGRAM = Visit(agent="curl/8.0", accept="*/*")
BACKGROUND = Visit(fetch_mode="cors", fetch_dest="empty", fetch_site="same-origin", agent=FIREFOX)
SOCKET = Visit(is_upgrade=True, agent=FIREFOX)
ORIGINS = frozenset({"https://hub.test"})


@pytest.mark.parametrize(
    ("visit", "kind"),
    [
        (NAVIGATION, Intent.NAVIGATION),
        (replace(NAVIGATION, method="POST"), Intent.BACKGROUND),
        (replace(NAVIGATION, fetch_dest="iframe"), Intent.BACKGROUND),
        (replace(NAVIGATION, fetch_mode="no-cors"), Intent.BACKGROUND),
        (replace(NAVIGATION, purpose="prefetch"), Intent.BACKGROUND),
        (BACKGROUND, Intent.BACKGROUND),
        # Where there is no Sec-Fetch-*.
        (SOCKET, Intent.BACKGROUND),
        (Visit(is_upgrade=True, agent="python"), Intent.BACKGROUND),
        (Visit(agent=FIREFOX, accept="text/html,*/*"), Intent.NAVIGATION),
        (Visit(agent=FIREFOX, accept="text/html", method="POST"), Intent.BACKGROUND),
        (Visit(agent=FIREFOX, accept="text/html", purpose="prefetch"), Intent.BACKGROUND),
        (Visit(agent=FIREFOX, accept="*/*"), Intent.BACKGROUND),
        (PROGRAM, Intent.PROGRAM),
        (Visit(), Intent.PROGRAM),
        (Visit(method="POST", agent="python-httpx/0.27"), Intent.PROGRAM),
    ],
)
def test_what_kind_of_visit_it_is(visit: Visit, kind: Intent) -> None:
    assert intent(visit) is kind


@pytest.mark.parametrize(
    ("visit", "html"),
    [
        (NAVIGATION, True),
        (Visit(accept="text/html"), True),
        (PROGRAM, False),
        (BACKGROUND, False),
    ],
)
def test_browsers_get_pages_and_others_json(visit: Visit, html: bool) -> None:
    assert wants_page(visit) is html


@pytest.mark.parametrize(
    ("visit", "foreign"),
    [
        (Visit(is_upgrade=True, origin="https://hub.test"), False),
        (Visit(is_upgrade=True), False),
        (Visit(is_upgrade=True, origin="https://evil.test"), True),
        (Visit(is_upgrade=True, origin="null"), True),
        (Visit(is_upgrade=True, origin="http://hub.test"), True),
        (Visit(method="POST", origin="https://evil.test"), True),
        (Visit(method="POST", origin="https://hub.test"), False),
        (Visit(method="POST", fetch_site="cross-site"), True),
        (Visit(method="DELETE", fetch_site="same-site"), True),
        (Visit(method="POST", fetch_site="same-origin"), False),
        (Visit(origin="https://evil.test", fetch_site="cross-site"), False),
    ],
)
def test_another_site_may_not_make_a_browser_change_something(visit: Visit, foreign: bool) -> None:
    assert is_forged(visit, ORIGINS) is foreign


@pytest.mark.parametrize(
    ("phase", "wish", "operation", "navigation", "program", "background"),
    [
        (Phase.RUNNING, "RUNNING", "NONE", Connect(), Connect(), Connect()),
        (Phase.RUNNING, "STANDBY", "NONE", Wake(), Wake(), Later()),
        (Phase.RUNNING, "STANDBY", "STOPPING", Follow(), Follow(), Later()),
        (Phase.STANDBY, "STANDBY", "NONE", Wake(), Wake(), Later()),
        (Phase.STANDBY, "RUNNING", "NONE", Follow(), Follow(), Later()),
        (Phase.STANDBY, "RUNNING", "STARTING", Follow(), Follow(), Later()),
        (Phase.STANDBY, "ARCHIVED", "NONE", Wake(), Wake(), Later()),
        (Phase.STANDBY, "ARCHIVED", "ARCHIVING", Follow(), Follow(), Later()),
        (Phase.ARCHIVED, "ARCHIVED", "NONE", *[Show(Page.ARCHIVED)] * 3),
        (Phase.ARCHIVED, "PENDING", "NONE", *[Show(Page.ARCHIVED)] * 3),
        (Phase.ARCHIVED, "RUNNING", "NONE", Follow(), Follow(), Later()),
        (Phase.ARCHIVED, "RUNNING", "RESTORING", Follow(), Follow(), Later()),
        (Phase.PENDING, "PENDING", "NONE", *[Show(Page.PENDING)] * 3),
        (Phase.PENDING, "RUNNING", "NONE", Follow(), Follow(), Later()),
        (Phase.PENDING, "RUNNING", "PROVISIONING", Follow(), Follow(), Later()),
        (Phase.ERROR, "RUNNING", "NONE", *[Show(Page.ERROR)] * 3),
    ],
)
def test_each_phase_has_its_answer(
    phase: Phase, wish: str, operation: str, navigation: Decision, program: Decision, background: Decision
) -> None:
    row = workspace(phase, DesiredState(wish), operation=Operation(operation))
    assert is_open(row) is isinstance(program, Connect)
    assert is_on_its_way(row) is isinstance(program, Follow)
    for visit, decision in ((NAVIGATION, navigation), (PROGRAM, program)):
        assert decide(visit, OWNER, row) == decision
    for visit in (BACKGROUND, SOCKET):
        assert decide(visit, OWNER, row) == background


@pytest.mark.parametrize(
    ("phase", "wish", "archive_key", "restore_marker", "navigation", "background"),
    [
        # Its archive is stored, so the deletion of its volume may be on the way.
        (Phase.RUNNING, "RUNNING", "a", None, Follow(), Later()),
        (Phase.RUNNING, "RUNNING", "a", "before", Follow(), Later()),
        (Phase.RUNNING, "STANDBY", "a", None, Follow(), Later()),
        # RestoredVolume from that archive: another volume, and a good one.
        (Phase.RUNNING, "RUNNING", "a", "a", Connect(), Connect()),
        (Phase.STANDBY, "STANDBY", "a", None, Wake(), Later()),
        (Phase.ARCHIVED, "ARCHIVED", "a", None, Show(Page.ARCHIVED), Show(Page.ARCHIVED)),
    ],
)
def test_nobody_is_led_to_what_runs_on_a_condemned_volume(
    phase: Phase,
    wish: str,
    archive_key: str,
    restore_marker: str | None,
    navigation: Decision,
    background: Decision,
) -> None:
    made = workspace(phase, DesiredState(wish))
    home_ctx = replace(made.status.home_ctx, restore_marker=restore_marker)
    row = replace(made, status=replace(made.status, archive_key=archive_key, home_ctx=home_ctx))
    for visit in (NAVIGATION, PROGRAM):
        assert decide(visit, OWNER, row) == navigation
    for visit in (BACKGROUND, SOCKET):
        assert decide(visit, OWNER, row) == background


@pytest.mark.parametrize(("visit", "decision"), [(NAVIGATION, Wake()), (PROGRAM, Wake()), (SOCKET, Later())])
def test_a_visit_restores_where_that_is_wanted_or_the_home_never_rests(
    visit: Visit, decision: Decision
) -> None:
    row = workspace(Phase.ARCHIVED, DesiredState.ARCHIVED)
    assert decide(visit, OWNER, row, wake_archived=True) == decision
    resting = workspace(
        Phase.ARCHIVED, DesiredState.ARCHIVED, spec={"storage_backend": StorageBackend.OBJECT_STORE}
    )
    assert decide(visit, OWNER, resting) == decision


def test_who_may_enter_is_asked_before_where_the_workspace_is() -> None:
    row = workspace(Phase.RUNNING)
    assert decide(NAVIGATION, None, row) == SignIn()
    assert decide(NAVIGATION, None, None) == SignIn()
    assert decide(NAVIGATION, OWNER, None) == NoSuch()
    assert isinstance(decide(NAVIGATION, Visitor(UUID(int=7), "an admin"), row), Forbidden)
    assert isinstance(decide(PROGRAM, replace(OWNER, may_write=False), row), Forbidden)
    assert decide(NAVIGATION, OWNER, workspace(Phase.DELETED)) == NoSuch()
    assert decide(NAVIGATION, OWNER, workspace(Phase.RUNNING, spec={"deleted_at": NOW})) == NoSuch()


FULL = Refused(Refusal.LIMIT_EXCEEDED, verbatim("full"))


def test_a_navigation_comes_from_anywhere_and_all_else_from_its_own_origin() -> None:
    own = "https://a.ws.example.net"
    navigation = Visit(fetch_mode="navigate", fetch_dest="document", fetch_site="cross-site")
    assert not is_from_elsewhere(navigation, own)
    assert is_from_elsewhere(replace(navigation, method="POST"), own)
    assert is_from_elsewhere(Visit(fetch_site="same-site"), own)
    assert is_from_elsewhere(Visit(fetch_site="same-origin", origin="https://b.ws.example.net"), own)
    assert not is_from_elsewhere(Visit(fetch_site="same-origin", origin=own), own)
    assert not is_from_elsewhere(Visit(agent="curl/8"), own)
    silent = Visit(agent="Mozilla/5.0", accept="text/html")
    assert not is_from_elsewhere(silent, own)
    assert not is_from_elsewhere(replace(silent, origin=own), own)
    assert is_from_elsewhere(replace(silent, origin="https://b.ws.example.net"), own)


@pytest.mark.parametrize("own", [None, 3000])
@pytest.mark.parametrize("port", [None, 3000, 3001])
def test_a_door_opens_the_place_that_it_is_of(own: int | None, port: int | None) -> None:
    row = workspace()
    comes = replace(OWNER, door=Door(row.id, own))
    assert refuse_entry(comes, row, port) == (None if port == own else SignIn())
    assert refuse_entry(OWNER, row, port) is None
    elsewhere = replace(OWNER, door=Door(UUID(int=7), port))
    assert refuse_entry(elsewhere, row, port) == SignIn()
    assert decide(NAVIGATION, elsewhere, row, port=port) == SignIn()
    gone = replace(row, spec=replace(row.spec, deleted_at=NOW))
    assert refuse_entry(comes, gone, own) == NoSuch()


def test_a_door_is_no_right_of_its_own() -> None:
    row = workspace()
    strangers = Visitor(UUID(int=7), "bob", door=Door(row.id, None))
    assert isinstance(refuse_entry(strangers, row), Forbidden)


@pytest.mark.parametrize(
    ("ruling", "next_"),
    [
        (Accepted(workspace().spec), Follow()),
        (Unchanged(), Follow()),
        (Refused(Refusal.OPERATION_IN_PROGRESS, verbatim("wait")), Follow()),
        (FULL, AtLimit(FULL)),
    ],
)
def test_a_wish_that_was_ruled_on_is_followed_unless_there_is_no_place(
    ruling: Ruling, next_: Follow | AtLimit
) -> None:
    assert after_wake(ruling) == next_
