"""The progress display of a waiting command: a line per step, and a bar while bytes are moved. On stderr."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from codehub.cli.formatting import WorkspaceView, size, span
from codehub.cli.language import doing_text, done_text, say, stage_text

if TYPE_CHECKING:
    from rich.progress import Progress, Task
    from rich.progress_bar import ProgressBar
    from rich.text import Text


def watch(states: Iterable[WorkspaceView]) -> WorkspaceView:
    """Show each state, and return the last. Whatever the states raise passes through."""
    if not sys.stderr.isatty():
        return _watch_plain(states)
    with _bars() as bars:
        return _LiveProgress(bars).watch(states)


def _watch_plain(states: Iterable[WorkspaceView]) -> WorkspaceView:
    workspace: WorkspaceView = {}
    operation = ""
    for workspace in states:
        if workspace["operation"] != operation:
            operation = workspace["operation"]
            if doing := doing_text(operation):
                typer.echo(f"{workspace['name']}: {doing}", err=True)
    return workspace


def _bars() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Bar(BarColumn):
        """A bar where bytes are moved, nothing where not."""

        def render(self, task: "Task") -> "ProgressBar | Text":  # type: ignore[override]
            return super().render(task) if task.fields["moves_bytes"] else Text("")

    return Progress(
        SpinnerColumn(style="blue"),
        TextColumn("{task.description}"),
        Bar(bar_width=28),
        TextColumn("{task.fields[detail]}", style="dim"),
        TimeElapsedColumn(),
        console=Console(file=sys.stderr, highlight=False),
        transient=True,
    )


class _LiveProgress:
    """Shows one task at a time. A finished one becomes a line."""

    def __init__(self, bars: "Progress") -> None:
        self._bars = bars
        self._task = bars.add_task(say("waiting"), total=None, moves_bytes=False, detail="")
        self._operation = "NONE"
        self._bytes = 0

    def watch(self, states: Iterable[WorkspaceView]) -> WorkspaceView:
        workspace: WorkspaceView = {}
        for workspace in states:
            if workspace["operation"] != self._operation:
                self._print_done()
                self._operation = workspace["operation"]
            self._show(workspace)
        return workspace

    def _show(self, workspace: WorkspaceView) -> None:
        progress = workspace["progress"]
        if progress is None:
            doing = doing_text(self._operation) or say("waiting")
            detail = "" if workspace["held_up"] is None else say("held_up")
            self._bars.update(self._task, description=doing, total=None, moves_bytes=False, detail=detail)
            return
        done, total = progress["done_bytes"], progress["total_bytes"]
        self._bytes = total or done  # what is done in the end is all of it
        self._bars.update(
            self._task,
            description=stage_text(progress["stage"]),
            completed=done,
            total=total,
            moves_bytes=True,
            detail=_describe(workspace),
        )

    def _print_done(self) -> None:
        (task,) = self._bars.tasks
        if done := done_text(self._operation):
            amount = f", {size(self._bytes)}" if self._bytes else ""
            self._bars.console.print(
                f"[green]✓[/green] {done}{amount} [dim]({span(task.elapsed or 0)})[/dim]"
            )
        self._bytes = 0
        self._bars.reset(self._task, total=None, completed=0, moves_bytes=False, detail="")


def _describe(workspace: WorkspaceView) -> str:
    """42 of 100 MB, 12 MB/s, 5 s left."""
    progress = workspace["progress"]
    total, text = progress["total_bytes"], size(progress["done_bytes"])
    if total:
        text = say("bytes_of", done=text, total=size(total))
    if progress["bytes_per_second"]:
        text += f", {size(progress['bytes_per_second'])}/s"
    if progress["eta_seconds"] is not None:
        text += f", {say('bytes_left', span=span(progress['eta_seconds']))}"
    return text
