"""How a command speaks: results on stdout, words for people on stderr, and an error in the form that was asked for."""

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
from codehub.cli.words import harmless_bytes

_INTERRUPTED = 130

JSON = typer.Option(False, "--json", help="Print the API's own objects, for programs.")


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
def speaking(as_json: bool) -> Iterator[Output]:
    """Turn a Failed into its words and its exit code."""
    speech = Output(as_json)
    try:
        yield speech
    except Failed as failed:
        if as_json:
            speech.line(failed.shape())
        else:
            speech.say(f"codehub: {failed.words}")
            if failed.do is not None:
                speech.say(f"  → {failed.do}")
        raise typer.Exit(failed.exit) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except typer.Abort as ended:
        # Whoever is asked something ends it by Ctrl-C or by Ctrl-D; Typer makes the same of both.
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise typer.Exit(_INTERRUPTED) from None
        raise


@contextmanager
def client_for(as_json: bool, *, answer_s_max: float = ANSWER_S_MAX) -> Iterator[tuple[Client, Output]]:
    """Yield a client of the server that the environment or the login names, and how to speak."""
    with speaking(as_json) as speech:
        client = Client(find_account(os.environ), answer_s_max=answer_s_max)
        try:
            yield client, speech
        finally:
            client.close()


def be_sure(question: str, yes: bool) -> None:
    """Ask before what can't be undone. Raises Failed where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failed("USAGE", "this can't be undone, and nobody is there to be asked: add --yes")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def heard() -> str:
    """Return a line from stdin. Raises Failed if it is no text."""
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Failed("USAGE", "what came on stdin is not text in UTF-8") from None


def _printable(text: str) -> str:
    """Escape bytes of the command line that are no text, as JSON does too: stdout takes none of them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _harmless(text: str) -> str:
    """The same, of words that may hold others' names and what their workspaces wrote."""
    return harmless_bytes(_printable(text).encode()).decode()


def is_terminal() -> bool:
    return sys.stdout.isatty()
