"""Starts a cluster in a network that is nobody else's, tells its starter to end, compares all of that network
before and after, and says which cluster it was.

`unshare --net python -m tests.support.cluster.alone`: elsewhere others make and remove links meanwhile.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.layout import Layout
from tests.support.cluster.pods import address_of, light_pod
from tests.support.patience import PATIENCE_S, block_until

_LOOKS = {
    "links": ("ip", "-o", "link"),
    "addresses": ("ip", "-o", "address"),
    "routes": ("ip", "route", "show", "table", "all"),
    "rules of routing": ("ip", "rule"),
    "rules": ("nft", "list", "ruleset"),
}
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
# As an engine for containers has them: what a cluster of the tests must leave alone.
_OTHERS = (
    ("ip", "link", "set", "lo", "up"),
    ("ip", "link", "add", "bridge0", "type", "bridge"),
    ("ip", "address", "add", "172.17.0.1/16", "dev", "bridge0"),
    ("nft", "add", "table", "ip", "nat"),
    ("nft", "add", "chain", "ip", "nat", "POSTROUTING", "{ type nat hook postrouting priority 100; }"),
    ("nft", "add", "rule", "ip", "nat", "POSTROUTING", "ip saddr 172.17.0.0/16 masquerade"),
)


def network() -> Mapping[str, str]:
    looks = {
        name: subprocess.run(look, capture_output=True, text=True, check=True).stdout
        for name, look in _LOOKS.items()
    }
    return {**looks, "forwarding": _FORWARDING.read_text()}


def differences(before: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    return {name: (before[name], now) for name, now in network().items() if now != before[name]}


@contextmanager
def started() -> Iterator[tuple[subprocess.Popen[str], Layout]]:
    """A cluster in which a Pod runs, and the process that
    has started it, in a group of processes of its own.
    """
    environment = {name: value for name, value in os.environ.items() if name != "CODEHUB_TEST_KUBERNETES"}
    say = "import os, time; print(os.environ['CODEHUB_TEST_KUBERNETES'], flush=True); time.sleep(1000)"
    command = (sys.executable, "-m", "tests.support.kubernetes", sys.executable, "-c", say)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as starter:
        assert starter.stdout is not None
        try:
            layout = Layout(Path(starter.stdout.readline().strip()))
            cluster = TestCluster(layout)
            cluster.apply(pod := light_pod("default", "light"))
            address_of(cluster, pod)
            cluster.close()
            yield starter, layout
        finally:
            with suppress(ProcessLookupError):
                os.killpg(starter.pid, signal.SIGKILL)


def main() -> str | None:
    for command in _OTHERS:
        subprocess.run(command, check=True)
    before = network()
    with started() as (starter, layout):
        sys.stdout.write(f"{layout.place}\n")
        if not differences(before).keys() >= {"links", "routes"}:
            return "a cluster that is there should be seen"
        starter.terminate()
        starter.wait(PATIENCE_S)
    try:  # a network goes a moment after the last process in it
        block_until(lambda: not differences(before))
    except TimeoutError:
        return f"what it changed: {differences(before)}"
    return None


if __name__ == "__main__":
    sys.exit(main())
