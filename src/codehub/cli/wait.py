"""Waits for a workspace: yields each of its states until the wanted one is reached, it has failed, or time is
up.

An event only shows that something happened; the state is read from the workspace. A cut stream only costs
time.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.language import say
from codehub.core.operations import NEXT, DesiredState, Operation, Phase
from codehub.http_client import Stream

WorkspaceView = Mapping[str, Any]
_SILENCE_S_MAX = 75.0  # heartbeats come every 30 s
_AWAY_S_MAX = 60.0
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Goal:
    """What was requested: a desired state, or deletion.

    An error from before the request is not its result.
    """

    wish: str | None
    old_error_at: str | None = None

    @classmethod
    def of(cls, answer: WorkspaceView, *, is_deletion: bool = False) -> "Goal":
        error = answer["error"]
        return cls(
            None if is_deletion else answer["desired_state"], None if error is None else error["occurred_at"]
        )


def has_arrived(workspace: WorkspaceView, goal: Goal) -> bool:
    """Return whether the goal is reached. Raises Failed when it can't be reached any more."""
    name, error = workspace["name"], workspace["error"]
    if workspace["phase"] == Phase.ERROR and error is not None and error["occurred_at"] != goal.old_error_at:
        raise Failed(
            "WAITED_INTO_ERROR",
            failure_text(name, error),
            error,
            do=f"codehub explain {workspace['id']}",
        )
    if goal.wish is None:
        if workspace["deleted_at"] is None:
            raise Failed("OVERTAKEN", say("overtaken.undone", name=name))
        return bool(workspace["phase"] == Phase.DELETED)
    if workspace["deleted_at"] is not None:
        raise Failed("OVERTAKEN", say("overtaken.deleted", name=name))
    if workspace["desired_state"] != goal.wish:
        raise Failed(
            "OVERTAKEN", say("overtaken.wish", name=name, wish=workspace["desired_state"], goal=goal.wish)
        )
    if workspace["operation"] != Operation.NONE or workspace["phase"] not in NEXT:
        return False
    return NEXT[Phase(workspace["phase"])][DesiredState(goal.wish)] is Operation.NONE


def failure_text(name: str, error: WorkspaceView) -> str:
    """Return what failed, an operation or the workspace without one, and why."""
    facts = {"name": name, "reason": error["reason"], "message": error["message"]}
    if error["operation"] == Operation.NONE:
        return say("failed_in_error", **facts)
    return say("failed_while", **facts, operation=error["operation"])


def request_and_wait(
    client: Client,
    workspace: WorkspaceView,
    ask: Callable[[], WorkspaceView],
    timeout_s: float | None,
    *,
    is_deletion: bool = False,
) -> Iterator[WorkspaceView]:
    """Send the request, after a running operation has ended or is held up, and yield each state until the
    goal.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (answer := _try_request(ask)) is None:
        for state in _changes(client, _read(client, workspace), deadline):
            yield state
            if state["operation"] == Operation.NONE or state["held_up"] is not None:
                break
    goal = Goal.of(answer, is_deletion=is_deletion)
    for state in _changes(client, answer, deadline):
        yield state
        if has_arrived(state, goal):
            return


def _try_request(ask: Callable[[], WorkspaceView]) -> WorkspaceView | None:
    """Return the answer, or None while an operation is under way."""
    try:
        return ask()
    except Failed as error:
        if error.code != "OPERATION_IN_PROGRESS":
            raise
        return None


def _changes(client: Client, workspace: WorkspaceView, deadline: float | None) -> Iterator[WorkspaceView]:
    last: WorkspaceView | None = None
    for state in _states(client, workspace, deadline):
        if state != last:
            last = state
            yield state


def _states(client: Client, workspace: WorkspaceView, deadline: float | None) -> Iterator[WorkspaceView]:
    yield workspace
    own_id = client.ask("GET", "/session")["user"]["id"]
    owner = "me" if workspace["owner"]["id"] == own_id else "all"
    away_since: float | None = None
    while True:
        try:
            for state in _follow_stream(client, workspace, owner, deadline):
                away_since = None
                workspace = state
                yield workspace
        except Failed as error:
            if error.code not in ("UNREACHABLE", "UNAVAILABLE"):
                raise
            now = time.monotonic()
            away_since = away_since or now
            if now - away_since > _AWAY_S_MAX:
                raise
        if (remaining_s := _remaining_s(deadline)) <= 0:
            raise _timed_out(workspace)
        time.sleep(min(_AGAIN_S, remaining_s))


def _follow_stream(
    client: Client, workspace: WorkspaceView, owner: str, deadline: float | None
) -> Iterator[WorkspaceView]:
    """Yield the workspace as it is, then as it becomes. Returns when the stream ends."""
    with client.stream("/events", owner=owner) as stream:
        for kind, data in _events(stream, deadline):
            changed = _read(client, workspace) if kind == "connected" else _apply_event(workspace, kind, data)
            if changed is not None:
                workspace = changed
                yield workspace


def _apply_event(workspace: WorkspaceView, kind: str, data: Mapping[str, Any]) -> WorkspaceView | None:
    """Return the workspace as an event leaves it; None if the event says nothing new of it."""
    if data.get("id") != workspace["id"]:
        return None
    match kind:
        case "workspace_updated":
            return None if _is_older(data, workspace) else data
        case "workspace_progress":
            return {**workspace, "progress": {name: value for name, value in data.items() if name != "id"}}
        case "workspace_deleted":
            return _as_deleted(workspace)
        case _:
            return None


def _is_older(state: WorkspaceView, current: WorkspaceView) -> bool:
    """Return whether an event is older than the workspace as it was read."""
    return datetime.fromisoformat(state["updated_at"]) < datetime.fromisoformat(current["updated_at"])


def _read(client: Client, workspace: WorkspaceView) -> WorkspaceView:
    try:
        now: WorkspaceView = client.ask("GET", f"/workspaces/{workspace['id']}")
    except Failed as error:
        if error.code != "WORKSPACE_NOT_FOUND":
            raise
        return _as_deleted(workspace)
    return now


def _as_deleted(workspace: WorkspaceView) -> WorkspaceView:
    return {
        **workspace,
        "phase": Phase.DELETED.value,
        "display": Phase.DELETED.value,
        "operation": "NONE",
        "held_up": None,
    }


def _events(stream: Stream, deadline: float | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read server-sent events until time is up.

    The first message, whatever it is, says that nothing will be missed from now on.
    """
    is_first, kind, data = True, "", ""
    while (remaining_s := _remaining_s(deadline)) > 0 and (
        raw := stream.readline(min(_SILENCE_S_MAX, remaining_s))
    ):
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


def _remaining_s(deadline: float | None) -> float:
    return float("inf") if deadline is None else deadline - time.monotonic()


def _timed_out(workspace: WorkspaceView) -> Failed:
    doing = (
        workspace["display"]
        if workspace["operation"] == "NONE"
        else f"{workspace['display']}, {workspace['operation']}"
    )
    return Failed(
        "TIMED_OUT",
        say("timed_out", name=workspace["name"], doing=doing),
        {"id": workspace["id"], "phase": workspace["phase"], "operation": workspace["operation"]},
        do=f"codehub explain {workspace['id']}",
    )
