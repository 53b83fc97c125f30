"""`codehub ws start`, `stop` and so on: a wish goes to the API; who waits sees how it comes true."""

from collections.abc import Callable
from typing import Any

import typer

from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.find import find_workspace, spelled
from codehub.cli.options import DELETED_NAME, NAME, OWNER, TIMEOUT, WAIT, YES
from codehub.cli.output import JSON, Output, be_sure, client_for
from codehub.cli.tables import coloured
from codehub.cli.words import clock, seconds, state
from codehub.core.conditions import Reason
from codehub.core.operations import DesiredState, Phase, destination


def add_to(ws: typer.Typer) -> None:
    for command in (start, stop, archive, recover, awake, delete, undelete, forget):
        ws.command()(command)


def start(
    name: str = NAME, wait: bool = WAIT, timeout: str | None = TIMEOUT, owner: str = OWNER, json: bool = JSON
) -> None:
    """Start a workspace, from wherever it is: what was archived is restored first."""
    _wish("start", name, wait, timeout, owner, json)


def stop(
    name: str = NAME, wait: bool = WAIT, timeout: str | None = TIMEOUT, owner: str = OWNER, json: bool = JSON
) -> None:
    """Stop a workspace. Its files stay where they are, and the next visit wakes it."""
    _wish("stop", name, wait, timeout, owner, json)


def archive(
    name: str = NAME, wait: bool = WAIT, timeout: str | None = TIMEOUT, owner: str = OWNER, json: bool = JSON
) -> None:
    """Stop a workspace and put its files into the archive."""
    _wish("archive", name, wait, timeout, owner, json)


