"""Arguments and options that several commands share, each defined once."""

import typer

from codehub.cli.completion import deleted_names, workspace_names

NAME = typer.Argument(
    help="A workspace's name or id.", autocompletion=workspace_names, show_default=False, metavar="NAME"
)
DELETED_NAME = typer.Argument(
    help="A deleted workspace's name or id.", autocompletion=deleted_names, show_default=False, metavar="NAME"
)
OWNER = typer.Option(
    "me", "--owner", metavar="WHO", help="Whose it is, if named: me, or (admins) a name or all."
)
YES = typer.Option(False, "--yes", "-y", help="Do not ask.")
WAIT = typer.Option(False, "--wait", "-w", help="Wait until it is there, and show how far it is.")
TIMEOUT = typer.Option(
    None,
    "--timeout",
    metavar="TIME",
    help="Wait no longer than this: 90s, 5m, 2h. Then exit with 9.",
    show_default=False,
)
