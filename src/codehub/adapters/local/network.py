"""A sandbox's command goes in, the command that runs it in a network of its own comes out. Nothing is started here but what tries it.

In there loopback and abstract sockets are the workspace's alone. What leads out (pasta, or slirp4netns) reaches what this machine
reaches, and nothing that listens on this machine's loopback: the address that both map to it by default is switched off.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PATH = "/usr/local/bin:/usr/bin:/bin"
_ENTER = Path(__file__).with_name("enter_network.py")
_CHECK_S = 60.0
_NO_GATEWAY = 4
_LOOPBACK = ("127.", "::1")


@dataclass(frozen=True, slots=True)
class Gateway:
    """What leads out of a network."""

    command: tuple[str, ...]
    """`{pid}` is the process whose network it is."""
    resolver: str
    """The address in there at which this machine's name server answers."""


def find_gateway() -> Gateway | None:
    if (program := shutil.which("pasta", path=_PATH)) is not None:
        resolver = "169.254.1.1"
        closed = ("--no-map-gw", "-t", "none", "-u", "none", "-T", "none", "-U", "none")
        words = (program, "-f", "-q", "--config-net", *closed, "--dns-forward", resolver, "{pid}")
        return Gateway(words, resolver)
    if (program := shutil.which("slirp4netns", path=_PATH)) is not None:
        where = ("--userns-path=/proc/{pid}/ns/user", "--netns-type=path", "/proc/{pid}/ns/net", "tap0")
        return Gateway((program, "--configure", "--mtu=65520", "--disable-host-loopback", *where), "10.0.2.3")
    return None


def why_unusable(gateway: Gateway | None, uid: int | None) -> str | None:
    """Return why workspaces can't have networks of their own here, or None. Asked by making one.

    On a machine that has no way out itself, a network without one is all that there is to have.
    """
    if gateway is None:
        return "neither pasta (package passt) nor slirp4netns is installed"
    with tempfile.TemporaryDirectory() as directory:
        identity = Path(directory) / "gateway"
        try:
            told = subprocess.run(  # noqa: S603  # the command is ours
                in_network(gateway, uid, identity, ["check"]),
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CHECK_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{gateway.command[0]} can't run here: {error}"
        if told.returncode == 0 or (told.returncode == _NO_GATEWAY and not has_way_out()):
            return None
        log = identity.with_name("gateway.log")
        said = told.stderr + (log.read_bytes() if log.exists() else b"")
    return f"{gateway.command[0]} can't run here: {' '.join(said.decode(errors='replace').split())[-200:]}"


def in_network(gateway: Gateway, uid: int | None, identity: Path, command: Sequence[str]) -> list[str]:
    """Return the command that makes a network, starts its gateway, which writes who it is to `identity`, and becomes the command."""
    owner = "-" if uid is None else str(uid)
    return [sys.executable, "-I", "-S", str(_ENTER), owner, str(identity), *gateway.command, "--", *command]


def name_servers(gateway: Gateway, told: str) -> str | None:
    """Return what a sandbox's resolv.conf is to say, or None if this machine's is right there, too: one on loopback is not."""
    lines = [line.split() for line in told.splitlines()]
    servers = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    if servers and not all(server.startswith(_LOOPBACK) for server in servers):
        return None
    kept = [" ".join(words) for words in lines if words and words[0] in ("search", "domain", "options")]
    return "\n".join([f"nameserver {gateway.resolver}", *kept, ""])


def has_way_out() -> bool:
    """Say whether this machine has a default route."""
    for name, column, nowhere in (("route", 1, "00000000"), ("ipv6_route", 0, "0" * 32)):
        path = Path("/proc/net") / name
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        if any(len(row) > column and row[column] == nowhere and "lo" not in row for row in rows):
            return True
    return False
