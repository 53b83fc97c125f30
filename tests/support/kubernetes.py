"""A Kubernetes cluster for tests, with the images they need:
one that runs, or one of our own that ends with us.

As root, of what `make kubernetes` has built: a real control plane and a real node in namespaces
of their own. Several run side by side, each by its number: one for each worker of pytest, so that
a test which kills an API server harms its own. CODEHUB_TEST_KUBERNETES=DIRECTORY takes one that
runs: `python -m tests.support.kubernetes COMMAND…` sets it.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.support.cluster.addons import addons
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.components import write_files
from tests.support.cluster.images import light_images, write_image
from tests.support.cluster.keys import make_keys
from tests.support.cluster.layout import NUMBERS, Layout
from tests.support.cluster.machine import Machine
from tests.support.docker import cache
from tests.support.patience import block_until

_BUILD = Path(__file__).parents[2] / "scripts/kubernetes/build"
_PROGRAMS = ("ip", "nft", "nsenter", "openssl", "unshare")


def built_kubernetes() -> Path | None:
    """Return what `make kubernetes` has built, if it has."""
    done = subprocess.run([_BUILD, "--if-built"], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def why_no_kubernetes() -> str | None:
    """Say why there can be no cluster here, if so."""
    if os.environ.get("CODEHUB_TEST_KUBERNETES"):
        return None
    if os.geteuid() != 0:
        return "only root may start a Kubernetes cluster"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (scripts/engines)"
    if built_kubernetes() is None:
        return "Kubernetes is not built (make kubernetes)"
    return None if light_images().exists() else "the cluster's images are not made (make built)"


NO_KUBERNETES = why_no_kubernetes()
IS_CI = os.environ.get("CI") == "true"
"""Where nobody looks at what was skipped, a cluster that can't be started is a failure."""
KUBERNETES = pytest.mark.skipif(NO_KUBERNETES is not None and not IS_CI, reason=str(NO_KUBERNETES))
KUBERNETES_SUITE = (pytest.mark.kubernetes, KUBERNETES)
"""For a parameter: its tests run with those on Kubernetes."""

Kubernetes = Callable[[], TestCluster]
"""Lends the cluster of this test process."""


@contextmanager
def lent_cluster() -> Iterator[TestCluster]:
    """Lend a cluster with the light images."""
    given = os.environ.get("CODEHUB_TEST_KUBERNETES")
    if given:
        cluster = TestCluster(Layout(Path(given)))
        try:
            yield cluster
        finally:
            cluster.close()
        return
    if NO_KUBERNETES is not None:
        raise RuntimeError(NO_KUBERNETES)
    with _own_place() as place, running_cluster(place) as cluster:
        yield cluster


@contextmanager
def _own_place() -> Iterator[Path]:
    """The directory of the first number that nobody has. Whoever
    holds a number's lock may end what has that number.
    """
    clusters = cache() / "test-kubernetes"
    clusters.mkdir(parents=True, exist_ok=True)
    for number in NUMBERS:
        with (clusters / f"{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield clusters / str(number)
            return
    raise RuntimeError("every number is taken")


@contextmanager
def running_cluster(place: Path) -> Iterator[TestCluster]:
    """A cluster in this directory, whose name is its number, whatever an earlier run has left of it."""
    layout, built = Layout(place), built_kubernetes()
    assert built is not None
    machine = Machine(layout)
    machine.clear()
    place.mkdir()
    layout.binaries.symlink_to(built / "bin")
    with ExitStack() as ending:
        ending.callback(machine.stop)
        make_keys(layout)
        write_files(layout)
        machine.start()
        cluster = TestCluster(layout)
        ending.callback(cluster.close)
        try:
            _make_usable(cluster)
        except TimeoutError as failure:
            failure.add_note(_ends_of_logs(layout))
            raise
        yield cluster


def _make_usable(cluster: TestCluster) -> None:
    block_until(cluster.layout.containerd.is_socket)
    _load_images(cluster)
    cluster.wait_until_ready()
    for each in addons(cluster.layout):
        block_until(partial(_applies, cluster, each))
    cluster.wait_until_usable()


def _ends_of_logs(layout: Layout) -> str:
    logs = sorted((layout.place / "logs").iterdir())
    return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-500:]}" for log in logs)


def _load_images(cluster: TestCluster) -> None:
    pause = cluster.layout.place / "pause.tar"
    binary = (cluster.layout.binaries / "pause").read_bytes()
    write_image(
        pause, "localhost/pause:1", {"pause": binary}, {"Entrypoint": ["/pause"], "User": "65535:65535"}
    )
    cluster.load(pause)
    cluster.load(light_images())


def _applies(cluster: TestCluster, item: dict[str, object]) -> bool:
    """A new API server refuses for a moment what it will take."""
    try:
        cluster.apply(item)
    except httpx.HTTPError:
        return False
    return True


def _beside_a_cluster(command: list[str]) -> int:
    with lent_cluster() as cluster:
        place = str(cluster.layout.place)
        environment = {**os.environ, "CODEHUB_TEST_KUBERNETES": place, "KUBECONFIG": str(cluster.kubeconfig)}
        process = subprocess.Popen(command, env=environment)
        # Who is told to end ends the command, and then the cluster.
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        return process.wait()


if __name__ == "__main__":
    # One cluster for all of a command's processes: `python -m tests.support.kubernetes pytest -n 2 …`.
    if NO_KUBERNETES is not None and IS_CI:
        sys.exit(f"CI=true runs the tests on Kubernetes, and there can be no cluster here: {NO_KUBERNETES}")
    if NO_KUBERNETES is not None:
        sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
    sys.exit(_beside_a_cluster(sys.argv[1:]))
