"""Arguments and options that several commands share, each defined once."""

import typer

from codehub.cli.completion import deleted_names, workspace_names

NAME = typer.Argument(autocompletion=workspace_names, show_default=False, metavar="NAME")
DELETED_NAME = typer.Argument(autocompletion=deleted_names, show_default=False, metavar="NAME")
OWNER = typer.Option("me", "--owner", metavar="WHO")
YES = typer.Option(False, "--yes", "-y")
WAIT = typer.Option(False, "--wait", "-w")
TIMEOUT = typer.Option(None, "--timeout", metavar="TIME", show_default=False)
