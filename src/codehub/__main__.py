"""The command `codehub`: the client's commands, and those that run a server, whose code is imported only when
they run.
"""

import os
from typing import TYPE_CHECKING, TypeVar

import typer

from codehub.cli.failures import Failed
from codehub.cli.language import say
from codehub.cli.main import cli
from codehub.cli.options import YES
from codehub.cli.output import JSON, confirm, read_line, report_failures
from codehub.cli.usage import Commands

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from codehub.engine.system import System
    from codehub.settings import Settings


@cli.command()
def up() -> None:
    from codehub.app import run_up

    with report_failures(as_json=False):
        settings = _settings()
    raise typer.Exit(run_up(settings, os.environ))


def _role(name: str) -> None:
    from codehub.app import roles
    from codehub.app.drain import drain_of
    from codehub.app.process import run_until_signalled

    with report_failures(as_json=False):
        settings = _settings()
    drain = drain_of(settings)
    work = getattr(roles, name)(settings, drain)
    raise typer.Exit(run_until_signalled(settings, os.environ, work, drain))


@cli.command()
def api() -> None:
    _role("api")


@cli.command()
def proxy() -> None:
    _role("proxy")


@cli.command()
def controller() -> None:
    _role("controller")


@cli.command()
def migrate(
    contract: bool = typer.Option(False, "--contract"),
    json: bool = JSON,
) -> None:
    from functools import partial

    from codehub.app import roles

    with report_failures(json):
        applied = _run_beside(partial(roles.migrate_database, contracts=contract))
    if json:
        typer.echo(_to_json({"applied": applied}))
    else:
        typer.echo("\n".join(say("migrate.applied", name=name) for name in applied) or say("migrate.none"))


@cli.command()
def doctor(
    json: bool = JSON,
) -> None:
    from codehub.doctor import examine, report

    with report_failures(json):
        findings = examine(_settings())
    typer.echo(report(findings, as_json=json))
    raise typer.Exit(0 if all(finding.is_fine for finding in findings) else 1)


@cli.command()
def gc(
    dry_run: bool = typer.Option(False, "--dry-run"),
    orphans: bool = typer.Option(False, "--orphans"),
    json: bool = JSON,
) -> None:
    import logging

    from codehub.app import collect
    from codehub.cli.garbage import format_collection

    with report_failures(json):
        result = _run_beside(
            lambda settings, system: collect(settings, system, dry_run=dry_run, orphans=orphans),
            log_level=logging.INFO,
        )
    typer.echo(format_collection(result, dry_run=dry_run, as_json=json))


@cli.command("adopt-engine")
def adopt_engine(
    yes: bool = YES,
    json: bool = JSON,
) -> None:
    from codehub.app.marks import adopt

    with report_failures(json) as output:
        lost = _run_beside(lambda settings, system: adopt(settings, system, is_sure=False))
        for mark in lost:
            output.say(mark.description)
        if lost:
            confirm(say("adopt.sure"), yes)
            _run_beside(lambda settings, system: adopt(settings, system, is_sure=True))
    marks = [mark.mark for mark in lost]
    if json:
        typer.echo(_to_json({"made": marks}))
    else:
        typer.echo("\n".join(say("adopt.made", mark=mark) for mark in marks) or say("adopt.none"))


_LOCATION = typer.Argument(metavar="PLACE")


@cli.command()
def backup(
    location: str = _LOCATION,
    json: bool = JSON,
) -> None:
    from codehub.app.backup import back_up
    from codehub.cli.backups import ProgressReporter, format_manifest

    with report_failures(json) as output:
        manifest = _run_beside(
            lambda settings, system: back_up(settings, system, location, ProgressReporter(output))
        )
    typer.echo(format_manifest(manifest, done=say("backup.done", place=location), as_json=json))
    raise typer.Exit(0 if manifest.is_whole else 1)


@cli.command()
def restore(
    location: str = _LOCATION,
    yes: bool = YES,
    json: bool = JSON,
) -> None:
    from codehub.app.restore import read
    from codehub.app.restore import restore as restore_from
    from codehub.cli.backups import ProgressReporter, contents, format_manifest

    with report_failures(json) as output:
        for line in (
            say("backup.has"),
            *contents(_run_beside(lambda settings, _system: read(settings, location))),
        ):
            output.say(line)
        confirm(say("backup.sure"), yes)
        manifest = _run_beside(
            lambda settings, system: restore_from(settings, system, location, ProgressReporter(output))
        )
    typer.echo(format_manifest(manifest, done=say("backup.restored", place=location), as_json=json))


