"""`codehub ws`: making, looking at and changing workspaces."""

import sys
from collections.abc import Iterator
from typing import Any

import typer

from codehub.cli import actions, ports
from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.find import command_argument, find_workspace
from codehub.cli.formatting import harmless_bytes, seconds
from codehub.cli.language import say
from codehub.cli.options import NAME, OWNER, TIMEOUT, WAIT
from codehub.cli.output import JSON, Output, client_for, is_terminal, open_in_browser
from codehub.cli.tables import show_table
from codehub.cli.usage import Commands
from codehub.cli.views import details, history, list_rows
from codehub.http_client import Unreachable

ws = Commands()

_IDE = typer.Option(None, "--ide", metavar="IDE", show_default=False)
_IMAGE = typer.Option(None, "--image", metavar="IMAGE", show_default=False)
_MEMORY = typer.Option(None, "--memory", metavar="MB", show_default=False)
_CPUS = typer.Option(None, "--cpus", metavar="N", show_default=False)
_PIDS = typer.Option(None, "--pids", metavar="N", show_default=False)
_DISK = typer.Option(None, "--disk-mb", metavar="MB", show_default=False)
_DESCRIPTION = typer.Option(None, "--description", metavar="TEXT", show_default=False)
_MEMO = typer.Option(None, "--memo", metavar="TEXT", show_default=False)
_SLEEP = typer.Option(None, "--sleep-after", metavar="TIME", show_default=False)
_TAB = typer.Option(None, "--tab-script/--no-tab-script", show_default=False)
_CROSS_PORT = typer.Option(None, "--cross-port-access/--no-cross-port-access", show_default=False)
_ARCHIVE = typer.Option(None, "--archive-after", metavar="TIME", show_default=False)


@ws.command()
def create(
    name: str = typer.Argument(show_default=False, metavar="NAME"),
    *,
    ide: str | None = _IDE,
    image: str | None = _IMAGE,
    memory: int | None = _MEMORY,
    cpus: float | None = _CPUS,
    pids: int | None = _PIDS,
    disk_mb: int | None = _DISK,
    sleep_after: str | None = _SLEEP,
    archive_after: str | None = _ARCHIVE,
    description: str | None = _DESCRIPTION,
    memo: str | None = _MEMO,
    tab_script: bool | None = _TAB,
    cross_port_access: bool | None = _CROSS_PORT,
    backend: str | None = typer.Option(None, "--backend", metavar="BACKEND", show_default=False),
    storage: str | None = typer.Option(None, "--storage", metavar="BACKEND", show_default=False),
    no_start: bool = typer.Option(False, "--no-start"),
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    json: bool = JSON,
) -> None:
    from uuid import uuid4

    with client_for(json) as (client, output):
        fields = _drop_missing(
            name=name,
            instance_backend=backend,
            storage_backend=storage,
            desired_state="PENDING" if no_start else None,
            image_ref=image,
            ide=ide,
            description=description,
            memo=memo,
            tab_script=tab_script,
            cross_port_access=cross_port_access,
            resources=_resources(memory, cpus, pids, disk_mb),
        ) | _lifetimes(sleep_after, archive_after)
        headers = {"Idempotency-Key": str(uuid4())}

        def ask() -> Any:
            return client.ask("POST", "/workspaces", fields, headers=headers)

        created = actions.run_action(client, output, fields, ask, wait=wait, timeout=timeout)
        if not json:
            output.show(created["url"])


