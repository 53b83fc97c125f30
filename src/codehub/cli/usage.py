"""How usage is written: an argument that must be there by its name alone. Typer's braces read as a choice."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from typer._click import Context


class PlainCommand(TyperCommand):
    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Commands(typer.Typer):
    """A Typer whose commands are plain ones."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": PlainCommand, **options})
