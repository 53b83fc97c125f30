"""The command `codehub`: the client's commands, and those that run a server, whose code is imported only when
they run.
"""

import os
from typing import TYPE_CHECKING, TypeVar

import typer

from codehub.cli.failures import Failed
from codehub.cli.main import cli
from codehub.cli.options import YES
from codehub.cli.output import confirm, read_line, report_failures
from codehub.cli.usage import Commands

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from codehub.engine.system import System
    from codehub.settings import Settings


@cli.command()
def up() -> None:
    """Run codehub on this machine, all of it. Ctrl-C stops it.

    Needs nothing beside Python: its own PostgreSQL, homes, archives and workspaces are under
    CODEHUB_DATA_DIR. docs/settings.md has what can be set.
    """
    from codehub.app import run_up

    with report_failures(as_json=False):
        settings = _settings()
    raise typer.Exit(run_up(settings, os.environ))


def _role(name: str) -> None:
    from codehub.app import roles
    from codehub.app.process import run_until_signalled

    with report_failures(as_json=False):
        settings = _settings()
    raise typer.Exit(run_until_signalled(settings, os.environ, getattr(roles, name)(settings)))


@cli.command()
def api() -> None:
    """Serve the API and the dashboard alone.

    On CODEHUB_HOST:CODEHUB_PORT, for `codehub proxy`.
    """
    _role("api")


@cli.command()
def proxy() -> None:
    """Serve the public port alone.

    Workspaces from here, all else from the `codehub api` at CODEHUB_API_URL.
    """
    _role("proxy")


@cli.command()
def controller() -> None:
    """Make wishes come true.

    Observe, judge, plan, execute, persist, over and over.
    """
    _role("controller")


@cli.command()
def migrate(json: bool = typer.Option(False, "--json", help="Print what was applied as JSON.")) -> None:
    """Bring the database to this version's schema, and exit. Every start does it too."""
    from codehub.app import roles

    with report_failures(json):
        applied = _run_beside(roles.migrate_database)
    if json:
        typer.echo(_to_json({"applied": applied}))
    else:
        typer.echo("\n".join(f"applied {name}" for name in applied) or "The database is up to date.")


@cli.command()
def doctor(
    json: bool = typer.Option(False, "--json", help="Print the findings as JSON."),
) -> None:
    """Check this machine: what would work, what not, and what to do."""
    from codehub.doctor import examine, report

    with report_failures(json):
        findings = examine(_settings())
    typer.echo(report(findings, as_json=json))
    raise typer.Exit(0 if all(finding.is_fine for finding in findings) else 1)


@cli.command()
def gc(
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be removed."),
    orphans: bool = typer.Option(False, "--orphans", help="Also remove what the database does not know."),
    json: bool = typer.Option(False, "--json", help="Print what was done as JSON."),
) -> None:
    """Remove what no workspace needs any more."""
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
    json: bool = typer.Option(False, "--json", help="Print what was made again as JSON."),
) -> None:
    """Make the mark again by which codehub knows its Docker engine, or its directory of homes.

    `docker volume prune` may have removed it. Says first what is there and what is not, and asks.
    """
    from codehub.app.marks import adopt

    with report_failures(json) as output:
        lost = _run_beside(lambda settings, system: adopt(settings, system, is_sure=False))
        for mark in lost:
            output.say(mark.description)
        if lost:
            confirm("Make it again?", yes)
            _run_beside(lambda settings, system: adopt(settings, system, is_sure=True))
    marks = [mark.mark for mark in lost]
    if json:
        typer.echo(_to_json({"made": marks}))
    else:
        typer.echo(
            "\n".join(f"made again: {mark}" for mark in marks) or "Every mark is there: nothing to do."
        )


_LOCATION = typer.Argument(help="A directory, file:///… or s3://…", metavar="PLACE")


@cli.command()
def backup(
    location: str = _LOCATION,
    json: bool = typer.Option(False, "--json", help="Print what is in it as JSON."),
) -> None:
    """Copy everything to a new place: the database, the archives, and homes that are in none.

    Beside a codehub that may run. Exits with 1 if anything is not in it, and names that.
    """
    from codehub.app.backup import back_up
    from codehub.cli.backups import ProgressReporter, format_manifest

    with report_failures(json) as output:
        manifest = _run_beside(
            lambda settings, system: back_up(settings, system, location, ProgressReporter(output))
        )
    typer.echo(format_manifest(manifest, done=f"backed up to {location}", as_json=json))
    raise typer.Exit(0 if manifest.is_whole else 1)


