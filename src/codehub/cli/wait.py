"""Waiting: a workspace and what it is to become in, each state on the way out, until it is there, failed, or time is up.

The stream of events says when something happened; what it is, the workspace itself says. A cut stream only costs time.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from codehub.cli.client import Client, Stream
from codehub.cli.failures import Failed
from codehub.core.operations import NEXT, DesiredState, Operation, Phase

WorkspaceView = Mapping[str, Any]
_SILENCE_S_MAX = 75.0  # heartbeats come every 30 s
_AWAY_S_MAX = 60.0
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Goal:
    """What was asked for: a wish, or to be gone. An error that was there when it was asked is not the answer."""

    wish: str | None
    old_error_at: str | None = None

    @classmethod
    def of(cls, answer: WorkspaceView, *, is_deletion: bool = False) -> "Goal":
        error = answer["error"]
        return cls(
            None if is_deletion else answer["desired_state"], None if error is None else error["occurred_at"]
        )


def has_arrived(shown: WorkspaceView, goal: Goal) -> bool:
    """Say whether it is there. Raises Failed when it will not get there by itself."""
    name, error = shown["name"], shown["error"]
    if shown["phase"] == Phase.ERROR and error is not None and error["occurred_at"] != goal.old_error_at:
        raise Failed(
            "WAITED_INTO_ERROR",
            f"{name} {failed_at(error)}: {error['reason']}: {error['message']}",
            error,
            do=f"codehub explain {shown['id']}",
        )
    if goal.wish is None:
        if shown["deleted_at"] is None:
            raise Failed("OVERTAKEN", f"The deletion of {name} was undone meanwhile.")
        return bool(shown["phase"] == Phase.DELETED)
    if shown["deleted_at"] is not None:
        raise Failed("OVERTAKEN", f"{name} is being deleted.")
    if shown["desired_state"] != goal.wish:
        raise Failed(
            "OVERTAKEN", f"Meanwhile somebody wants {name} {shown['desired_state']}, not {goal.wish}."
        )
    if shown["operation"] != Operation.NONE or shown["phase"] not in NEXT:
        return False
    return NEXT[Phase(shown["phase"])][DesiredState(goal.wish)] is Operation.NONE


def failed_at(error: WorkspaceView) -> str:
    """Say what failed: an operation, or nothing that anybody did."""
    return "is in ERROR" if error["operation"] == Operation.NONE else f"failed while {error['operation']}"


def carry_out(
    client: Client,
    shown: WorkspaceView,
    ask: Callable[[], WorkspaceView],
    timeout_s: float | None,
    *,
    is_deletion: bool = False,
) -> Iterator[WorkspaceView]:
    """Ask, once what is under way is done or held up, and yield each state until what was asked for is there."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (answer := _asked(ask)) is None:
        for state in _changes(client, _now(client, shown), deadline):
            yield state
            if state["operation"] == Operation.NONE or state["held_up"] is not None:
                break
    goal = Goal.of(answer, is_deletion=is_deletion)
    for state in _changes(client, answer, deadline):
        yield state
        if has_arrived(state, goal):
            return


def _asked(ask: Callable[[], WorkspaceView]) -> WorkspaceView | None:
    """Return the answer, or None while an operation is under way."""
    try:
        return ask()
    except Failed as failed:
        if failed.code != "OPERATION_IN_PROGRESS":
            raise
        return None


def _changes(client: Client, shown: WorkspaceView, deadline: float | None) -> Iterator[WorkspaceView]:
    last: WorkspaceView | None = None
    for state in _states(client, shown, deadline):
        if state != last:
            last = state
            yield state


def _states(client: Client, shown: WorkspaceView, deadline: float | None) -> Iterator[WorkspaceView]:
    yield shown
    me = client.ask("GET", "/session")["user"]["id"]
    owner = "me" if shown["owner"]["id"] == me else "all"
    away_since: float | None = None
    while True:
        try:
            for state in _streamed(client, shown, owner, deadline):
                away_since = None
                shown = state
                yield shown
        except Failed as failed:
            if failed.code not in ("UNREACHABLE", "UNAVAILABLE"):
                raise
            now = time.monotonic()
            away_since = away_since or now
            if now - away_since > _AWAY_S_MAX:
                raise
        if (left := _left(deadline)) <= 0:
            raise _timed_out(shown)
        time.sleep(min(_AGAIN_S, left))


def _streamed(
    client: Client, shown: WorkspaceView, owner: str, deadline: float | None
) -> Iterator[WorkspaceView]:
    """Yield the workspace as it is, then as it becomes. Returns when the stream ends."""
    with client.stream("/events", owner=owner) as stream:
        for kind, data in _events(stream, deadline):
            after = _now(client, shown) if kind == "connected" else _after(shown, kind, data)
            if after is not None:
                shown = after
                yield shown


def _after(shown: WorkspaceView, kind: str, data: Mapping[str, Any]) -> WorkspaceView | None:
    """Return the workspace as an event leaves it; None if the event says nothing new of it."""
    if data.get("id") != shown["id"]:
        return None
    match kind:
        case "workspace_updated":
            return None if _is_older(data, shown) else data
        case "workspace_progress":
            return {**shown, "progress": {name: value for name, value in data.items() if name != "id"}}
        case "workspace_deleted":
            return _deleted(shown)
        case _:
            return None


def _is_older(one: WorkspaceView, other: WorkspaceView) -> bool:
    """An event that was under way when the workspace was read tells what is past."""
    return datetime.fromisoformat(one["updated_at"]) < datetime.fromisoformat(other["updated_at"])


def _now(client: Client, shown: WorkspaceView) -> WorkspaceView:
    try:
        now: WorkspaceView = client.ask("GET", f"/workspaces/{shown['id']}")
    except Failed as failed:
        if failed.code != "WORKSPACE_NOT_FOUND":
            raise
        return _deleted(shown)
    return now


def _deleted(shown: WorkspaceView) -> WorkspaceView:
    return {
        **shown,
        "phase": Phase.DELETED.value,
        "display": Phase.DELETED.value,
        "operation": "NONE",
        "held_up": None,
    }


def _events(stream: Stream, deadline: float | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read server-sent events until time is up. The first message, whatever it is, says that nothing will be missed from now on."""
    is_first, kind, data = True, "", ""
    while (left := _left(deadline)) > 0 and (raw := stream.readline(min(_SILENCE_S_MAX, left))):
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line:
            name, _, value = line.partition(": ")
            kind, data = (value if name == "event" else kind), (value if name == "data" else data)
            continue
        if is_first:
            is_first = False
            yield "connected", {}
        if kind:
            yield kind, json.loads(data or "{}")
        kind, data = "", ""


def _left(deadline: float | None) -> float:
    return float("inf") if deadline is None else deadline - time.monotonic()


def _timed_out(shown: WorkspaceView) -> Failed:
    doing = shown["display"] if shown["operation"] == "NONE" else f"{shown['display']}, {shown['operation']}"
    return Failed(
        "TIMED_OUT",
        f"{shown['name']} is not there yet: {doing}. It goes on by itself.",
        {"id": shown["id"], "phase": shown["phase"], "operation": shown["operation"]},
        do=f"codehub explain {shown['id']}",
    )
