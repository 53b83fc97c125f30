"""`codehub token`: keys for programs. A token's word is shown once, when it is made."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from codehub.cli.failures import Failed
from codehub.cli.output import JSON, client_for
from codehub.cli.tables import show_table
from codehub.cli.usage import Commands
from codehub.cli.words import ago, clock, seconds

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
    with client_for(json) as (client, speech):
        body = {"name": name, "scope": scope.value, "expires_in_seconds": seconds(expires, may_be_never=True)}
        made = client.ask("POST", "/tokens", body)
        if json:
            speech.result(made)
            return
        speech.show(made["token"])
        speech.say(f"Made {name} ({made['id']}). This is the only time it is shown.")


@token.command("list")
def list_tokens(json: bool = JSON) -> None:
    """List your tokens."""
    with client_for(json) as (client, speech):
        items = client.ask("GET", "/tokens")["items"]
        if json:
            speech.result(items)
            return
        if not items:
            speech.say("You have no tokens.")
            return
        rows = [
            (one["name"], one["scope"], ago(one["last_used_at"], client.now), _expiry(one), one["id"])
            for one in items
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
    with client_for(json) as (client, speech):
        items = client.ask("GET", "/tokens")["items"]
        found = [one for one in items if name_or_id in (one["id"], one["name"])]
        if not found:
            raise Failed("NOT_FOUND", f"You have no token {name_or_id}.", do="codehub token list")
        if len(found) > 1:
            ids = "".join(
                f"\n  {one['id']}  used {ago(one['last_used_at'], client.now)}, expires {_expiry(one)}"
                for one in found
            )
            raise Failed(
                "AMBIGUOUS",
                f"{len(found)} tokens are called {name_or_id}. Say which one by its id:{ids}",
                found,
            )
        client.ask("DELETE", f"/tokens/{found[0]['id']}")
        if json:
            speech.result(found[0])
        else:
            speech.show(f"Deleted {found[0]['name']}.")


def _expiry(one: Mapping[str, Any]) -> str:
    return "never" if one["expires_at"] is None else clock(one["expires_at"])
