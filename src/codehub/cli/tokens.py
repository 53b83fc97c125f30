"""`codehub token`: keys for programs. A token is shown once, when it is made."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from codehub.cli.failures import Failed
from codehub.cli.formatting import ago, clock, seconds
from codehub.cli.language import say
from codehub.cli.output import JSON, client_for
from codehub.cli.tables import show_table
from codehub.cli.usage import Commands

token = Commands()


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"


_SCOPE = typer.Option(Scope.WRITE, "--scope")


@token.command("create")
def create(
    name: str = typer.Argument(metavar="NAME"),
    scope: Scope = _SCOPE,
    expires: str = typer.Option("never", "--expires", metavar="TIME"),
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        body = {"name": name, "scope": scope.value, "expires_in_seconds": seconds(expires, may_be_never=True)}
        created = client.ask("POST", "/tokens", body)
        if json:
            output.result(created)
            return
        output.show(created["token"])
        output.say(say("token.made", name=name, id=created["id"]))


@token.command("list")
def list_tokens(json: bool = JSON) -> None:
    with client_for(json) as (client, output):
        items = client.ask("GET", "/tokens")["items"]
        if json:
            output.result(items)
            return
        if not items:
            output.say(say("token.list.none"))
            return
        rows = [
            (item["name"], item["scope"], ago(item["last_used_at"], client.now), _expiry(item), item["id"])
            for item in items
        ]
        show_table(
            ("NAME", "SCOPE", "LAST USED", "EXPIRES", "ID"),
            rows,
            drops=("EXPIRES", "SCOPE"),
            drops_last=("ID",),
        )


@token.command("delete")
def delete(name_or_id: str = typer.Argument(metavar="NAME"), json: bool = JSON) -> None:
    with client_for(json) as (client, output):
        items = client.ask("GET", "/tokens")["items"]
        matches = [item for item in items if name_or_id in (item["id"], item["name"])]
        if not matches:
            raise Failed("NOT_FOUND", say("token.none", name=name_or_id), do="codehub token list")
        if len(matches) > 1:
            ids = [
                f"  {match['id']}  "
                + say("token.one", used=ago(match["last_used_at"], client.now), expires=_expiry(match))
                for match in matches
            ]
            question = say("token.several", count=len(matches), name=name_or_id)
            raise Failed("AMBIGUOUS", "\n".join([question, *ids]), matches)
        client.ask("DELETE", f"/tokens/{matches[0]['id']}")
        if json:
            output.result(matches[0])
        else:
            output.show(say("token.deleted", name=matches[0]["name"]))


def _expiry(token_data: Mapping[str, Any]) -> str:
    return say("never") if token_data["expires_at"] is None else clock(token_data["expires_at"])
