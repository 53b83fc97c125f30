"""The command `codehub`: the client's commands, and those that run a server, whose code is imported only when they run."""

import os
from typing import TYPE_CHECKING

import typer

from codehub.cli.main import cli

if TYPE_CHECKING:
    from codehub.settings import Settings


@cli.command()
def up() -> None:
    """Run codehub on this machine. Ctrl-C stops it."""
    from codehub.app import run_up

    raise typer.Exit(run_up(_settings(), os.environ))


@cli.command()
def doctor(
    json: bool = typer.Option(False, "--json", help="Print the findings as JSON."),
) -> None:
    """Check this machine: what would work, what not, and what to do."""
    from codehub.doctor import examine, report

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
    from codehub.app import run_gc
    from codehub.cli.garbage import told

    code = run_gc(
        _settings(),
        lambda collected: typer.echo(told(collected, dry_run=dry_run, as_json=json)),
        dry_run=dry_run,
        orphans=orphans,
    )
    raise typer.Exit(code)


def _settings() -> "Settings":
    from codehub.settings import WrongSetting, load_settings

    try:
        return load_settings()
    except WrongSetting as error:
        for line in str(error).splitlines():
            typer.echo(f"codehub: {line}", err=True)
        raise typer.Exit(2) from None


def main() -> None:
    cli(prog_name="codehub")


if __name__ == "__main__":
    main()
