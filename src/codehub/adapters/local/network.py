"""A sandbox's command goes in, the command that runs it in a network of its own comes out.

Inside, loopback and abstract sockets belong to the workspace alone. The gateway (pasta, or slirp4netns)
reaches what this machine reaches, but nothing that listens on this machine's loopback: the address that both
map to it by default is switched off.
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
    """The program that connects a network to the outside."""

    command: tuple[str, ...]
    """`{pid}` is the process whose network it is."""
    resolver: str
    """The address in there at which this machine's name server answers."""


def find_gateway() -> Gateway | None:
    if (program := shutil.which("pasta", path=_PATH)) is not None:
        resolver = "169.254.1.1"
        no_forwarding = ("--no-map-gw", "-t", "none", "-u", "none", "-T", "none", "-U", "none")
        command = (program, "-f", "-q", "--config-net", *no_forwarding, "--dns-forward", resolver, "{pid}")
        return Gateway(command, resolver)
    if (program := shutil.which("slirp4netns", path=_PATH)) is not None:
        namespace_options = (
            "--userns-path=/proc/{pid}/ns/user",
            "--netns-type=path",
            "/proc/{pid}/ns/net",
            "tap0",
        )
        return Gateway(
            (program, "--configure", "--mtu=65520", "--disable-host-loopback", *namespace_options), "10.0.2.3"
        )
    return None


def why_unusable(gateway: Gateway | None, uid: int | None) -> str | None:
    """Return why workspaces can't have their own networks here, or None. Tests it by making one.

    On a machine without a default route, a network without one is enough.
    """
    if gateway is None:
        return "neither pasta (package passt) nor slirp4netns is installed"
    with tempfile.TemporaryDirectory() as directory:
        identity = Path(directory) / "gateway"
        try:
            result = subprocess.run(  # noqa: S603  # the command is ours
                network_command(gateway, uid, identity, ["check"]),
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CHECK_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{gateway.command[0]} can't run here: {error}"
        if result.returncode == 0 or (result.returncode == _NO_GATEWAY and not has_default_route()):
            return None
        log = identity.with_name("gateway.log")
        output = result.stderr + (log.read_bytes() if log.exists() else b"")
    return f"{gateway.command[0]} can't run here: {' '.join(output.decode(errors='replace').split())[-200:]}"


def network_command(gateway: Gateway, uid: int | None, identity: Path, command: Sequence[str]) -> list[str]:
    """Return the command that makes a network, starts its gateway, which writes who it is to `identity`, and
    becomes the command.
    """
    owner = "-" if uid is None else str(uid)
    return [sys.executable, "-I", "-S", str(_ENTER), owner, str(identity), *gateway.command, "--", *command]


def name_servers(gateway: Gateway, resolv_conf: str) -> str | None:
    """Return a sandbox's resolv.conf, or None if this machine's works there, too: a server on loopback does
    not.
    """
    lines = [line.split() for line in resolv_conf.splitlines()]
    servers = [fields[1] for fields in lines if len(fields) > 1 and fields[0] == "nameserver"]
    if servers and not all(server.startswith(_LOOPBACK) for server in servers):
        return None
    other_lines = [
        " ".join(fields) for fields in lines if fields and fields[0] in ("search", "domain", "options")
    ]
    return "\n".join([f"nameserver {gateway.resolver}", *other_lines, ""])


def has_default_route() -> bool:
    """Return whether this machine has a default route."""
    for name, column, default_route in (("route", 1, "00000000"), ("ipv6_route", 0, "0" * 32)):
        path = Path("/proc/net") / name
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        if any(len(row) > column and row[column] == default_route and "lo" not in row for row in rows):
            return True
    return False
