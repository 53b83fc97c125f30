"""Each action has one request, which nobody else has: so a command line finds its command by it."""

import pytest
from tests.support.workspaces import WORKSPACE_ID

from codehub.core.explain import Ask
from codehub.web.actions import ROUTES


def test_every_action_has_a_route_of_its_own() -> None:
    assert set(ROUTES) == set(Ask) - {Ask.TRY_NOW}  # a label: it is the same wish once more
    assert len({(route.method, route.place) for route in ROUTES.values()}) == len(ROUTES)


@pytest.mark.parametrize(
    ("ask", "method", "place"),
    [
        (Ask.START, "POST", ":start"),
        (Ask.ADOPT, "POST", ":recover?adopt=true"),
        (Ask.TAKE_NEWEST, "POST", ":recover?take=newest"),
        (Ask.ACCEPT_LOSS, "POST", ":recover?accept_loss=true"),
        (Ask.DELETE, "DELETE", ""),
        (Ask.PURGE, "DELETE", "?purge=true"),
    ],
)
def test_an_action_has_the_method_and_path_of_the_wire(ask: Ask, method: str, place: str) -> None:
    route = ROUTES[ask]
    assert (route.method, route.path(WORKSPACE_ID)) == (method, f"/api/v1/workspaces/{WORKSPACE_ID}{place}")
