"""A machine that somebody has just got: Python below a home that
its owner alone may enter, and nothing that isolates.

The home is real; the rest is this machine in a mount namespace,
in which the programs that isolate can't be found.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.program import Running, environment, running

import codehub
from codehub.adapters.local.sandbox import blocked_directory

BWRAP = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
ROOT_WITH_BWRAP = pytest.mark.skipif(
    os.geteuid() != 0 or BWRAP is None, reason="only root, with bubblewrap, makes such a machine"
)
_VERSION = f"python3.{sys.version_info.minor}"
_ISOLATING = ("bwrap", "pasta", "slirp4netns")


class FreshMachine:
    """`home` is the home of `uid`, with a Python as pyenv leaves
    it, and codehub in a virtual environment of that.
    """

    def __init__(self, base: Path) -> None:
        self.base, self.uid = base, 0
        self.home = base / "home"
        self._python = self.home / f".pyenv/versions/3.{sys.version_info.minor}"
        self._venv = self.home / "codehub/.venv"
        self._fill()

    def command(self, *arguments: str, isolates: bool = False) -> list[str]:
        """Return how a command is run there, as that user, with what isolates or without."""
        assert BWRAP is not None
        paths = [shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") for name in _ISOLATING]
        hidden = [path for path in paths if path is not None and not isolates]
        return [
            *(BWRAP, "--dev-bind", "/", "/", "--die-with-parent", "--unshare-pid", "--proc", "/proc"),
            *("--ro-bind", str(self.base / "passwd"), "/etc/passwd"),
            *(
                ()
                if self.uid == 0
                else _opened(Path(sys.base_prefix, "lib"), Path(codehub.__file__).parents[1])
            ),
            *(word for path in hidden for word in ("--ro-bind", "/dev/null", path)),
            *("--", "/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"),
            *arguments,
        ]

    @contextmanager
    def up(self, data_dir: Path, *, isolates: bool = False, **settings: str) -> Iterator[Running]:
        with running(
            data_dir, command=self.codehub("up", isolates=isolates), **self._settings(settings)
        ) as server:
            yield server

    def run(
        self, *arguments: str, isolates: bool = False, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.codehub(*arguments, isolates=isolates),
            env=environment(**self._settings(settings)),
            capture_output=True,
            text=True,
            check=False,
        )

    def codehub(self, *arguments: str, isolates: bool = False) -> list[str]:
        python = str(self._venv / "bin/python")
        command = ("/usr/bin/env", f"HOME={self.home}", python, "-m", "codehub", *arguments)
        return self.command(*command, isolates=isolates)

    def _settings(self, settings: dict[str, str]) -> dict[str, str]:
        return {"ide": "jupyterlab", "cache": str(self.base / f"cache-{self.uid}")} | settings

    def _fill(self) -> None:
        base, venv = Path(sys.base_prefix), Path(sys.prefix)
        for directory in (self._python / "bin", self._python / "lib", self._venv / "bin"):
            directory.mkdir(parents=True)
        _linked(base / f"bin/{_VERSION}", self._python / f"bin/{_VERSION}")
        (self._python / "bin/python3").symlink_to(_VERSION)
        for library in base.glob("lib/libpython*.so*"):
            _linked(library, self._python / "lib" / library.name)
        needless = shutil.ignore_patterns("site-packages", "dist-packages", "test", "config-*")
        _tree(base / f"lib/{_VERSION}", self._python / f"lib/{_VERSION}", ignore=needless)
        _tree(
            venv / f"lib/{_VERSION}",
            self._venv / f"lib/{_VERSION}",
            ignore=shutil.ignore_patterns("playwright", "mypy", "*__mypyc*", "pip"),
        )
        _tree(venv / "share", self._venv / "share")
        _linked(venv / "bin/jupyter-lab", self._venv / "bin/jupyter-lab")
        (self._venv / "bin/python3").symlink_to(self._python / "bin/python3")
        (self._venv / "bin/python").symlink_to("python3")
        (self._venv / "pyvenv.cfg").write_text(
            f"home = {self._python / 'bin'}\ninclude-system-site-packages = false\n"
        )
        self.home.chmod(0o700)

    def belongs_to(self, uid: int) -> "FreshMachine":
        self.uid = uid
        somebody = f"somebody:x:{uid}:{uid}::{self.home}:/bin/sh\n" if uid else ""
        (self.base / "passwd").write_text(Path("/etc/passwd").read_text() + somebody)
        os.chown(self.home, uid, uid)
        return self

    def new_directory(self, name: str) -> Path:
        """Make a directory that everybody may enter and its user may fill."""
        place = self.base / name
        place.mkdir(mode=0o755)
        os.chown(place, self.uid, self.uid)
        return place


def _opened(*needed: Path) -> list[str]:
    """Return how an ordinary user gets to what belongs to the test and not to the machine:
    the library that this Python was built with, and the source of codehub.
    """
    closed = {blocked for path in needed if (blocked := blocked_directory(path, uid=-1)) is not None}
    within = [path for path in needed if any(path.is_relative_to(top) for top in closed)]
    return [
        *(word for top in closed for word in ("--perms", "0755", "--tmpfs", str(top))),
        *(word for path in within for word in _bound(path)),
    ]


def _bound(path: Path) -> list[str]:
    # bubblewrap makes missing parents 0700.
    made = (
        word for parent in reversed(path.parents[:-1]) for word in ("--perms", "0755", "--dir", str(parent))
    )
    return [*made, "--ro-bind", str(path), str(path)]


def _tree(source: Path, target: Path, ignore: Callable[[str, list[str]], set[str]] | None = None) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=ignore, copy_function=_linked)


def _linked(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
