"""Answers to requests from one origin of a workspace to another: what makes a browser show them there, and
nowhere else. Which request it is, and whether it may be, is decided before.
"""

import re
from dataclasses import replace

from codehub.core.cross_port import Crossing, read_crossing
from codehub.core.origins import WorkspaceOrigins
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.responses import HeadChange
from codehub.proxy.engine.targets import Answer
from codehub.proxy.policy.pages import NO_FRAMES
from codehub.proxy.policy.visits import Entry, visit_of

_POLICY = "Content-Security-Policy"
_PREFLIGHT_LASTS_S = 60
_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?: *, *[A-Za-z0-9!#$%&'*+.^_`|~-]+)*")


def crossing_of(entry: Entry, origins: WorkspaceOrigins) -> Crossing | None:
    route = entry.route
    if route.label is None or entry.action is not None:
        return None
    return read_crossing(entry.visit, route.label, route.port, origins)


def change_of(crossing: Crossing, head: RequestHead, origins: WorkspaceOrigins) -> HeadChange:
    """Return what an answer says beside what its server says, or in place of it."""
    if crossing is Crossing.FRAME:  # a frame of anybody else's: the browser shows nothing
        return HeadChange({_POLICY: f"frame-ancestors {origins.origin_of(head.route.label)}"})
    return HeadChange(
        {
            "Access-Control-Allow-Origin": visit_of(head).origin,
            "Access-Control-Allow-Credentials": "true",
            "Vary": "Origin",
        },
        without=frozenset({b"access-control-allow-origin", b"access-control-allow-credentials"}),
    )


def change_answer(answer: Answer, change: HeadChange | None) -> Answer:
    """Return an answer of our own so. Our pages allow no frames of their own accord."""
    if change is None:
        return answer
    headers = {**answer.headers, **change.lines}
    if _POLICY in change.lines and (policy := answer.headers.get(_POLICY)):
        headers[_POLICY] = policy.replace(NO_FRAMES, change.lines[_POLICY])
    return replace(answer, headers=headers)


def preflight_answer(head: RequestHead, change: HeadChange) -> Answer:
    """Allow what the browser asks for. What comes then must show a door."""
    headers = dict(change.lines)
    for name in ("Method", "Headers"):
        asked = head.noted(f"access-control-request-{name.lower()}".encode()).decode("latin-1")
        if _NAMES.fullmatch(asked):
            headers[f"Access-Control-Allow-{name}{'s' if name == 'Method' else ''}"] = asked
    return Answer(204, headers={**headers, "Access-Control-Max-Age": str(_PREFLIGHT_LASTS_S)})
