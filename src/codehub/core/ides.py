"""The IDEs, one row each: how it starts in a container and as a process,
when it is healthy, what of its traffic is somebody's work.

Arguments and paths may hold {mount} (where the workspace is served, without a slash at its end) and {home};
those of a process also {socket} and, where there is one, {runtime}.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_BUSY_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class IdeProfile:
    """One IDE. The first of the table that a machine has is its default."""

    name: str

    port: int = 8080
    """Where it listens in a container."""
    image_args: tuple[str, ...] | None = None
    """What follows the image's entry point; None: what the image says itself."""

    program: str | None = None
    """What starts it as a process: a command on the PATH, one that
    `make` built, or a script beside codehub's Python.
    """
    python_module: str | None = None
    """The module behind `program`, where that is a script of codehub's own Python."""
    process_args: tuple[str, ...] = ()
    runtime_args: tuple[str, ...] = ()
    """Arguments that need a directory for sockets which is not kept: sockets in the home would be
    archived.
    """
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of its process; may also hold {config}, the directory of settings that codehub brings for it."""
    runtime_environment: Mapping[str, str] = field(default_factory=dict)
    hidden_modules: tuple[str, ...] = ()
    """Python modules that it must not find."""

    health_path: str = "/"
    healthy_below: int = 300
    """An answer whose status is below this is a healthy one."""

    keeps_prefix: bool = False
    """Whether it wants to be asked for the whole path, mount included, rather than for what follows."""
    documents: tuple[str, ...] = ()
    """The paths of the pages in whose tabs it runs, with whatever lies below them: codehub's script goes into
    these alone.
    """
    busy_bytes_per_minute: int | None = None
    """More than this many bytes up a minute, over all its sockets and
    uncompressed, are somebody's work; so many for each open tab.
    """
    own_files: bytes | None = None
    """A tab is told of every file that changes under what it has
    open. Of those in here the IDE itself is the cause.
    """
    own_sockets: tuple[str, ...] = ()
    """The paths of sockets over which it talks to its tab of
    itself: whatever goes over them is nobody's work.
    """
    counts_frames_up: bool = False
    """Whether every data frame from the browser is somebody's work, where no script of ours says so."""
    busy_prints_per_minute: int | None = None
    """That many parts of output a minute are a terminal or a cell that prints."""
    output_mark: bytes | None = None
    """What a part of output has in it. None: each data frame down is one."""
    writes_under: tuple[str, ...] | None = None
    """The paths below which a changing request counts; None: anywhere."""


_CODE_SERVER = IdeProfile(
    "code-server",
    # Its second socket would be in the home, which is archived.
    image_args=(
        *("--auth", "none", "--bind-addr", "0.0.0.0:8080", "--disable-telemetry", "--disable-update-check"),
        *("--session-socket", "/tmp/session.sock", "{home}"),  # noqa: S108  # the container's own /tmp
    ),
    program="code-server",
    process_args=(
        *("--auth", "none", "--disable-telemetry", "--disable-update-check"),
        *("--socket-mode", "600", "--socket", "{socket}", "{home}"),
    ),
    runtime_args=("--session-socket", "{runtime}/session.sock"),
    health_path="/healthz",
    documents=("/",),
    busy_bytes_per_minute=_BUSY_BYTES,
    own_files=b"/.local/share/code-server/",
    busy_prints_per_minute=12,
    # What a terminal's process has said, as its server passes it on.
    output_mark=b',"event":"',
)

_JUPYTERLAB_ARGS = (
    "--ServerApp.base_url={mount}/",
    "--ServerApp.root_dir={home}",
    "--ServerApp.allow_remote_access=True",  # the Host header is the proxy's, who has checked the person
    "--ServerApp.quit_button=False",
    "--ServerApp.open_browser=False",
    "--IdentityProvider.token=",
    "--PasswordIdentityProvider.hashed_password=",
    "--LabApp.news_url=None",
)
# Kernels would listen on loopback ports, in reach of every workspace.
_KERNELS_BY_SOCKET = "--KernelManager.transport=ipc"

_JUPYTERLAB = IdeProfile(
    "jupyterlab",
    port=8888,
    image_args=(
        *("jupyter", "lab", "--ServerApp.ip=0.0.0.0", "--ServerApp.port=8888"),
        *_JUPYTERLAB_ARGS,
        _KERNELS_BY_SOCKET,
    ),
    program="jupyter-lab",
    python_module="jupyterlab",
    process_args=("--ServerApp.sock={socket}", "--ServerApp.sock_mode=0600", *_JUPYTERLAB_ARGS),
    runtime_args=(_KERNELS_BY_SOCKET,),
    # Settings that a person may change: it asks nobody for news, and looks for no newer version of itself.
    environment={"JUPYTER_CONFIG_PATH": "{config}"},
    runtime_environment={"JUPYTER_RUNTIME_DIR": "{runtime}"},
    # A kernel with it listens, once somebody debugs, on a loopback port and asks for no password: every
    # workspace could run code there. Without it JupyterLab has no debugger, and all else works.
    hidden_modules=("debugpy",),
    health_path="{mount}/api",
    keeps_prefix=True,
    documents=("/lab", "/doc"),
    own_sockets=("/api/events/",),
    counts_frames_up=True,
    busy_prints_per_minute=12,
    writes_under=("/api/contents", "/api/sessions", "/api/kernels", "/api/terminals"),
)

# Any web server: what an image says itself, healthy with any answer that is no failure of the server.
_HTTP = IdeProfile("http", healthy_below=500, busy_bytes_per_minute=_BUSY_BYTES)

IDES: Mapping[str, IdeProfile] = {ide.name: ide for ide in (_CODE_SERVER, _JUPYTERLAB, _HTTP)}


def ide_profile(name: str) -> IdeProfile:
    """Return its row. What is not in the table is any web server."""
    return IDES.get(name, _HTTP)


def expand(templates: tuple[str, ...], **values: str) -> list[str]:
    return [template.format(**values) for template in templates]
