"""A command's usage and help: a command in, the catalogue's text of it and its options out.

The texts are put in when somebody asks for help or completes a word: no other command pays for them.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer._click import Command
from typer.core import TyperCommand, TyperGroup

from codehub.cli.language import help_texts
from codehub.core.ides import IDES
from codehub.text.terminal import is_wide

if TYPE_CHECKING:
    from typer._click import Context
    from typer._click.shell_completion import CompletionItem

_FILLER = "\u200b"
_PARSERS = re.compile(
    r"^(Usage|Arguments|Options|Commands)(?=:)|(?<=\[)(default(?=: )|required(?=\]))", re.MULTILINE
)


def describe(root: Command, write: Callable[[str], str] = str) -> None:
    """Give every command and option its help."""
    _describe(root, "codehub", write)


def _describe(command: Any, path: str, write: Callable[[str], str]) -> None:
    texts = help_texts()
    command.help = write(texts[path])
    if "epilog" in vars(command) and f"{path}.epilog" in texts:
        command.epilog = write(texts[f"{path}.epilog"])
    for parameter in command.params:
        name = parameter.name
        text = texts.get(f"{path}.{name}") or texts[f"option.{name}"]
        parameter.help = write(text.format(ides=", ".join(IDES)) if name == "ide" else text)
    for name, inner in getattr(command, "commands", {}).items():
        _describe(inner, name if path == "codehub" else f"{path}.{name}", write)


class _Described(Command):
    def get_help(self, ctx: "Context") -> str:
        describe(ctx.find_root().command, _widen)
        option = self.get_help_option(ctx)
        if option is not None:
            option.help = _widen(help_texts()["option.help"])
        text = super().get_help(ctx).replace(_FILLER, "")
        return _PARSERS.sub(lambda match: help_texts()[f"parser.{match[0]}"], text)

    def shell_complete(self, ctx: "Context", incomplete: str) -> "list[CompletionItem]":
        describe(ctx.find_root().command)
        return super().shell_complete(ctx, incomplete)


class PlainCommand(_Described, TyperCommand):
    """An argument that must be there stands by its name alone: Typer's braces read as a choice."""

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class PlainGroup(_Described, TyperGroup):
    """Commands that belong together."""


class Commands(typer.Typer):
    """A Typer whose commands are plain ones."""

    def __init__(self, **options: Any) -> None:
        # Help in colours costs three times the start-up.
        super().__init__(rich_markup_mode=None, **{"cls": PlainGroup, "no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": PlainCommand, **options})


def _widen(text: str) -> str:
    """Return it with a filler behind each letter that takes two columns: the parser counts letters."""
    return "".join(f"{letter}{_FILLER}" if is_wide(letter) else letter for letter in text)
