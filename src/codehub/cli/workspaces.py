"""`codehub ws`: making, looking at and changing workspaces."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import typer

from codehub.cli import actions
from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.find import find_workspace, spelled
from codehub.cli.formatting import harmless_bytes, seconds
from codehub.cli.options import NAME, OWNER, TIMEOUT, WAIT
from codehub.cli.output import JSON, Output, client_for, is_terminal
from codehub.cli.tables import show_table
from codehub.cli.usage import Commands
from codehub.cli.views import details, history, list_rows
from codehub.core.ides import IDES
from codehub.http_client import Unreachable

ws = Commands(
    help="Workspaces: make, open, start, stop, archive, delete them.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

_IDE = typer.Option(None, "--ide", metavar="IDE", help=f"One of {', '.join(IDES)}.", show_default=False)
_IMAGE = typer.Option(
    None, "--image", metavar="IMAGE", help="Its container image (Docker).", show_default=False
)
_MEMORY = typer.Option(None, "--memory", metavar="MB", help="Memory, in MB.", show_default=False)
_CPUS = typer.Option(None, "--cpus", metavar="N", help="Processors, e.g. 1.5.", show_default=False)
_PIDS = typer.Option(None, "--pids", metavar="N", help="Processes at most.", show_default=False)
_DISK = typer.Option(None, "--disk-mb", metavar="MB", help="Disk for its files, in MB.", show_default=False)
_DESCRIPTION = typer.Option(
    None, "--description", metavar="TEXT", help="A line about it.", show_default=False
)
_MEMO = typer.Option(None, "--memo", metavar="TEXT", help="Notes.", show_default=False)
_SLEEP = typer.Option(
    None,
    "--sleep-after",
    metavar="TIME",
    help="Stop it when unused for so long: 30m, 2h, never.",
    show_default=False,
)
_ARCHIVE = typer.Option(
    None,
    "--archive-after",
    metavar="TIME",
    help="Archive it after sleeping for so long: 12h, 7d, never.",
    show_default=False,
)


@ws.command()
def create(
    name: str = typer.Argument(help="What to call it.", show_default=False, metavar="NAME"),
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
    backend: str | None = typer.Option(
        None,
        "--backend",
        metavar="BACKEND",
        help="What runs it: local-process, local-docker.",
        show_default=False,
    ),
    storage: str | None = typer.Option(
        None,
        "--storage",
        metavar="BACKEND",
        help="What holds its files: local-dir, docker-volume, object-store.",
        show_default=False,
    ),
    no_start: bool = typer.Option(False, "--no-start", help="Only make it."),
    wait: bool = WAIT,
    timeout: str | None = TIMEOUT,
    json: bool = JSON,
) -> None:
    """Make a workspace, and start it."""
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
    new_name: str | None = typer.Option(
        None, "--name", metavar="NAME", help="Call it this.", show_default=False
    ),
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
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    """Change a workspace. Image, IDE and resources count from its next start."""
    with client_for(json) as (client, output):
        fields = _drop_missing(
            name=new_name,
            image_ref=image,
            ide=ide,
            description=description,
            memo=memo,
            resources=_resources(memory, cpus, pids, disk_mb),
        ) | _lifetimes(sleep_after, archive_after)
        if not fields:
            raise Failed("USAGE", "nothing to change: see `codehub ws change --help`")
        workspace = find_workspace(client, name, owner=owner)
        headers = {"If-Match": f'"{workspace["revision"]}"'}
        answer = client.ask("PATCH", f"/workspaces/{workspace['id']}", fields, headers=headers)
        if json:
            output.result(answer)
        else:
            output.show(f"Changed {', '.join(fields)} of {answer['name']}.")


@ws.command()
def pin(name: str = NAME, owner: str = OWNER, json: bool = JSON) -> None:
    """Pin a workspace to the top of lists."""
    _pin(name, owner, is_pinned=True, json=json)


@ws.command()
def unpin(name: str = NAME, owner: str = OWNER, json: bool = JSON) -> None:
    """Let a workspace stand in lists by its age again."""
    _pin(name, owner, is_pinned=False, json=json)


def _pin(name: str, owner: str, *, is_pinned: bool, json: bool) -> None:
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        answer = client.ask("PATCH", f"/workspaces/{workspace['id']}", {"pinned": is_pinned})
        if json:
            output.result(answer)
        else:
            output.show(f"{answer['name']} is {'pinned' if is_pinned else 'no longer pinned'}.")


@ws.command("list")
def list_workspaces(
    query: str | None = typer.Option(
        None,
        "--query",
        "-q",
        metavar="WORDS",
        help="Words in the name or the description.",
        show_default=False,
    ),
    phase: str | None = typer.Option(
        None,
        "--phase",
        metavar="PHASE",
        help="RUNNING, STANDBY, ARCHIVED, PENDING or ERROR.",
        show_default=False,
    ),
    owner: str = typer.Option("me", "--owner", metavar="WHO", help="Whose: me, or (admins) a name or all."),
    deleted: bool = typer.Option(False, "--deleted", help="Those whose deletion can be undone, instead."),
    json: bool = JSON,
) -> None:
    """List workspaces, pinned ones first, then the newest."""
    with client_for(json) as (client, output):
        phase_name = None if phase is None else phase.upper()
        items = list(client.pages("/workspaces", q=query, phase=phase_name, owner=owner, deleted=deleted))
        if json:
            output.result(items)
        elif items:
            headings, rows = list_rows(items, client.now, owned=owner != "me", deleted=deleted)
            gives_way = [heading for heading in ("ID", "IDE", "SLEEPS") if heading in headings]
            in_need = [heading for heading in ("PINNED", "LAST USED") if heading in headings]
            show_table(headings, rows, gives_way=gives_way, in_need=in_need)
        elif deleted:
            output.say("The trash is empty.")
        elif query or phase or owner != "me":
            output.say("There is no such workspace.")
        else:
            output.say("You have no workspaces yet. Make one: codehub ws create NAME --wait")


@ws.command()
def show(name: str = NAME, owner: str = OWNER, json: bool = JSON) -> None:
    """Show everything about a workspace."""
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name, owner=owner)
        if json:
            output.result(workspace)
        else:
            output.show(details(workspace, client.now))


@ws.command("open")
def open_workspace(
    name: str = NAME,
    no_browser: bool = typer.Option(False, "--no-browser", help="Only print the address."),
    json: bool = JSON,
) -> None:
    """Print a workspace's address, and open it if there is a browser. The visit wakes it."""
    with client_for(json) as (client, output):
        workspace = find_workspace(client, name)
        if json:
            output.result(workspace)
        else:
            output.show(workspace["url"])
        if workspace["phase"] in ("PENDING", "ARCHIVED", "ERROR"):
            output.say(
                f"It is {workspace['display']}: the page says how to go on, "
                f"or codehub ws start {spelled(workspace, name, 'me')} --wait"
            )
        if not no_browser and _has_browser():
            import webbrowser

            webbrowser.open(workspace["url"])


