"""`codehub ws ports`: what listens in a workspace, and who besides its owner may enter it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.find import find_workspace
from codehub.cli.formatting import clock, harmless, seconds
from codehub.cli.language import say
from codehub.cli.options import NAME, OWNER
from codehub.cli.output import JSON, client_for, open_in_browser
from codehub.cli.tables import show_table
from codehub.core.visibility import PORT_MAX, Visibility

_OPEN = typer.Option(None, "--open", metavar="PORT", min=1, max=PORT_MAX, show_default=False)
_SHARE = typer.Option(None, "--share", metavar="PORT WHO", show_default=False)
_UNTIL = typer.Option(None, "--until", metavar="TIME", show_default=False)


def add_to(ws: typer.Typer) -> None:
    ws.command()(ports)


def ports(
    name: str = NAME,
    *,
    open_port: int | None = _OPEN,
    share: tuple[str, str] | None = _SHARE,
    until: str | None = _UNTIL,
    no_browser: bool = typer.Option(False, "--no-browser"),
    owner: str = OWNER,
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        if until is not None and share is None:
            raise Failed("USAGE", say("ports.until"))
        workspace = find_workspace(client, name, owner=owner)
        path = f"/workspaces/{workspace['id']}/ports"
        if share is not None:
            port, body = _parse_share(share, until, client)
            answer = client.ask("PUT", f"{path}/{port}", body)
            if json:
                output.result(answer)
            else:
                output.show(_shared_text(answer))
            return
        items = client.ask("GET", path)["items"]
        if open_port is not None:
            item = _require_listener(items, open_port, workspace["name"])
            output.result(item) if json else output.show(item["url"])
            if not no_browser:
                open_in_browser(item["url"])
        elif json:
            output.result(items)
        elif not items:
            output.say(say("ports.none", name=workspace["name"]))
        else:
            _show(items)


def _parse_share(share: tuple[str, str], until: str | None, client: Client) -> tuple[int, dict[str, Any]]:
    port, visibility = share
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise Failed("USAGE", say("ports.no_port", text=port))
    if visibility not in tuple(Visibility):
        raise Failed("USAGE", say("ports.no_visibility", text=visibility, all=", ".join(Visibility)))
    expires_at = None if until is None else _time(until, client.now or datetime.now(UTC))
    return int(port), {
        "visibility": visibility,
        "expires_at": None if expires_at is None else expires_at.isoformat(),
    }


def _time(text: str, now: datetime) -> datetime:
    """Read 2h, which is from now on, or a time; one without a zone is this machine's."""
    if text[:1].isdigit() and "-" not in text:
        span_s = seconds(text, may_be_never=False)
        assert span_s is not None
        try:
            return now + timedelta(seconds=span_s)
        except OverflowError:
            raise Failed("USAGE", say("ports.no_time", text=text)) from None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise Failed("USAGE", say("ports.no_time", text=text)) from None


def _require_listener(items: Sequence[Mapping[str, Any]], port: int, name: str) -> Mapping[str, Any]:
    item = next((item for item in items if item["port"] == port), None)
    if item is None:
        raise Failed("NOT_FOUND", say("ports.silent", port=port, name=name))
    return item


def _shared_text(item: Mapping[str, Any]) -> str:
    who = say(f"ports.{item['visibility']}")
    if item["expires_at"] is None:
        return say("ports.opened", url=item["url"], who=who)
    return say("ports.opened.until", url=item["url"], who=who, until=clock(item["expires_at"]))


def _show(items: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [
            str(item["port"]),
            item["process"] or say("ports.nothing"),
            say(f"ports.{item['visibility']}"),
            "" if item["expires_at"] is None else clock(item["expires_at"]),
            item["url"],
        ]
        for item in harmless(items)
    ]
    show_table(("PORT", "PROCESS", "FOR", "UNTIL", "URL"), rows, drops=("UNTIL", "PROCESS"))
