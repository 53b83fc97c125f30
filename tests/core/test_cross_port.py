"""Which requests go from one origin of a workspace to another, as the specification says it."""

from dataclasses import replace

import pytest

from codehub.core.cross_port import Crossing, read_crossing
from codehub.core.origins import WorkspaceOrigins
from codehub.core.visit import Visit

LABEL, STRANGERS = "0123456789abcdef0123", "f" * 20
ORIGINS = WorkspaceOrigins("https", "ws.example.net", None)
IDE, API, OTHERS = (
    ORIGINS.origin_of(label, port) for label, port in ((LABEL, None), (LABEL, 8080), (STRANGERS, 8080))
)
FRAME = Visit(fetch_mode="navigate", fetch_dest="iframe", fetch_site="same-site")


@pytest.mark.parametrize(
    ("visit", "crossing"),
    [
        (FRAME, Crossing.FRAME),
        (replace(FRAME, fetch_site="cross-site"), Crossing.FRAME),
        (replace(FRAME, fetch_dest="frame"), Crossing.FRAME),
        (replace(FRAME, fetch_site="same-origin"), None),
        (replace(FRAME, fetch_site="none"), None),
        (replace(FRAME, fetch_dest="document"), None),
        (replace(FRAME, fetch_dest="embed"), None),
        (replace(FRAME, fetch_mode="no-cors"), None),
        (replace(FRAME, method="POST", origin=OTHERS), None),
        (Visit(origin=API, fetch_site="same-site"), Crossing.REQUEST),
        (Visit("POST", origin=API), Crossing.REQUEST),
        (Visit(is_upgrade=True, origin=API), Crossing.REQUEST),
        (Visit("OPTIONS", origin=API), Crossing.REQUEST),
        (Visit("OPTIONS", origin=API, asked_method="PUT"), Crossing.PREFLIGHT),
        (Visit("OPTIONS", origin=OTHERS, asked_method="PUT"), None),
        (Visit(origin=ORIGINS.origin_of(LABEL, 3000)), None),
        (Visit(origin=IDE), None),
        (Visit(origin=OTHERS), None),
        (Visit(origin=API.upper()), None),
        (Visit(origin=API.replace("https", "http")), None),
        (Visit(origin=f"{API}.example.org"), None),
        (Visit(origin="https://code.example.org"), None),
        (Visit(origin="null"), None),
        (Visit(), None),
    ],
)
def test_a_crossing_is_told_by_what_the_browser_says(visit: Visit, crossing: Crossing | None) -> None:
    assert read_crossing(visit, LABEL, 3000, ORIGINS) is crossing


def test_the_ide_is_asked_by_no_port_and_shown_in_no_frame() -> None:
    for visit in (FRAME, Visit(origin=API)):
        assert read_crossing(visit, LABEL, None, ORIGINS) is None
