"""Where people find a workspace, with origins and without."""

from dataclasses import replace

from tests.support.workspaces import workspace

from codehub.core.addresses import WorkspaceAddresses
from codehub.core.origins import WorkspaceOrigins

BASE = "https://code.example.org"
LABEL = "0123456789abcdef0123"
ROW = replace(workspace(), label=LABEL)
PATH = f"/w/{ROW.id}/"


def test_without_origins_there_is_one_address() -> None:
    addresses = WorkspaceAddresses(BASE, None)
    assert addresses.url_of(ROW) == addresses.path_url_of(ROW) == BASE + PATH
    assert addresses.link_to(ROW) == PATH


def test_with_origins_people_open_its_own_and_the_other_stays() -> None:
    addresses = WorkspaceAddresses(BASE, WorkspaceOrigins("https", "ws.example.net", None))
    assert addresses.url_of(ROW) == addresses.link_to(ROW) == f"https://{LABEL}.ws.example.net/"
    assert addresses.path_url_of(ROW) == BASE + PATH
