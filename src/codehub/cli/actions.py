"""`codehub ws start`, `stop` and so on: a request goes to the API; with --wait its progress is shown."""

from collections.abc import Callable
from typing import Any

import typer

from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.find import command_argument, find_workspace
from codehub.cli.formatting import clock, seconds, state
from codehub.cli.language import say
from codehub.cli.options import DELETED_NAME, NAME, OWNER, TIMEOUT, WAIT, YES
from codehub.cli.output import JSON, Output, client_for, confirm
from codehub.cli.tables import colour
from codehub.core.conditions import Reason
from codehub.core.operations import DesiredState, Phase, destination


def add_to(ws: typer.Typer) -> None:
    for command in (start, stop, archive, recover, awake, delete, undelete, forget):
        ws.command()(command)


def start(
    name: str = NAME, wait: bool = WAIT, timeout: str | None = TIMEOUT, owner: str = OWNER, json: bool = JSON
) -> None:
    _request("start", name, wait, timeout, owner, json)


def stop(
    name: str = NAME, wait: bool = WAIT, timeout: str | None = TIMEOUT, owner: str = OWNER, json: bool = JSON
) -> None:
    _request("stop", name, wait, timeout, owner, json)


def archive(
    name: str = NAME, wait: bool = WAIT, timeout: str | None = TIMEOUT, owner: str = OWNER, json: bool = JSON
) -> None:
    _request("archive", name, wait, timeout, owner, json)


