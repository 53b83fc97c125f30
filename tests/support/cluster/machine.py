"""The namespaces, control groups and addresses that a test cluster runs in. Nothing outlives them: what a
killed run has left is ended by its number, by whoever holds that number's lock.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.cluster.layout import Layout
from tests.support.patience import block_until

_INIT = Path(__file__).with_name("init.py")
_NAMESPACES = ("--net", "--pid", "--mount", "--ipc", "--uts")
_CONTROLLERS = ("cpu", "memory", "pids", "cpuset", "io")
_POD = re.compile(r"/pod(?P<uid>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_SYSTEM = "system"
"""The group of the components themselves; those of Pods are made by the kubelet beside it."""


class Machine:
    """Processes of one cluster, below one init, which ends when we do or say so."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run what node.json says."""
        layout = self._layout
        for group in layout.groups:
            _make_group(group)
        command = (
            *("unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc", "--propagation", "slave"),
            *(sys.executable, "-I", "-S", _INIT, layout.place),
        )
        environment = {"PATH": f"{layout.binaries}:{os.environ['PATH']}", "HOME": "/root"}
        with (layout.place / "logs/init").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        pid = block_until(lambda: children.read_text().strip())
        (layout.place / "init").write_text(pid)
        for group in layout.groups:
            for member in (str(self._process.pid), pid):
                (group / _SYSTEM / "cgroup.procs").write_text(member)
        self._connect(pid)
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def _connect(self, pid: str) -> None:
        """Link this machine with the cluster's node: here are routes
        to its Pods and services, there is one to us alone.
        """
        layout = self._layout
        link, host, node = layout.host_link, layout.host_address, layout.node_address
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _ip("address", "add", f"{host}/30", "dev", link)
        _ip("link", "set", link, "up")
        inside = ("nsenter", "--net", "--target", pid)
        for command in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{node}/30", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", host),
        ):
            subprocess.run([*inside, "ip", *command], check=True)
        for addresses in (layout.pods, layout.services):
            _ip("route", "add", addresses, "via", node)

    def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self.clear()
        if self._process is not None:
            self._process.wait()

    def clear(self) -> None:
        """End whatever has this cluster's number, and remove what there is of it."""
        layout = self._layout
        block_until(self._is_ended)
        block_until(lambda: all(_is_removed(group) for group in layout.groups))
        block_until(lambda: not Path(f"/sys/class/net/{layout.host_link}").exists())
        shutil.rmtree(layout.place, ignore_errors=True)

    def _is_ended(self) -> bool:
        running = {pid for group in self._layout.groups for pid in _members(group)}
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not running


def processes(layout: Layout) -> dict[int, int]:
    """Return the components' processes: by the number that they
    have in the cluster, the one that they have here.
    """
    inside = {}
    for pid in _members(layout.groups[0] / _SYSTEM):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            numbers = next(line for line in lines if line.startswith("NSpid:")).split()
            if len(numbers) > 2:  # not of the one that is outside still
                inside[int(numbers[-1])] = pid
    return inside


def pod_processes(layout: Layout) -> dict[str, list[int]]:
    """Return what runs on the node, by the uid of its Pod: the kubelet's groups bear that."""
    running: dict[str, list[int]] = {}
    for group in _groups_below(layout.groups[0]):
        if (match := _POD.search(str(group))) is not None:
            with suppress(OSError):
                pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
                running.setdefault(match["uid"], []).extend(pids)
    return {uid: pids for uid, pids in running.items() if pids}


def _make_group(group: Path) -> None:
    """Make a cluster's control group and the one below it. Members of the
    first could not have groups below, where they are unified.
    """
    system = group / _SYSTEM
    if (group.parent / "cgroup.controllers").exists():
        system.mkdir(parents=True)
        for parent in (group.parent, group):
            for controller in _CONTROLLERS:
                with suppress(OSError):  # this machine may not have it
                    (parent / "cgroup.subtree_control").write_text(f"+{controller}")
        return
    for each in (group, system):
        each.mkdir()
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (each / file).exists():
                (each / file).write_text((each.parent / file).read_text())


def _is_removed(group: Path) -> bool:
    """Remove it with all below it. Whoever was ended last may be in it for a moment yet."""
    try:
        for below in _groups_below(group):
            below.rmdir()
    except OSError:
        return False
    return True


def _members(group: Path) -> Iterator[int]:
    for each in _groups_below(group):
        with suppress(OSError):
            yield from map(int, (each / "cgroup.procs").read_text().split())


def _groups_below(group: Path) -> Iterator[Path]:
    """The innermost first, the group itself last."""
    for place, _, _ in os.walk(group, topdown=False):
        yield Path(place)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