@ws.command()
def logs(
    name: str = NAME,
    tail: int = typer.Option(200, "--tail", "-n", metavar="LINES", help="How many lines, from the end."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on as it writes more."),
    owner: str = OWNER,
    json: bool = typer.Option(False, "--json", help='Print each line as {"line": …}.'),
) -> None:
    """Print what a workspace's IDE writes."""
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
            output.say(f"{workspace['name']} is {workspace['display']}, and there is no output of it.")


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
        output.say("(cut off, and followed anew: lines may be missing here)")
        tail = 0


@ws.command()
def events(
    name: str = NAME,
    limit: int = typer.Option(50, "--limit", "-n", min=1, metavar="N", help="How many, the newest."),
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    """Print a workspace's history: every wish, operation, phase and error, by whom and why."""
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
            show_table(*history(list(reversed(newest))), gives_way=("WHAT",), in_need=("BY", "CHANGE"))


actions.add_to(ws)


def _drop_missing(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _resources(
    memory: int | None, cpus: float | None, pids: int | None, disk_mb: int | None
) -> dict[str, float] | None:
    return _drop_missing(memory_mb=memory, cpus=cpus, pids=pids, disk_mb=disk_mb) or None


def _lifetimes(sleep_after: str | None, archive_after: str | None) -> dict[str, int | None]:
    durations = _drop_missing(standby_ttl_seconds=sleep_after, archive_ttl_seconds=archive_after)
    return {name: seconds(text, may_be_never=True) for name, text in durations.items()}


def _has_browser() -> bool:
    """Whether a page would open in a window. A text browser in this terminal would only be in the way."""
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
