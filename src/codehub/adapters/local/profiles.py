"""The IDEs of this machine go in, a table comes out: how each is started, what it needs to see, and when it is healthy."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from codehub.adapters.cache import cache_directory

SOCKET = "ide.sock"
# Settings that a person may change: it asks nobody for news at the first opening, and looks for no newer version of itself.
_JUPYTER_CONFIG = Path(__file__).with_name("jupyter")
# Much less than it will import, but enough to need the interpreter, its library and what is installed beside it.
_CHECK = "import sys, ssl, sqlite3, zmq, importlib.util as u; open(sys.argv[1]).close(); sys.exit(not u.find_spec('jupyterlab'))"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an IDE finds itself: paths as it sees them."""

    workspace_id: UUID
    home: str
    socket: str
    runtime: str | None
    """A directory of its own for sockets, not kept; None where its path would be too long for one."""

    @property
    def base_url(self) -> str:
        return f"/w/{self.workspace_id}/"


@dataclass(frozen=True, slots=True)
class Profile:
    """One IDE."""

    name: str
    program: Path
    argv: Callable[[Place], Sequence[str]]
    health_path: str
    """May hold {id}."""
    healthy_below: int
    """An answer whose status is below this is a healthy one."""
    check: tuple[str, ...] = ("/bin/true",)
    """A command that ends well, soon, where the IDE can be run at all."""
    keeps_prefix: bool = False
    """Whether it wants to be asked for /w/{id}/… rather than for what follows."""
    visible: tuple[Path, ...] = ()
    """What it needs of the machine beside /usr."""
    hidden: tuple[Path, ...] = ()
    """What it must not find, though something visible holds it: empty in a sandbox."""
    bin: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def health_target(self, workspace_id: UUID) -> str:
        return self.health_path.format(id=workspace_id)


def installed_profiles(code_server: Path | None = None) -> Mapping[str, Profile]:
    """Return the IDEs that are installed here, the one to use by default first. An empty table means: none."""
    found = [
        _code_server(code_server or _which("code-server") or _built_code_server()),
        _jupyterlab(Path(sys.executable)),
    ]
    return {profile.name: profile for profile in found if profile is not None}


def http_profile(command: Sequence[str], visible: Sequence[Path] = ()) -> Profile:
    """Return the profile of any web server that takes the path of its socket as its last argument."""
    return Profile(
        "http",
        Path(command[0]),
        lambda place: [*command, place.socket],
        "/",
        healthy_below=500,
        visible=tuple(visible),
    )


def _code_server(program: Path | None) -> Profile | None:
    if program is None or not program.exists():
        return None
    entry = program.resolve()
    visible = {_installation(entry)}
    command = [str(entry)]
    if entry.suffix == ".js":  # npm: a script for the node of this machine; else it brings its own
        node = _which("node")
        if node is None:
            return None
        node = node.resolve()
        visible.add(node.parent)
        command = [str(node), str(entry)]
    options = ("--auth", "none", "--disable-telemetry", "--disable-update-check", "--socket-mode", "600")

    def argv(place: Place) -> Sequence[str]:
        # Its second socket would be in the home, which is archived.
        session = () if place.runtime is None else ("--session-socket", f"{place.runtime}/session.sock")
        return [*command, *options, *session, "--socket", place.socket, place.home]

    return Profile(
        "code-server",
        program,
        argv,
        "/healthz",
        healthy_below=300,
        check=(*command, "--version"),
        visible=tuple(sorted(visible)),
        bin=(program.parent,) if program.parent in visible else (),
    )


def _jupyterlab(python: Path) -> Profile | None:
    # The script and not `-m`: that would look for modules in the home first, where anything may lie.
    script = python.parent / "jupyter-lab"
    if not script.exists():
        return None

    def argv(place: Place) -> Sequence[str]:
        options = {
            "ServerApp.sock": place.socket,
            "ServerApp.sock_mode": "0600",
            "ServerApp.base_url": place.base_url,
            "ServerApp.root_dir": place.home,
            "ServerApp.allow_remote_access": "True",  # the Host header is the proxy's, who has checked the person
            "ServerApp.quit_button": "False",
            "ServerApp.open_browser": "False",
            "IdentityProvider.token": "",
            "PasswordIdentityProvider.hashed_password": "",
            "LabApp.news_url": "None",
        }
        if place.runtime is not None:  # kernels would listen on loopback ports, in reach of every workspace
            options["KernelManager.transport"] = "ipc"
        return [str(python), str(script), *(f"--{name}={value}" for name, value in options.items())]

    return Profile(
        "jupyterlab",
        script,
        argv,
        "/w/{id}/api",
        healthy_below=300,
        check=(str(python), "-c", _CHECK, str(script)),
        keeps_prefix=True,
        visible=(*python_installation(python), _JUPYTER_CONFIG),
        hidden=_debuggers(),
        bin=(python.parent,),
        environment={"JUPYTER_CONFIG_PATH": str(_JUPYTER_CONFIG)},
    )


def python_installation(python: Path) -> tuple[Path, ...]:
    """Return what a Python needs to see: its virtual environment, and the installation that this was made from."""
    found = {python.parent.parent, python.resolve().parent.parent}
    if python == Path(sys.executable):
        found |= {Path(sys.prefix), Path(sys.base_prefix)}
    return tuple(sorted(found))


def _debuggers() -> tuple[Path, ...]:
    """Return where debugpy lies. A kernel with it listens, once somebody debugs, on a loopback port and asks for no password: every
    workspace could run code there. Without it JupyterLab has no debugger, and all else works."""
    found = (Path(entry) / "debugpy" for entry in sys.path if entry)
    return tuple(sorted({path for path in found if path.is_dir()}))


def _installation(entry: Path) -> Path:
    """Return the directory that holds the whole of a program: its node_modules, or what its bin is in."""
    parts = entry.parts
    if "node_modules" in parts:
        return Path(*parts[: parts.index("node_modules") + 1])
    return entry.parent.parent if entry.parent.name == "bin" else entry.parent


def _built_code_server() -> Path | None:
    """Return what `make code-server` has built last for whoever runs this."""
    built = cache_directory().glob("code-server-*/bin/code-server")
    return max(built, key=lambda program: program.stat().st_mtime, default=None)


def _which(name: str) -> Path | None:
    found = shutil.which(name)
    return None if found is None else Path(found)