def recover(
    name: str = NAME,
    *,
    accept_loss: bool = typer.Option(
        False, "--accept-loss", help="Go on without what is gone. Asks first; --yes does not."
    ),
    take_newest: bool = typer.Option(
        False, "--take-newest", help="Go on with the newest archive, though the database names an older one."
    ),
    adopt: bool = typer.Option(
        False, "--adopt", help="Go on with the volume that is there, whose identity is lost. Asks first."
    ),
    yes: bool = YES,
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    """Drop a workspace's error and judge it anew, from what is there."""
    chosen = [
        field
        for is_chosen, field in (
            (accept_loss, ("accept_loss", True)),
            (take_newest, ("take", "newest")),
            (adopt, ("adopt", True)),
        )
        if is_chosen
    ]
    with client_for(json) as (client, speech):
        if len(chosen) > 1:
            raise Failed("USAGE", "choose one of --accept-loss, --take-newest and --adopt")
        shown = find_workspace(client, name, owner=owner)
        if accept_loss:
            there = shown["conditions"]["storage.volume_ready"]["reason"] == Reason.UNIDENTIFIED
            deletes = (
                " Its files that are still there are deleted (--adopt goes on with them)." if there else ""
            )
            be_sure(f"Go on without what {shown['name']} has lost?{deletes}", yes)
        if adopt:
            be_sure(f"Take the volume that is there for the home of {shown['name']}?", yes)
        path, body = f"/workspaces/{shown['id']}:recover", dict(chosen)

        def ask() -> Any:
            return client.ask("POST", path, body)

        carry(client, speech, shown, ask, wait=wait, timeout=timeout, owner=owner)


def awake(
    name: str = NAME,
    how_long: str = typer.Option("1h", "--for", metavar="TIME", help="How long: 30m, 2h; 12h at most."),
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    """Keep a running workspace from falling asleep for a while."""
    with client_for(json) as (client, speech):
        shown = find_workspace(client, name, owner=owner)
        body = {"seconds": seconds(how_long, may_be_never=False)}
        answer = client.ask("POST", f"/workspaces/{shown['id']}:keep_awake", body)
        if json:
            speech.result(answer)
            return
        is_up = DesiredState.RUNNING in (answer["phase"], answer["desired_state"])
        asleep = "" if is_up else f" is {coloured(answer['display'])}. Once started, it"
        speech.show(f"{answer['name']}{asleep} stays awake until {clock(answer['awake_until'])}.")


def delete(
    name: str = NAME,
    purge: bool = typer.Option(False, "--purge", help="Keep nothing: this can't be undone. Asks first."),
    yes: bool = YES,
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    """Delete a workspace. Its last archive is kept for a while, and `undelete` undoes the deletion."""
    with client_for(json) as (client, speech):
        shown = (
            _find_even_deleted(client, name, owner) if purge else find_workspace(client, name, owner=owner)
        )
        if purge:
            be_sure(f"Purge {shown['name']}? Its files are gone for good", yes)
        path = f"/workspaces/{shown['id']}"
        answer = carry(
            client,
            speech,
            shown,
            lambda: client.ask("DELETE", path, purge=purge),
            wait=wait,
            timeout=timeout,
            owner=owner,
            is_deletion=True,
        )
        if not json and not purge:
            until = "" if answer["purge_at"] is None else f"Until {clock(answer['purge_at'])} "
            undo = f"codehub ws undelete {spelled(answer, answer['id'], owner)}"
            speech.say(f"{until}this can be undone: {undo}")


def undelete(
    name: str = DELETED_NAME,
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    """Undo a deletion. `codehub ws list --deleted` shows which can be undone."""
    with client_for(json) as (client, speech):
        shown = _find_even_deleted(client, name, owner)
        path = f"/workspaces/{shown['id']}:undelete"
        carry(
            client, speech, shown, lambda: client.ask("POST", path), wait=wait, timeout=timeout, owner=owner
        )


def forget(
    name: str = NAME,
    yes: bool = YES,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    """Give up on a deletion that a dead backend holds up (admins). No file goes: `codehub gc` lists what is left."""
    with client_for(json) as (client, speech):
        shown = find_workspace(client, name, owner=owner)
        be_sure(f"Forget {shown['name']}? Whatever its backend still holds stays behind", yes)
        answer = client.ask("POST", f"/workspaces/{shown['id']}:forget")
        if json:
            speech.result(answer)
        else:
            speech.show(f"{answer['name']} is forgotten. `codehub gc` lists what is left of it.")
        if not json and answer["purge_at"] is not None:
            undo = f"codehub ws undelete {spelled(answer, answer['id'], owner)}"
            speech.say(f"Until {clock(answer['purge_at'])} this can be undone: {undo}")


def carry(
    client: Client,
    speech: Output,
    shown: dict[str, Any],
    ask: Callable[[], dict[str, Any]],
    *,
    wait: bool,
    timeout: str | None,
    owner: str = "me",
    is_deletion: bool = False,
) -> dict[str, Any]:
    """Ask for something, and say what became of it: at once, or when it has come true. Nothing is asked for by wrong usage."""
    limit_s = None if timeout is None else seconds(timeout, may_be_never=False)
    if not wait and limit_s is not None:
        raise Failed("USAGE", "--timeout says how long to --wait")
    try:
        return _carried(client, speech, shown, ask, limit_s, wait=wait, is_deletion=is_deletion)
    except Failed as failed:
        failed.do = failed.do or _remedy(failed, owner)
        raise


def _carried(
    client: Client,
    speech: Output,
    shown: dict[str, Any],
    ask: Callable[[], dict[str, Any]],
    limit_s: int | None,
    *,
    wait: bool,
    is_deletion: bool,
) -> dict[str, Any]:
    if not wait:
        answer = ask()
        if speech.as_json:
            speech.result(answer)
        else:
            speech.show(_told(answer))
        return answer
    from codehub.cli.progress import watch
    from codehub.cli.wait import carry_out

    states = carry_out(client, shown, ask, limit_s, is_deletion=is_deletion)
    if speech.as_json:
        last = shown
        for state_now in states:
            last = dict(state_now)
            speech.line(last)
        return last
    try:
        last = dict(watch(states))
    except KeyboardInterrupt:
        speech.say(f"You no longer wait for {shown['name']}. It goes on by itself.")
        raise
    speech.show(f"{last['name']} is {coloured(last['display'])}.")
    return last


def _wish(word: str, name: str, wait: bool, timeout: str | None, owner: str, json: bool) -> None:
    with client_for(json) as (client, speech):
        shown = find_workspace(client, name, owner=owner)
        path = f"/workspaces/{shown['id']}:{word}"

        def ask() -> Any:
            return client.ask("POST", path)

        last = carry(client, speech, shown, ask, wait=wait, timeout=timeout, owner=owner)
        if word == "start" and wait and not json:
            speech.show(last["url"])


def _remedy(failed: Failed, owner: str) -> str | None:
    if failed.code == "OPERATION_IN_PROGRESS":
        return "With --wait it is waited for first."
    if failed.code == "LIMIT_EXCEEDED" and isinstance(failed.details, dict):
        running = failed.details.get("running") or []
        return "\n  → ".join(f"codehub ws stop {spelled(one, one['name'], owner)}" for one in running) or None
    return None


def _told(answer: dict[str, Any]) -> str:
    name, is_now = answer["name"], coloured(answer["display"], state(answer))
    if answer["deleted_at"] is not None:
        return f"{name} will be deleted. It is {is_now}."
    goal = _goal(answer)
    if goal == answer["phase"] and answer["operation"] == "NONE":
        return f"{name} is {is_now}."
    return f"{name} will be {coloured(goal)}. It is {is_now}. (--wait shows how far it is.)"


def _goal(answer: dict[str, Any]) -> Phase:
    """Return where it will be. What comes back from the trash and never held a file has no archive to rest in."""
    phase, wish = Phase(answer["phase"]), DesiredState(answer["desired_state"])
    if phase is Phase.DELETED and answer["archive_key"] is None:
        return destination(Phase.PENDING, wish)
    return destination(phase, wish)


def _find_even_deleted(client: Client, name: str, owner: str) -> dict[str, Any]:
    """Find it in the trash, or among what is still being deleted."""
    try:
        return find_workspace(client, name, owner=owner)
    except Failed as failed:
        if failed.code != "WORKSPACE_NOT_FOUND":
            raise
    return find_workspace(client, name, owner=owner, deleted=True)