def recover(
    name: str = NAME,
    *,
    accept_loss: bool = typer.Option(False, "--accept-loss"),
    take_newest: bool = typer.Option(False, "--take-newest"),
    adopt: bool = typer.Option(False, "--adopt"),
    yes: bool = YES,
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    fields = [
        field
        for is_chosen, field in (
            (accept_loss, ("accept_loss", True)),
            (take_newest, ("take", "newest")),
            (adopt, ("adopt", True)),
        )
        if is_chosen
    ]
    with client_for(json) as (client, output):
        if len(fields) > 1:
            raise Failed("USAGE", say("recover.one_of"))
        workspace = find_workspace(client, name, owner=owner)
        if accept_loss:
            has_files = workspace["conditions"]["storage.volume_ready"]["reason"] == Reason.UNIDENTIFIED
            deletes = say("recover.loss.deletes") if has_files else ""
            confirm(say("recover.loss", name=workspace["name"]) + deletes, yes)
        if adopt:
            confirm(say("recover.adopt", name=workspace["name"]), yes)
        path, body = f"/workspaces/{workspace['id']}:recover", dict(fields)

        def ask() -> Any:
            return client.ask("POST", path, body)

        run_action(client, output, workspace, ask, wait=wait, timeout=timeout, owner=owner)


def awake(
    name: str = NAME,
    duration: str = typer.Option("1h", "--for", metavar="TIME"),
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        body = {"seconds": seconds(duration, may_be_never=False)}
        answer = client.ask("POST", f"/workspaces/{workspace['id']}:keep_awake", body)
        if json:
            output.result(answer)
            return
        is_up = DesiredState.RUNNING in (answer["phase"], answer["desired_state"])
        name, until = answer["name"], clock(answer["awake_until"])
        if is_up:
            output.show(say("awake", name=name, until=until))
        else:
            output.show(say("awake.later", name=name, state=colour(answer["display"]), until=until))


def delete(
    name: str = NAME,
    purge: bool = typer.Option(False, "--purge"),
    yes: bool = YES,
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = (
            _find_even_deleted(client, name, owner) if purge else find_workspace(client, name, owner=owner)
        )
        if purge:
            confirm(say("purge", name=workspace["name"]), yes)
        path = f"/workspaces/{workspace['id']}"
        answer = run_action(
            client,
            output,
            workspace,
            lambda: client.ask("DELETE", path, purge=purge),
            wait=wait,
            timeout=timeout,
            owner=owner,
            is_deletion=True,
        )
        if not json and not purge:
            _say_how_to_undo(output, answer, owner)


def undelete(
    name: str = DELETED_NAME,
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = _find_even_deleted(client, name, owner)
        path = f"/workspaces/{workspace['id']}:undelete"
        run_action(
            client,
            output,
            workspace,
            lambda: client.ask("POST", path),
            wait=wait,
            timeout=timeout,
            owner=owner,
        )


def forget(
    name: str = NAME,
    yes: bool = YES,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        confirm(say("forget", name=workspace["name"]), yes)
        answer = client.ask("POST", f"/workspaces/{workspace['id']}:forget")
        if json:
            output.result(answer)
        else:
            output.show(say("forgotten", name=answer["name"]))
            _say_how_to_undo(output, answer, owner)


def _say_how_to_undo(output: Output, workspace: dict[str, Any], owner: str) -> None:
    command = f"codehub ws undelete {command_argument(workspace, workspace['id'], owner)}"
    if workspace["purge_at"] is None:
        output.say(say("undo.always", command=command))
    else:
        output.say(say("undo", until=clock(workspace["purge_at"]), command=command))


def run_action(
    client: Client,
    output: Output,
    workspace: dict[str, Any],
    ask: Callable[[], dict[str, Any]],
    *,
    wait: bool,
    timeout: str | None,
    owner: str = "me",
    is_deletion: bool = False,
) -> dict[str, Any]:
    """Send a request, and print the answer at once, or with --wait the result. Wrong usage sends nothing."""
    limit_s = None if timeout is None else seconds(timeout, may_be_never=False)
    if not wait and limit_s is not None:
        raise Failed("USAGE", say("timeout.without_wait"))
    try:
        return _send_and_follow(client, output, workspace, ask, limit_s, wait=wait, is_deletion=is_deletion)
    except Failed as error:
        error.do = error.do or _remedy(error, owner)
        raise


def _send_and_follow(
    client: Client,
    output: Output,
    workspace: dict[str, Any],
    ask: Callable[[], dict[str, Any]],
    limit_s: int | None,
    *,
    wait: bool,
    is_deletion: bool,
) -> dict[str, Any]:
    if not wait:
        answer = ask()
        if output.as_json:
            output.result(answer)
        else:
            output.show(_describe(answer))
        return answer
    from codehub.cli.progress import watch
    from codehub.cli.wait import request_and_wait

    states = request_and_wait(client, workspace, ask, limit_s, is_deletion=is_deletion)
    if output.as_json:
        last = workspace
        for workspace_state in states:
            last = dict(workspace_state)
            output.line(last)
        return last
    try:
        last = dict(watch(states))
    except KeyboardInterrupt:
        output.say(say("no_longer_waits", name=workspace["name"]))
        raise
    output.show(say("is", name=last["name"], state=colour(last["display"])))
    return last


def _request(action: str, name: str, wait: bool, timeout: str | None, owner: str, json: bool) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        path = f"/workspaces/{workspace['id']}:{action}"

        def ask() -> Any:
            return client.ask("POST", path)

        last = run_action(client, output, workspace, ask, wait=wait, timeout=timeout, owner=owner)
        if action == "start" and wait and not json:
            output.show(last["url"])


def _remedy(error: Failed, owner: str) -> str | None:
    if error.code == "OPERATION_IN_PROGRESS":
        return say("waited_for_first")
    if error.code == "LIMIT_EXCEEDED" and isinstance(error.details, dict):
        running = error.details.get("running") or []
        return (
            "\n  → ".join(
                f"codehub ws stop {command_argument(running_workspace, running_workspace['name'], owner)}"
                for running_workspace in running
            )
            or None
        )
    return None


def _describe(answer: dict[str, Any]) -> str:
    name, current_state = answer["name"], colour(answer["display"], state(answer))
    if answer["deleted_at"] is not None:
        return say("will_be_deleted", name=name, state=current_state)
    goal = _goal(answer)
    if goal == answer["phase"] and answer["operation"] == "NONE":
        return say("is", name=name, state=current_state)
    return say("will_be", name=name, goal=colour(goal), state=current_state)


def _goal(answer: dict[str, Any]) -> Phase:
    """Return where it will be.

    What comes back from the trash and never held a file has no archive to rest in.
    """
    phase, wish = Phase(answer["phase"]), DesiredState(answer["desired_state"])
    if phase is Phase.DELETED and answer["archive_key"] is None:
        return destination(Phase.PENDING, wish)
    return destination(phase, wish)


def _find_even_deleted(client: Client, name: str, owner: str) -> dict[str, Any]:
    """Find it in the trash, or among what is still being deleted."""
    try:
        return find_workspace(client, name, owner=owner)
    except Failed as error:
        if error.code != "WORKSPACE_NOT_FOUND":
            raise
    return find_workspace(client, name, owner=owner, deleted=True)
