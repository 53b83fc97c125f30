"""What a request is for: the hub, a workspace, or what is like a workspace's address and is none."""

from uuid import UUID

import pytest

from codehub.core.origins import WorkspaceOrigins
from codehub.core.route import Kind, Route, entry_of, mount_of, parse_route

ID = "019a8b00-0000-7000-8000-000000000001"
MOUNT = f"/w/{ID}"
LABEL = "0123456789abcdef0123"


@pytest.mark.parametrize(
    ("rest", "query"),
    [
        ("/", ""),
        ("/a/b", ""),
        ("/a?x=1", "?x=1"),
        ("/a?x=1?y", "?x=1?y"),
        ("/?", "?"),
        ("", ""),
        ("?x=1", "?x=1"),
        ("//host/", ""),
    ],
)
def test_a_workspace_is_told_from_the_path_behind_its_mount(rest: str, query: str) -> None:
    route = parse_route(f"{MOUNT}{rest}".encode())
    assert route == Route(Kind.WORKSPACE, UUID(ID), None, MOUNT, rest)
    assert route.query == query


@pytest.mark.parametrize(
    "target",
    [
        "/w/",
        "/w/x/",
        f"/w/{ID.upper().replace('0', 'A')}/",
        f"/w/{ID}x/",
        f"/w/{ID}%2f",
        f"/w/{ID[:-1]}/",
        f"/w//{ID}/",
        f"/w/{{{ID}}}/",
    ],
)
def test_what_is_like_a_workspace_s_address_names_none(target: str) -> None:
    assert parse_route(target.encode()) == Route(Kind.WORKSPACE, None, None, "", target)


@pytest.mark.parametrize(
    "target", ["/", "/w", "/wx", f"/W/{ID}/", f"/workspaces/{ID}", "/?next=/w/", f"//w/{ID}/"]
)
def test_all_else_is_the_hub_s(target: str) -> None:
    assert parse_route(target.encode()) == Route(Kind.HUB, None, None, "", target)


def test_an_address_that_is_built_is_read_as_what_it_was_built_from() -> None:
    assert mount_of(UUID(ID)) == MOUNT
    assert parse_route(entry_of(UUID(ID)).encode()) == Route(Kind.WORKSPACE, UUID(ID), None, MOUNT, "/")


@pytest.mark.parametrize(
    ("host", "route"),
    [
        (f"{LABEL}.localhost:8000", Route(Kind.WORKSPACE, None, None, "", "/w/x?y", LABEL, LABEL)),
        (f"1-{LABEL}.LOCALHOST:8000", Route(Kind.WORKSPACE, None, 1, "", "/w/x?y", LABEL, f"1-{LABEL}")),
        ("y.localhost", Route(Kind.WORKSPACE, None, None, "", "/w/x?y")),
        ("localhost:8000", Route(Kind.WORKSPACE, None, None, "", "/w/x?y")),
    ],
)
def test_below_the_domain_of_workspaces_the_host_says_what_a_request_is_for(host: str, route: Route) -> None:
    assert parse_route(b"/w/x?y", host.encode(), WorkspaceOrigins("http", "localhost", 8000)) == route


def test_beside_that_domain_and_without_one_the_target_says_it() -> None:
    hub = Route(Kind.HUB, None, None, "", "/a")
    assert parse_route(b"/a", b"localhost:8000", WorkspaceOrigins("http", "localhost", 8000)) == hub
    assert parse_route(b"/a", f"{LABEL}.localhost:8000".encode()) == hub