@ws.command()
def change(
    name: str = NAME,
    *,
    new_name: str | None = typer.Option(None, "--name", metavar="NAME", show_default=False),
    ide: str | None = _IDE,
    image: str | None = _IMAGE,
    memory: int | None = _MEMORY,
    cpus: float | None = _CPUS,
    pids: int | None = _PIDS,
    disk_mb: int | None = _DISK,
    sleep_after: str | None = _SLEEP,
    archive_after: str | None = _ARCHIVE,
    description: str | None = _DESCRIPTION,
    memo: str | None = _MEMO,
    tab_script: bool | None = _TAB,
    cross_port_access: bool | None = _CROSS_PORT,
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        fields = _drop_missing(
            name=new_name,
            image_ref=image,
            ide=ide,
            description=description,
            memo=memo,
            tab_script=tab_script,
            cross_port_access=cross_port_access,
            resources=_resources(memory, cpus, pids, disk_mb),
        ) | _lifetimes(sleep_after, archive_after)
        if not fields:
            raise Failed("USAGE", say("nothing_to_change"))
        workspace = find_workspace(client, name, owner=owner)
        headers = {"If-Match": f'"{workspace["revision"]}"'}
        answer = client.ask("PATCH", f"/workspaces/{workspace['id']}", fields, headers=headers)
        if json:
            output.result(answer)
        else:
            output.show(say("changed", fields=", ".join(fields), name=answer["name"]))


@ws.command()
def pin(name: str = NAME, owner: str = OWNER, json: bool = JSON) -> None:
    _pin(name, owner, is_pinned=True, json=json)


@ws.command()
def unpin(name: str = NAME, owner: str = OWNER, json: bool = JSON) -> None:
    _pin(name, owner, is_pinned=False, json=json)


def _pin(name: str, owner: str, *, is_pinned: bool, json: bool) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        answer = client.ask("PATCH", f"/workspaces/{workspace['id']}", {"pinned": is_pinned})
        if json:
            output.result(answer)
        else:
            output.show(say("pinned" if is_pinned else "unpinned", name=answer["name"]))


@ws.command("list")
def list_workspaces(
    query: str | None = typer.Option(None, "--query", "-q", metavar="WORDS", show_default=False),
    phase: str | None = typer.Option(None, "--phase", metavar="PHASE", show_default=False),
    owner: str = typer.Option("me", "--owner", metavar="WHO"),
    deleted: bool = typer.Option(False, "--deleted"),
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        phase_name = None if phase is None else phase.upper()
        items = list(client.pages("/workspaces", q=query, phase=phase_name, owner=owner, deleted=deleted))
        if json:
            output.result(items)
        elif items:
            headings, rows = list_rows(items, client.now, owned=owner != "me", deleted=deleted)
            drops = [heading for heading in ("ID", "IDE", "SLEEPS") if heading in headings]
            drops_last = [heading for heading in ("PINNED", "LAST USED") if heading in headings]
            show_table(headings, rows, drops=drops, drops_last=drops_last)
        elif deleted:
            output.say(say("list.no_trash"))
        elif query or phase or owner != "me":
            output.say(say("list.no_match"))
        else:
            output.say(say("list.none"))


@ws.command()
def show(name: str = NAME, owner: str = OWNER, json: bool = JSON) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        if json:
            output.result(workspace)
        else:
            output.show(details(workspace, client.now))


@ws.command("open")
def open_workspace(
    name: str = NAME,
    no_browser: bool = typer.Option(False, "--no-browser"),
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name)
        if json:
            output.result(workspace)
        else:
            output.show(workspace["url"])
        if workspace["phase"] in ("PENDING", "ARCHIVED", "ERROR"):
            called = command_argument(workspace, name, "me")
            output.say(say("open.is", state=workspace["display"], name=called))
        if not no_browser:
            open_in_browser(workspace["url"])


@ws.command()
def logs(
    name: str = NAME,
    tail: int = typer.Option(200, "--tail", "-n", metavar="LINES"),
    follow: bool = typer.Option(False, "--follow", "-f"),
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        has_no_output = True
        for line in _output(client, output, workspace["id"], tail=tail, follow=follow):
            has_no_output = False
            if json:
                output.line({"line": line.decode("utf-8", "replace").rstrip("\r\n")})
            else:
                sys.stdout.buffer.write(harmless_bytes(line) if is_terminal() else line)
                sys.stdout.buffer.flush()
        if has_no_output:
            output.say(say("logs.none", name=workspace["name"], state=workspace["display"]))


def _output(client: Client, output: Output, workspace_id: str, *, tail: int, follow: bool) -> Iterator[bytes]:
    """Yield it line by line.

    The server ends every answer after a while: what is followed is then followed anew.
    """
    while True:
        with client.stream(f"/workspaces/{workspace_id}/logs", tail=tail, follow=follow) as stream:
            try:
                while line := stream.readline():
                    yield line
            except Unreachable:
                if not follow:
                    raise
            else:
                return
        output.say(say("logs.cut"))
        tail = 0


@ws.command()
def events(
    name: str = NAME,
    limit: int = typer.Option(50, "--limit", "-n", min=1, metavar="N"),
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        newest: list[dict[str, Any]] = []
        for event in client.pages(f"/workspaces/{workspace['id']}/events"):
            if len(newest) >= limit:
                break
            newest.append(event)
        for event in reversed(newest) if json else ():
            output.line(event)
        if newest and not json:
            show_table(*history(list(reversed(newest))), drops=("WHAT",), drops_last=("BY", "CHANGE"))


actions.add_to(ws)
ports.add_to(ws)


def _drop_missing(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _resources(
    memory: int | None, cpus: float | None, pids: int | None, disk_mb: int | None
) -> dict[str, float] | None:
    return _drop_missing(memory_mb=memory, cpus=cpus, pids=pids, disk_mb=disk_mb) or None


def _lifetimes(sleep_after: str | None, archive_after: str | None) -> dict[str, int | None]:
    durations = _drop_missing(standby_ttl_seconds=sleep_after, archive_ttl_seconds=archive_after)
    return {name: seconds(text, may_be_never=True) for name, text in durations.items()}