@cli.command()
def restore(
    location: str = _LOCATION,
    yes: bool = YES,
    json: bool = typer.Option(False, "--json", help="Print what was restored as JSON."),
) -> None:
    """Make an installation from a back-up, where there is none.

    Into CODEHUB_DATA_DIR, or the database and the archive store that are set. Says first what is in it, and
    asks.
    """
    from codehub.app.restore import read
    from codehub.app.restore import restore as restore_from
    from codehub.cli.backups import ProgressReporter, contents, format_manifest

    with report_failures(json) as output:
        for line in (
            "This back-up has:",
            *contents(_run_beside(lambda settings, _system: read(settings, location))),
        ):
            output.say(line)
        confirm("Restore it?", yes)
        manifest = _run_beside(
            lambda settings, system: restore_from(settings, system, location, ProgressReporter(output))
        )
    typer.echo(format_manifest(manifest, done=f"restored from {location}", as_json=json))


user = Commands(
    help="People: add, list, disable, set passwords, end sessions and tokens. On the server, beside a running codehub.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
cli.add_typer(user, name="user")
_USERNAME_ARGUMENT = typer.Argument(help="Their name.", metavar="USERNAME")
_USER_JSON = typer.Option(False, "--json", help="Print the user as JSON.")
_FROM_STDIN = typer.Option(False, "--password-stdin", help="Read the password from stdin instead of asking.")


@user.command("add")
def add_user(
    username: str = _USERNAME_ARGUMENT,
    admin: bool = typer.Option(False, "--admin", help="Make them an admin."),
    password_stdin: bool = _FROM_STDIN,
    json: bool = _USER_JSON,
) -> None:
    """Add a user."""
    from codehub.app import access
    from codehub.cli.people import format_user
    from codehub.core.access import Role, is_username

    with report_failures(json):
        if not is_username(username):
            rule = "letters, digits and . _ @ - only, at most 64, and not `me` or `all`"
            raise Failed("USAGE", f"{username!r} can't be a name: {rule}")
        role, password = Role.ADMIN if admin else Role.MEMBER, _password(from_stdin=password_stdin)
        user_added = _run_beside(
            lambda settings, system: access.add_user(settings, system, username, password, role)
        )
    typer.echo(format_user(user_added, f"added {role} {username}", as_json=json))


@user.command("passwd")
def set_password(
    username: str = _USERNAME_ARGUMENT, password_stdin: bool = _FROM_STDIN, json: bool = _USER_JSON
) -> None:
    """Set a user's password, which ends their sessions and tokens."""
    from codehub.app import access
    from codehub.cli.people import format_user

    with report_failures(json):
        password = _password(from_stdin=password_stdin)
        changed = _run_beside(
            lambda settings, system: access.amend_user(settings, system, username, password=password)
        )
    typer.echo(format_user(changed, f"changed the password of {username}", as_json=json))


@user.command("disable")
def disable_user(
    username: str = _USERNAME_ARGUMENT,
    undo: bool = typer.Option(False, "--undo", help="Enable them again."),
    json: bool = _USER_JSON,
) -> None:
    """Disable a user: their sessions and tokens end."""
    from codehub.app import access
    from codehub.cli.people import format_user

    with report_failures(json):
        changed = _run_beside(
            lambda settings, system: access.amend_user(settings, system, username, disabled=not undo)
        )
    typer.echo(format_user(changed, f"{'enabled' if undo else 'disabled'} {username}", as_json=json))


@user.command("keys")
def user_keys(
    username: str = _USERNAME_ARGUMENT,
    end: bool = typer.Option(False, "--end", help="End them all: whatever is open by them ends too."),
    json: bool = typer.Option(False, "--json", help="Print the keys as JSON."),
) -> None:
    """List what lets a user in, sessions and tokens, or end it."""
    from codehub.app import access
    from codehub.cli.people import format_keys

    with report_failures(json):
        keys = _run_beside(lambda settings, system: access.keys(settings, system, username, end=end))
    typer.echo(format_keys(keys, username, are_ended=end, as_json=json))


@user.command("list")
def list_users(json: bool = typer.Option(False, "--json", help="Print them as JSON.")) -> None:
    """List everybody."""
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
        raise Failed("NAME_TAKEN", f"there is a user {error} already") from None
    except UnknownUser as error:
        raise Failed("NOT_FOUND", f"there is no user {error}") from None
    except LastAdmin:
        message = "this is the last admin: make somebody else an admin first"
        raise Failed("INVALID_STATE", message) from None


def _to_json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=2)


def _password(*, from_stdin: bool) -> str:
    import sys

    from codehub.validation_messages import password_problem

    if from_stdin:
        password = read_line()
    elif sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise Failed("USAGE", "give the password on stdin, with --password-stdin")
    problem = password_problem(password)
    if problem is not None:
        raise Failed("USAGE", f"this can't be a password: {problem}")
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
