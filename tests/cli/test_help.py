"""The help of every command: in the language of whoever asks, as wide as a terminal."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import codehub.__main__
from codehub.cli.main import cli
from codehub.text import LANGUAGES, text
from codehub.text.terminal import columns

assert codehub.__main__.__doc__, "it adds what runs a server"
RUNNER = CliRunner()


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, (*path, name))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_help_fits_a_terminal_of_80_columns(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEHUB_LANG", language)
    for path in paths(get_command(cli)):
        shown = RUNNER.invoke(cli, [*path, "--help"], terminal_width=80)
        assert shown.exit_code == 0
        assert [line for line in shown.output.splitlines() if columns(line) > 80] == []
        assert "\u200b" not in shown.output


def test_help_is_in_the_language_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEHUB_LANG", "ko")
    shown = RUNNER.invoke(cli, ["ws", "stop", "--help"])
    for key in ("ws.stop", "option.timeout", "parser.Usage", "parser.Options", "option.help"):
        assert " ".join(text("ko", f"help.{key}").split()) in " ".join(shown.output.split())


def test_a_refusal_is_in_the_language_of_whoever_runs_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEHUB_LANG", "ko")
    refused = RUNNER.invoke(cli, ["login", "--password-stdin", "--token-stdin"])
    assert text("ko", "cli.login.two_keys") in refused.output
