"""The client's commands. What runs a server is added by `codehub.__main__`, so that nothing here imports it."""

import typer

cli = typer.Typer(
    name="codehub",
    help="Self-hosted cloud development environments.",
    rich_markup_mode=None,  # help in colours costs three times the start-up
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@cli.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"codehub {installed('codehub')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
