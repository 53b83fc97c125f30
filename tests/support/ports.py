"""Ports for servers that must be told theirs before they listen. No
two test processes of this machine are given the same one.
"""

import random
import socket
from pathlib import Path

_LOWEST = 20_000
_DICE = random.SystemRandom()  # another test process may have been given the same seed


def free_port() -> int:
    """Return a port that nobody gets by chance meanwhile: it is below those
    that the system gives to whoever asks for any, or connects.
    """
    first_of_the_system = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = _DICE.randrange(_LOWEST, max(first_of_the_system, _LOWEST + 1000))
        if _is_ours(port) and _is_free(port):
            return port


def _is_ours(port: int) -> bool:
    """Say whether no test process was given it before, this one included. A
    name that is bound says so: it lasts as long as this process.
    """
    with socket.socket(socket.AF_UNIX) as claim:
        try:
            claim.bind(f"\0codehub-test-port-{port}")
        except OSError:
            return False
        claim.detach()
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
