"""Signing in and out: a password becomes a token of this machine's, which is kept for this user alone."""

import os
import socket
import sys

import typer

from codehub.cli.account import (
    Account,
    find_account,
    login_file,
    normalise_url,
    remove_account,
    write_account,
)
from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.language import say
from codehub.cli.output import JSON, Output, client_for, read_line, report_failures

_TOKEN_LASTS_S = 90 * 86_400
_LOOPBACK = ("http://127.", "http://localhost", "http://[::1]")


def login(
    url: str | None = typer.Argument(None, metavar="[URL]", show_default=False),
    username: str | None = typer.Option(None, "--username", "-u", metavar="NAME", show_default=False),
    password_stdin: bool = typer.Option(False, "--password-stdin"),
    token_stdin: bool = typer.Option(False, "--token-stdin"),
    json: bool = JSON,
) -> None:
    with report_failures(json) as output:
        if password_stdin and token_stdin:
            raise Failed("USAGE", say("login.two_keys"))
        account = find_account(os.environ)
        server_url = normalise_url(url) if url else account.url
        if server_url.startswith("http://") and not server_url.startswith(_LOOPBACK):
            output.say(say("warning", text=say("login.no_https", url=server_url)))
        account_now = (
            _with_token(server_url) if token_stdin else _with_password(server_url, username, password_stdin)
        )
        path, account_before = login_file(os.environ), _stored_account()
        try:
            write_account(path, account_now)
        except Failed:
            _end_token(account_now, output)  # nobody would know it, and it would open everything for 90 days
            raise
        if account_before.token != account_now.token:
            _end_token(account_before, output)
        _report_login(output, account_now, path)
        if account.is_from_environment:
            output.say(say("warning", text=say("login.environment")))


def logout(json: bool = JSON) -> None:
    with report_failures(json) as output:
        path = login_file(os.environ)
        account = _stored_account()
        if account.token is None:
            raise Failed("NOT_SIGNED_IN", say("login.signed_out"))
        _end_token(account, output)
        remove_account(path)
        if not json:
            output.show(say("login.out", url=account.url))


def password(
    stdin: bool = typer.Option(False, "--stdin"),
    json: bool = JSON,
) -> None:
    with client_for(json) as (client, output):
        if stdin:
            old, new = read_line(), read_line()
        else:
            old = _prompt(say("login.old_password"), hidden=True, option="--stdin")
            new = typer.prompt(say("login.new_password"), hide_input=True, confirmation_prompt=True, err=True)
        client.ask("PUT", "/session/password", {"old": old, "new": new})
        if not json:
            output.show(say("login.password_changed"))


def add_to(cli: typer.Typer) -> None:
    for command in (login, logout, password):
        cli.command()(command)


def _stored_account() -> Account:
    """Return what an earlier sign-in has left on this machine."""
    return find_account({**os.environ, "CODEHUB_URL": "", "CODEHUB_TOKEN": ""})


def _end_token(account: Account, output: Output) -> None:
    """End a token that was made for this machine; one that came from stdin stays valid."""
    if account.token_id is None:
        return
    client = Client(account)
    try:
        client.ask("DELETE", f"/tokens/{account.token_id}")
    except Failed as error:
        # Ended already, or out of reach: forgotten here all the same.
        if error.code != "UNAUTHORIZED":
            output.say(say("login.token_lives", url=account.url, error=error.message))
    finally:
        client.close()


def _with_password(url: str, username: str | None, from_stdin: bool) -> Account:
    name = username or _prompt(say("login.username"), option="--username")
    password = (
        read_line() if from_stdin else _prompt(say("login.password"), hidden=True, option="--password-stdin")
    )
    client = Client(Account(url, None))
    try:
        cookie = client.sign_in(name, password)
        token = client.ask(
            "POST",
            "/tokens",
            {
                "name": f"codehub login on {socket.gethostname()}"[:255],
                "scope": "write",
                "expires_in_seconds": _TOKEN_LASTS_S,
            },
            headers={"Cookie": cookie},
        )
        client.ask("POST", "/logout", headers={"Cookie": cookie})
    finally:
        client.close()
    return Account(url, token["token"], name, token["id"])


def _with_token(url: str) -> Account:
    account = Account(url, read_line().strip() or None)
    if account.token is None:
        raise Failed("USAGE", say("login.no_token"))
    client = Client(account)
    try:
        username: str = client.ask("GET", "/session")["user"]["username"]
    finally:
        client.close()
    return Account(url, account.token, username)


def _prompt(prompt: str, *, option: str, hidden: bool = False) -> str:
    if not sys.stdin.isatty():
        raise Failed("USAGE", say("nobody_answers", option=option))
    answer: str = typer.prompt(prompt, hide_input=hidden, err=True)
    return answer


def _report_login(output: Output, account: Account, path: object) -> None:
    if output.as_json:
        output.result({"url": account.url, "username": account.username})
    else:
        output.show(say("login.in", url=account.url, username=account.username, path=path))