user = Commands()
cli.add_typer(user, name="user")
_USERNAME_ARGUMENT = typer.Argument(metavar="USERNAME")
_FROM_STDIN = typer.Option(False, "--password-stdin")


@user.command("add")
def add_user(
    username: str = _USERNAME_ARGUMENT,
    admin: bool = typer.Option(False, "--admin"),
    password_stdin: bool = _FROM_STDIN,
    json: bool = JSON,
) -> None:
    from codehub.app import access
    from codehub.cli.people import format_user
    from codehub.core.access import Role, is_username

    with report_failures(json):
        if not is_username(username):
            raise Failed("USAGE", say("user.no_name", name=username))
        role, password = Role.ADMIN if admin else Role.MEMBER, _password(from_stdin=password_stdin)
        user_added = _run_beside(
            lambda settings, system: access.add_user(settings, system, username, password, role)
        )
    typer.echo(format_user(user_added, say("user.added", role=role, name=username), as_json=json))


@user.command("passwd")
def set_password(
    username: str = _USERNAME_ARGUMENT, password_stdin: bool = _FROM_STDIN, json: bool = JSON
) -> None:
    from codehub.app import access
    from codehub.cli.people import format_user

    with report_failures(json):
        password = _password(from_stdin=password_stdin)
        changed = _run_beside(
            lambda settings, system: access.amend_user(settings, system, username, password=password)
        )
    typer.echo(format_user(changed, say("user.password_changed", name=username), as_json=json))


@user.command("disable")
def disable_user(
    username: str = _USERNAME_ARGUMENT,
    undo: bool = typer.Option(False, "--undo"),
    json: bool = JSON,
) -> None:
    from codehub.app import access
    from codehub.cli.people import format_user

    with report_failures(json):
        changed = _run_beside(
            lambda settings, system: access.amend_user(settings, system, username, disabled=not undo)
        )
    message = say("user.enabled" if undo else "user.disabled", name=username)
    typer.echo(format_user(changed, message, as_json=json))


@user.command("keys")
def user_keys(
    username: str = _USERNAME_ARGUMENT,
    end: bool = typer.Option(False, "--end"),
    json: bool = JSON,
) -> None:
    from codehub.app import access
    from codehub.cli.people import format_keys

    with report_failures(json):
        keys = _run_beside(lambda settings, system: access.keys(settings, system, username, end=end))
    typer.echo(format_keys(keys, username, are_ended=end, as_json=json))


@user.command("list")
def list_users(
    json: bool = JSON,
) -> None:
    from codehub.app import access
    from codehub.cli.people import format_users

    with report_failures(json):
        users = _run_beside(access.list_users)
    typer.echo(format_users(users, as_json=json))


def _run_beside(
    work: "Callable[[Settings, System], Coroutine[Any, Any, T]]", *, log_level: int | None = None
) -> "T":
    """Do it beside a codehub that may run, or raise Failed."""
    from codehub.app.errors import CannotStart
    from codehub.app.process import run_beside
    from codehub.ports.access import LastAdmin, UnknownUser, UsernameTaken

    try:
        return run_beside(_settings(), work, log_level=log_level)
    except CannotStart as error:
        raise Failed("FAILED", str(error)) from None
    except UsernameTaken as error:
        raise Failed("NAME_TAKEN", say("user.taken", name=error)) from None
    except UnknownUser as error:
        raise Failed("NOT_FOUND", say("user.unknown", name=error)) from None
    except LastAdmin:
        raise Failed("INVALID_STATE", say("user.last_admin")) from None


def _to_json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=2)


def _password(*, from_stdin: bool) -> str:
    import sys

    from codehub.text.terminal import terminal_language
    from codehub.validation_messages import password_problem

    if from_stdin:
        password = read_line()
    elif sys.stdin.isatty():
        password = typer.prompt(say("login.password"), hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise Failed("USAGE", say("user.password_on_stdin"))
    problem = password_problem(password, terminal_language())
    if problem is not None:
        raise Failed("USAGE", say("user.no_password", problem=problem))
    return password


def _settings() -> "Settings":
    """Return the settings, or raise Failed."""
    from codehub.settings import WrongSetting, load_settings

    try:
        return load_settings()
    except WrongSetting as error:
        lines = str(error).splitlines()
        raise Failed("USAGE", str(error), lines, text="\ncodehub: ".join(lines)) from None


def main() -> None:
    cli(prog_name="codehub")


if __name__ == "__main__":
    main()
