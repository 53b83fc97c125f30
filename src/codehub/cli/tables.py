"""Rows in, a table out: coloured and fitted on a terminal, plain columns elsewhere."""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from codehub.cli.formatting import colour_of
from codehub.cli.language import heading_text, label_text
from codehub.cli.output import is_terminal
from codehub.text.terminal import columns

if TYPE_CHECKING:
    from rich.text import Text

_FLEXIBLE_WIDTHS: Mapping[str, int] = {"NAME": 20, "WHY": 24}
"""The column that gets the remaining width, and its least width before other columns are left out."""
_WIDTH_MIN = 12
_GAP = 2


def show_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    drops: Sequence[str] = (),
    drops_last: Sequence[str] = (),
) -> None:
    """Print it. `drops`: the columns that are left out, in this order, where a terminal is too narrow for
    all; `drops_last`: those that go too, before nothing can be read any more.

    One column has the width that is left: a long name is cut there, a long reason goes on in the next line.
    """
    if is_terminal():
        _show_fitted(headings, rows, drops, drops_last)
    else:
        typer.echo(plain([[heading_text(heading) for heading in headings], *rows]))


def plain(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(columns(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def pairs(rows: Mapping[str, str | None]) -> str:
    """Return `name  value` lines; what has no value is left out."""
    return pairs_of((label_text(name), value) for name, value in rows.items() if value)


def pairs_of(rows: Iterable[tuple[str, str]]) -> str:
    """Return `name  value` lines. What is too long for a terminal goes on below itself."""
    entries = list(rows)
    width = max(columns(name) for name, _ in entries)
    indent, lines = " " * (width + 2), []
    for name, value in entries:
        first, *rest = (part for line in value.splitlines() for part in _fold(line, width + 4))
        lines += [f"{name}{' ' * (width - columns(name))}  {first}", *(f"{indent}{line}" for line in rest)]
    return "\n".join(lines)


def _fold(line: str, indent: int) -> list[str]:
    """Return it as lines that fit beside an indent. What is coloured is short, and is left alone."""
    if not is_terminal() or "\x1b" in line:
        return [line]
    columns = max(_WIDTH_MIN, shutil.get_terminal_size().columns - indent)
    return textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False) or [""]


def colour(display: str, text: str | None = None) -> str:
    """Return a state in its colour: ours for a terminal, nothing elsewhere."""
    return typer.style(text or display, fg=colour_of(display)) if is_terminal() else text or display


def _show_fitted(
    headings: Sequence[str], rows: Sequence[Sequence[str]], drops: Sequence[str], drops_last: Sequence[str]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    widths = {
        heading: max(columns(cell) for cell in (heading_text(heading), *(row[column] for row in rows)))
        for column, heading in enumerate(headings)
    }
    fitted = fit(widths, drops, console.width, drops_last)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold dim")
    for heading, width in fitted.items():
        table.add_column(heading_text(heading), no_wrap=heading != "WHY", overflow="ellipsis", width=width)
    for row in rows:
        cells = dict(zip(headings, row, strict=True))
        table.add_row(*(_cell(heading, cells[heading], Text) for heading in fitted))
    console.print(table)


def fit(
    widths: Mapping[str, int], drops: Sequence[str], columns: int, drops_last: Sequence[str] = ()
) -> dict[str, int]:
    """Return the columns of a table that are shown, and how wide each is."""
    flexible = next(heading for heading in widths if heading in _FLEXIBLE_WIDTHS)
    fitted = {**widths, flexible: min(widths[flexible], _FLEXIBLE_WIDTHS[flexible])}
    for heading in drops:
        if _excess(fitted, columns) > 0:
            del fitted[heading]
    for heading in drops_last:
        if fitted[flexible] - _excess(fitted, columns) < min(_WIDTH_MIN, widths[flexible]):
            del fitted[heading]
    remaining = fitted[flexible] - _excess(fitted, columns)
    fitted[flexible] = min(widths[flexible], max(remaining, _WIDTH_MIN))
    return fitted


def _excess(fitted: Mapping[str, int], columns: int) -> int:
    """Return by how much it is too wide."""
    return sum(fitted.values()) + _GAP * (len(fitted) - 1) - columns


def _cell(heading: str, cell: str, text: "type[Text]") -> "Text":
    return text(cell, style=colour_of(cell.partition(",")[0]) if heading == "STATE" else "")
