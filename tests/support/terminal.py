"""A real terminal: a tmux of our own with one window, what is typed into it, and what its screen shows."""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S

NO_TMUX = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux (scripts/engines)")
PROMPT = "> "
_ASKS = r"^> ?\s*\Z"


class Terminal:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *arguments: str) -> str:
        command = ("tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout

    def type(self, *keys: str) -> None:
        """Type keys by tmux's names for them; anything else is typed letter by letter."""
        self.tmux("send-keys", *keys)

    def run(self, line: str) -> None:
        """Type a command, when the shell asks for one, on an empty screen."""
        self.until(_ASKS)
        self.type("C-l")
        self.tmux("send-keys", "-l", line)
        self.type("Enter")

    def screen(self, *, coloured: bool = False) -> str:
        return self.tmux("capture-pane", "-p", "-J", *(["-e"] if coloured else []))

    def until(self, pattern: str) -> str:
        """Wait until the screen shows it, and return the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen()
            if re.search(pattern, screen, re.MULTILINE):
                return screen
            assert time.monotonic() < deadline, f"no {pattern!r} on:\n{screen}"
            time.sleep(0.02)


@contextmanager
def terminal(environ: Mapping[str, str], *, columns: int = 80, rows: int = 24) -> Iterator[Terminal]:
    """Open one with a plain bash in it. What runs in it at the end is hung up."""
    directory = Path(tempfile.mkdtemp(prefix="codehub-tmux-"))
    opened = Terminal(directory / "socket")
    kept = [f"{name}={value}" for name, value in environ.items()]
    size = ("-x", str(columns), "-y", str(rows))
    shell = ("env", "-i", *kept, "TERM=tmux-256color", f"PS1={PROMPT}", "bash", "--norc", "--noprofile")
    try:
        opened.tmux("new-session", "-d", *size, *shell)
        opened.until(_ASKS)
        yield opened
    finally:
        try:
            opened.tmux("kill-server")
        finally:
            shutil.rmtree(directory)
