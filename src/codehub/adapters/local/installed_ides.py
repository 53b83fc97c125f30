"""The IDEs of this machine: rows of core/ides.py go in; those that are installed, with what each needs to
see, come out.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from codehub.adapters.cache import cache_directory
from codehub.core.ides import IDES, IdeProfile, expand, ide_profile
from codehub.core.route import mount_of

SOCKET = "ide.sock"
# Less than it will import, but enough to need the interpreter, its library and the installed packages.
_CHECK = (
    "import sys, ssl, sqlite3, zmq, importlib.util as u; open(sys.argv[1]).close(); sys.exit(not "
    "u.find_spec(sys.argv[2]))"
)


@dataclass(frozen=True, slots=True)
class IdePaths:
    """The paths of an IDE's workspace, as the IDE sees them."""

    workspace_id: UUID
    home: str
    socket: str
    runtime: str | None
    """A directory of its own for sockets, not kept; None where its path would be too long for one."""


@dataclass(frozen=True, slots=True)
class InstalledIde:
    """One IDE that this machine can start."""

    profile: IdeProfile
    program: Path
    argv: Callable[[IdePaths], Sequence[str]]
    check: tuple[str, ...] = ("/bin/true",)
    """A command that ends well, soon, where the IDE can be run at all."""
    visible: tuple[Path, ...] = ()
    """What it needs of the machine beside /usr."""
    hidden: tuple[Path, ...] = ()
    """What it must not find inside a visible directory: empty in a sandbox."""
    bin: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.profile.name


def installed_ides(programs: Mapping[str, Path] | None = None) -> Mapping[str, InstalledIde]:
    """Return the IDEs that are installed here, the one to use by default first.

    `programs`: where some of them are.
    """
    known_programs = programs or {}
    installed = (
        _python_ide(profile)
        if profile.python_module
        else _program_ide(profile, known_programs.get(profile.name))
        for profile in IDES.values()
        if profile.program is not None
    )
    return {ide.name: ide for ide in installed if ide is not None}


def http_ide(command: Sequence[str], visible: Sequence[Path] = ()) -> InstalledIde:
    """Return any web server that takes the path of its socket as its last argument."""
    return InstalledIde(
        ide_profile("http"),
        Path(command[0]),
        lambda place: [*command, place.socket],
        visible=tuple(visible),
    )


def _program_ide(profile: IdeProfile, program: Path | None) -> InstalledIde | None:
    """Return an IDE that is a program of its own, or a script for the Node of this machine."""
    assert profile.program is not None
    program = program or _which(profile.program) or _newest_build(profile.program)
    if program is None or not program.exists():
        return None
    entry = program.resolve()
    visible = {_installation(entry)}
    command: tuple[str, ...] = (str(entry),)
    if entry.suffix == ".js":  # npm: a script for the node of this machine; else it brings its own
        node = _which("node")
        if node is None:
            return None
        node = node.resolve()
        visible.add(node.parent)
        command = (str(node), str(entry))
    return InstalledIde(
        profile,
        program,
        _argv(profile, command),
        check=(*command, "--version"),
        visible=tuple(sorted(visible)),
        bin=(program.parent,) if program.parent in visible else (),
    )


def _python_ide(profile: IdeProfile) -> InstalledIde | None:
    """Return an IDE that is installed beside codehub, in the same Python."""
    assert profile.program is not None
    assert profile.python_module is not None
    python = Path(sys.executable)
    # The script and not `-m`: that would import modules from the home first.
    script = python.parent / profile.program
    if not script.exists():
        return None
    config = Path(__file__).with_name(profile.name)
    return InstalledIde(
        profile,
        script,
        _argv(profile, (str(python), str(script))),
        check=(str(python), "-c", _CHECK, str(script), profile.python_module),
        visible=(*python_installation(python), config),
        hidden=_module_paths(profile.hidden_modules),
        bin=(python.parent,),
        environment={name: value.format(config=config) for name, value in profile.environment.items()},
    )


def _argv(profile: IdeProfile, command: Sequence[str]) -> Callable[[IdePaths], Sequence[str]]:
    def argv(place: IdePaths) -> Sequence[str]:
        mount = mount_of(place.workspace_id)
        runtime = () if place.runtime is None else expand(profile.runtime_args, runtime=place.runtime)
        arguments = expand(profile.process_args, mount=mount, home=place.home, socket=place.socket)
        return [*command, *runtime, *arguments]

    return argv


def python_installation(python: Path) -> tuple[Path, ...]:
    """Return what a Python needs to see: its virtual environment, and the installation that this was made
    from.
    """
    roots = {python.parent.parent, python.resolve().parent.parent}
    if python == Path(sys.executable):
        roots |= {Path(sys.prefix), Path(sys.base_prefix)}
    return tuple(sorted(roots))


def _module_paths(modules: Sequence[str]) -> tuple[Path, ...]:
    paths = (Path(entry) / module for entry in sys.path if entry for module in modules)
    return tuple(sorted({path for path in paths if path.is_dir()}))


def _installation(entry: Path) -> Path:
    """Return the directory that holds the whole of a program: its node_modules, or what its bin is in."""
    parts = entry.parts
    if "node_modules" in parts:
        return Path(*parts[: parts.index("node_modules") + 1])
    return entry.parent.parent if entry.parent.name == "bin" else entry.parent


def _newest_build(program: str) -> Path | None:
    """Return the build that `make` has made last for this user."""
    builds = cache_directory().glob(f"{program}-*/bin/{program}")
    return max(builds, key=lambda build: build.stat().st_mtime, default=None)


def _which(name: str) -> Path | None:
    path = shutil.which(name)
    return None if path is None else Path(path)
