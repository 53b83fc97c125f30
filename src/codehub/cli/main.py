"""The client's commands.

What runs a server is added by `codehub.__main__`, so that nothing here imports it.
"""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from typer._click.exceptions import UsageError

from codehub.cli import explanation, login, tokens, workspaces
from codehub.cli.failures import Failed
from codehub.cli.language import help_texts, say
from codehub.cli.output import Output
from codehub.cli.usage import Commands, PlainGroup
from codehub.error_codes import Exit

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

SECTIONS: Mapping[str, Sequence[str]] = {
    "use": ("login", "logout", "password", "ws", "explain", "token"),
    "run": ("up", "doctor", "user", "backup", "restore", "gc", "adopt-engine", "migrate"),
    "parts": ("api", "proxy", "controller"),
}
_SERVERS = frozenset({"up", "api", "proxy", "controller"})
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Sections(PlainGroup):
    """Lists the commands by purpose, and reports usage errors as JSON with --json."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        try:
            return self._main(args, *rest, **options)
        except OSError as error:
            # What can't be opened has a name; an open file that takes no more has none. A server has others
            # open than its output.
            if (
                error.errno not in _FULL
                or error.filename is not None
                or _SERVERS.intersection(args or sys.argv[1:2])
            ):
                raise
            # Python writes the rest at its end, and would fail once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            typer.echo(say("output_full", error=error.strerror), err=True)
            sys.exit(Exit.FAILED)

    def _main(self, args: Sequence[str] | None, *rest: Any, **options: Any) -> Any:
        if "--json" not in (sys.argv[1:] if args is None else args):
            return super().main(args, *rest, **options)
        try:
            code = super().main(args, *rest, **{**options, "standalone_mode": False})
        except UsageError as error:
            error.show()
            failure = Failed("USAGE", error.format_message())
            Output(as_json=True).line(failure.shape())
            sys.exit(failure.exit)
        except typer.Abort:
            sys.exit(Exit.FAILED)
        sys.exit(code)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002  # Typer's own
        width = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            rows = [
                (f"{name:<{width}}", self.commands[name].get_short_help_str(formatter.width - width - 6))
                for name in names
                if name in self.commands
            ]
            if rows:
                with formatter.section(help_texts()[f"section.{title}"]):
                    formatter.write_dl(rows)


cli = Commands(
    name="codehub",
    cls=Sections,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
login.add_to(cli)
cli.add_typer(workspaces.ws, name="ws")
explanation.add_to(cli)
cli.add_typer(tokens.token, name="token")


@cli.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: bool = typer.Option(False, "--version"),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"codehub {installed('codehub')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
