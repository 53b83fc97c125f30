"""Who may enter a port: every visitor, visibility and ceiling; and what an instance is told of its ports."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from tests.support.workspaces import workspace

from codehub.core.messages import Code
from codehub.core.operations import DesiredState, Phase
from codehub.core.origins import Door, WorkspaceOrigins, instance_environment
from codehub.core.visibility import SharedPort, Visibility, visibility_at
from codehub.core.visit import (
    Connect,
    Follow,
    Forbidden,
    Later,
    NoSuch,
    SignIn,
    Visit,
    Visitor,
    Wake,
    decide,
    refuse_entry,
)

RUNNING = workspace(Phase.RUNNING)
OWNER = Visitor(RUNNING.spec.owner_user_id, "ann")
OTHER = Visitor(UUID(int=7), "bob")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAVIGATION = Visit(fetch_mode="navigate", fetch_dest="document", fetch_site="none", accept="text/html")
PRIVATE, SHARED, SIGNED_IN, PUBLIC = Visibility
NOT_OWNER = Forbidden(Code.OWNER_ONLY)


@pytest.mark.parametrize(
    ("person", "refusals"),
    [
        (None, (SignIn(), SignIn(), SignIn(), None)),
        (OWNER, (None, None, None, None)),
        (OTHER, (NOT_OWNER, NOT_OWNER, None, None)),
        (replace(OWNER, door=Door(RUNNING.id, 3000)), (None, None, None, None)),
        (replace(OWNER, door=Door(RUNNING.id, None)), (SignIn(), SignIn(), SignIn(), None)),
        (replace(OWNER, door=Door(RUNNING.id, 3001)), (SignIn(), SignIn(), SignIn(), None)),
        (replace(OTHER, door=Door(UUID(int=1), 3000)), (SignIn(), SignIn(), SignIn(), None)),
        (
            replace(OWNER, may_write=False),
            (*[Forbidden(Code.READ_ONLY_TOKEN)] * 3, None),
        ),
    ],
    ids=["nobody", "owner", "other", "its door", "the IDE's door", "another port's", "another's", "reads"],
)
def test_who_may_enter_a_port(person: Visitor | None, refusals: tuple[object, ...]) -> None:
    for visibility, refused in zip(Visibility, refusals, strict=True):
        assert refuse_entry(person, RUNNING, 3000, visibility) == refused, visibility


@pytest.mark.parametrize("visibility", Visibility)
def test_no_visibility_opens_the_ide_or_what_is_deleted(visibility: Visibility) -> None:
    assert refuse_entry(OTHER, RUNNING, None, visibility) == NOT_OWNER
    assert refuse_entry(None, RUNNING, None, visibility) == SignIn()
    deleted = replace(RUNNING, spec=replace(RUNNING.spec, deleted_at=NOW))
    for gone in (deleted, None):
        assert refuse_entry(None, gone, 3000, visibility) == SignIn()
        assert refuse_entry(OWNER, gone, 3000, visibility) == NoSuch()


@pytest.mark.parametrize("visibility", [SIGNED_IN, PUBLIC])
def test_only_its_owner_wakes_a_workspace_by_a_port(visibility: Visibility) -> None:
    rests = workspace(Phase.STANDBY)
    rests = replace(rests, spec=replace(rests.spec, desired_state=DesiredState.STANDBY))
    climbs = replace(rests, spec=replace(rests.spec, desired_state=DesiredState.RUNNING))

    def decided(person: Visitor | None, row: object) -> object:
        return decide(NAVIGATION, person, row, port=3000, visibility=visibility)  # type: ignore[arg-type]

    visitors = (OTHER, None) if visibility is PUBLIC else (OTHER,)
    assert [decided(OWNER, row) for row in (rests, climbs)] == [Wake(), Follow()]
    for visitor in visitors:
        assert [decided(visitor, row) for row in (rests, climbs)] == [Later(), Later()]
        assert decided(visitor, RUNNING) == Connect()


def test_a_share_ends_with_its_time_and_below_the_ceiling() -> None:
    hour = timedelta(hours=1)
    public = SharedPort(3000, PUBLIC, NOW + hour)
    assert visibility_at(None, NOW, PUBLIC) is PRIVATE
    assert visibility_at(public, NOW, PUBLIC) is PUBLIC
    assert visibility_at(public, NOW + hour, PUBLIC) is PRIVATE
    assert visibility_at(public, NOW, SIGNED_IN) is SIGNED_IN
    assert visibility_at(public, NOW, PRIVATE) is PRIVATE
    assert visibility_at(SharedPort(3000, SHARED), NOW, PUBLIC) is SHARED


def test_an_instance_is_told_where_its_ports_are() -> None:
    here = WorkspaceOrigins("https", "ws.example.net", None)
    assert instance_environment(here, "0" * 20) == {
        "VSCODE_PROXY_URI": "https://{{port}}-" + "0" * 20 + ".ws.example.net/",
        "__VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS": ".ws.example.net",
    }
    local = WorkspaceOrigins("http", "localhost", 8000)
    assert instance_environment(local, "0" * 20) == {
        "VSCODE_PROXY_URI": "http://{{port}}-" + "0" * 20 + ".localhost:8000/"
    }
