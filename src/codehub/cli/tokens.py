"""`codehub token`: keys for programs. A token is shown once, when it is made."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from codehub.cli.failures import Failed
from codehub.cli.formatting import ago, clock, seconds
from codehub.cli.output import JSON, client_for
from codehub.cli.tables import show_table
from codehub.cli.usage import Commands

token = Commands(help="Tokens: keys for programs.", rich_markup_mode=None, no_args_is_help=True)


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"


_SCOPE = typer.Option(Scope.WRITE, "--scope", help="read changes nothing.")


@token.command("create")
def create(
    name: str = typer.Argument(help="What it is for.", metavar="NAME"),
    scope: Scope = _SCOPE,
    expires: str = typer.Option(
        "never", "--expires", metavar="TIME", help="How long it lasts: 12h, 30d, or never."
    ),
    json: bool = JSON,
) -> None:
    """Make a token. Its word goes to stdout, this once; codehub keeps only a hash."""
    with client_for(json) as (client, output):
        body = {"name": name, "scope": scope.value, "expires_in_seconds": seconds(expires, may_be_never=True)}
        created = client.ask("POST", "/tokens", body)
        if json:
            output.result(created)
            return
        output.show(created["token"])
        output.say(f"Made {name} ({created['id']}). This is the only time it is shown.")


@token.command("list")
def list_tokens(json: bool = JSON) -> None:
    """List your tokens."""
    with client_for(json) as (client, output):
        items = client.ask("GET", "/tokens")["items"]
        if json:
            output.result(items)
            return
        if not items:
            output.say("You have no tokens.")
            return
        rows = [
            (item["name"], item["scope"], ago(item["last_used_at"], client.now), _expiry(item), item["id"])
            for item in items
        ]
        show_table(
            ("NAME", "SCOPE", "LAST USED", "EXPIRES", "ID"),
            rows,
            gives_way=("EXPIRES", "SCOPE"),
            in_need=("ID",),
        )


@token.command("delete")
def delete(
    name_or_id: str = typer.Argument(help="Its name or its id.", metavar="NAME"), json: bool = JSON
) -> None:
    """Delete a token: it opens nothing any more, at once."""
    with client_for(json) as (client, output):
        items = client.ask("GET", "/tokens")["items"]
        matches = [item for item in items if name_or_id in (item["id"], item["name"])]
        if not matches:
            raise Failed("NOT_FOUND", f"You have no token {name_or_id}.", do="codehub token list")
        if len(matches) > 1:
            ids = "".join(
                f"\n  {match['id']}  used {ago(match['last_used_at'], client.now)}, expires {_expiry(match)}"
                for match in matches
            )
            raise Failed(
                "AMBIGUOUS",
                f"{len(matches)} tokens are called {name_or_id}. Say which one by its id:{ids}",
                matches,
            )
        client.ask("DELETE", f"/tokens/{matches[0]['id']}")
        if json:
            output.result(matches[0])
        else:
            output.show(f"Deleted {matches[0]['name']}.")


def _expiry(token_data: Mapping[str, Any]) -> str:
    return "never" if token_data["expires_at"] is None else clock(token_data["expires_at"])
