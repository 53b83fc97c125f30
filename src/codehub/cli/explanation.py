"""`codehub explain`: where a workspace is, where it should be,
what is done about it, and why it is not there yet.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import typer

from codehub.cli.find import command_argument, find_workspace
from codehub.cli.formatting import actor, ago, clock, harmless, state, why
from codehub.cli.language import say
from codehub.cli.options import NAME, OWNER
from codehub.cli.output import JSON, client_for
from codehub.cli.tables import colour, pairs, pairs_of, plain
from codehub.core.operations import DesiredState, Phase, destination
from codehub.web.actions import ROUTES


def explain(
    name: str = NAME,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        explanation = client.ask("GET", f"/workspaces/{workspace['id']}/explain")
        if json:
            output.result(explanation)
        else:
            output.show(
                render_explanation(
                    workspace, explanation, client.now, called=command_argument(workspace, name, owner)
                )
            )


def add_to(cli: typer.Typer) -> None:
    cli.command()(explain)


def render_explanation(
    workspace: Mapping[str, Any], explanation: Mapping[str, Any], now: datetime | None, *, called: str
) -> str:
    """`called`: how a command names it."""
    workspace, explanation = harmless(workspace), harmless(explanation)
    parts = [
        _headline(workspace, explanation),
        pairs(
            {
                "doing": _operation_text(explanation),
                "why": explanation["next"]["why"],
                "waits for": explanation["waiting_for"],
                "since": None
                if explanation["since"] is None
                else f"{clock(explanation['since'])} ({ago(explanation['since'], now)})",
                "error": _error(explanation["error"], now),
            }
        ),
    ]
    if explanation["actions"]:
        parts.append(
            say("explain.actions")
            + "\n"
            + _indent(plain(_actions(workspace, explanation["actions"], called)))
        )
    if explanation["decisions"]:
        parts.append(say("explain.decisions") + "\n" + _indent(_decisions(explanation["decisions"])))
    return "\n\n".join(parts)


def _headline(workspace: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    name, is_now = workspace["name"], colour(workspace["display"], state(workspace))
    if workspace["deleted_at"] is not None:
        return say("explain.goes", name=name, state=is_now)
    goal = destination(Phase(explanation["phase"]), DesiredState(explanation["desired_state"]))
    if goal == explanation["phase"]:
        return say("explain.rests", name=name, state=is_now)
    return say("explain.moves", name=name, state=is_now, goal=colour(goal))


def _operation_text(explanation: Mapping[str, Any]) -> str:
    if explanation["operation"] != "NONE":
        return str(explanation["operation"])
    upcoming = explanation["next"]["operation"]
    return say("explain.nothing") if upcoming == "NONE" else say("explain.next", operation=upcoming)


def _error(error: Mapping[str, Any] | None, now: datetime | None) -> str | None:
    if error is None:
        return None
    head = [error["reason"], ago(error["occurred_at"], now)]
    if error["operation"] != "NONE":
        head[0] = say("explain.error", reason=error["reason"], operation=error["operation"])
    if error["error_count"] > 1:
        head.append(say("explain.times", count=error["error_count"]))
    return f"{', '.join(head)}\n{error['message']}"


def _actions(
    workspace: Mapping[str, Any], actions: Sequence[Mapping[str, Any]], called: str
) -> list[list[str]]:
    """Say each action as a command; as the API has it, where a newer
    server offers what this command line does not know.
    """
    commands = {(route.method, route.path(workspace["id"])): route.command for route in ROUTES.values()}
    rows = []
    for action in actions:
        request = (action["method"], action["path"])
        command = commands.get(request)
        done_by = " ".join(request) if command is None else f"codehub {command} {called}"
        rows.append([action["label"], done_by])
    return rows


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> str:
    return pairs_of(
        (
            clock(decision["at"]),
            (
                f"{decision['kind']} {decision['from'] or '-'} → {decision['to'] or '-'}, "
                f"{say('explain.by', actor=actor(decision))}\n{why(decision)}"
            ),
        )
        for decision in decisions
    )


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
