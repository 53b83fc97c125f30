"""A command's output: results on stdout, messages for people on stderr, errors as text or JSON."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from codehub.cli.account import find_account
from codehub.cli.client import ANSWER_S_MAX, Client
from codehub.cli.failures import Failed
from codehub.cli.formatting import harmless_bytes
from codehub.cli.language import say

_INTERRUPTED = 130

JSON = typer.Option(False, "--json")


@dataclass(frozen=True, slots=True)
class Output:
    as_json: bool

    def result(self, value: object) -> None:
        """Print an object of the API's."""
        typer.echo(_printable(json.dumps(value, ensure_ascii=False, indent=2)))

    def line(self, value: object) -> None:
        """Print one of many objects, each on a line."""
        typer.echo(_printable(json.dumps(value, ensure_ascii=False)))
        sys.stdout.flush()

    def show(self, text: str) -> None:
        """Print a result for people."""
        typer.echo(_harmless(text))

    def say(self, text: str) -> None:
        typer.echo(_harmless(text), err=True)


@contextmanager
def report_failures(as_json: bool) -> Iterator[Output]:
    """Turn a Failed into its message and its exit code."""
    output = Output(as_json)
    try:
        yield output
    except Failed as error:
        if as_json:
            output.line(error.shape())
        else:
            output.say(f"codehub: {error.text}")
            if error.do is not None:
                output.say(f"  → {error.do}")
        raise typer.Exit(error.exit) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except typer.Abort as error:
        # A prompt is ended by Ctrl-C or by Ctrl-D; Typer raises the same error for both.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise typer.Exit(_INTERRUPTED) from None
        raise


@contextmanager
def client_for(as_json: bool, *, answer_s_max: float = ANSWER_S_MAX) -> Iterator[tuple[Client, Output]]:
    """Yield a client of the server that the environment or the login names, and the output."""
    with report_failures(as_json) as output:
        client = Client(find_account(os.environ), answer_s_max=answer_s_max)
        try:
            yield client, output
        finally:
            client.close()


def confirm(question: str, yes: bool) -> None:
    """Ask before what can't be undone. Raises Failed without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failed("USAGE", say("nobody_confirms"))
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def read_line() -> str:
    """Return a line from stdin. Raises Failed if it is no text."""
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Failed("USAGE", say("no_text.stdin")) from None


def _printable(text: str) -> str:
    """Escape bytes of the command line that are no text, as JSON does too: stdout takes none of them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _harmless(text: str) -> str:
    """The same, of words that may hold others' names and what their workspaces wrote."""
    return harmless_bytes(_printable(text).encode()).decode()


def is_terminal() -> bool:
    return sys.stdout.isatty()


def open_in_browser(url: str) -> None:
    """Open a page, if that has a window of its own."""
    if _has_browser():
        import webbrowser

        webbrowser.open(url)


def _has_browser() -> bool:
    """Whether a page would open in a window. A text browser in this terminal would only be in the way."""
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
