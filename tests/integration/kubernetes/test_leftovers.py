"""A cluster of the tests leaves nothing behind, however its starter ends, and another beside it goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster.alone import started
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.components import SET_BY_KUBELET
from tests.support.cluster.layout import Layout
from tests.support.cluster.machine import Machine
from tests.support.kubernetes import KUBERNETES
from tests.support.patience import block_until

pytestmark = KUBERNETES


def traces(layout: Layout) -> dict[str, object]:
    """All that this machine could know of one cluster, by its number and its directory."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    rules = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    return {
        "processes": [line for line in _commands() if f"{layout.place}/" in line],
        "mounts": [line for line in mounts if str(layout.place) in line],
        "groups": [str(group) for group in layout.groups if group.exists()],
        "link": Path(f"/sys/class/net/{layout.host_link}").exists(),
        "routes": [line for line in routes.splitlines() if layout.host_link in line],
        "rules": [line for line in rules.splitlines() if "kube-proxy" in line or "policies" in line],
        "files": layout.place.exists(),
    }


def settings() -> dict[str, str]:
    """What a kubelet would set for the whole machine."""
    return {name: Path("/proc/sys", name).read_text() for name in SET_BY_KUBELET}


def _commands() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        try:
            yield (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue


def test_a_cluster_that_ends_leaves_a_machine_as_it_was_and_another_goes_on(cluster: TestCluster) -> None:
    """Its whole network, which here is the test's alone, and whatever bears the cluster's number."""
    before = settings()
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "tests.support.cluster.alone"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    layout = Layout(Path(done.stdout.strip()))
    assert layout.number != cluster.layout.number
    assert not any(traces(layout).values())
    assert settings() == before
    cluster.wait_until_usable()


def test_a_cluster_whose_starter_was_killed_ends_by_itself_and_the_next_clears_it_away() -> None:
    with started() as (starter, layout):
        os.killpg(starter.pid, signal.SIGKILL)
        block_until(lambda: not traces(layout)["processes"])
    Machine(layout).clear()
    assert not any(traces(layout).values())
