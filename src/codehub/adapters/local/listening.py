"""The first process of a sandbox goes in, what listens on its loopback comes out.

Nothing runs in there for that.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from codehub.adapters.listeners import listeners
from codehub.adapters.processes import all_pids, as_user, read_proc_file
from codehub.ports.instance_access import Listener

_PROC = Path("/proc")
_SOCKET = "socket:["


def look(first: int) -> Sequence[Listener]:
    """Return who listens. Raises FileNotFoundError, or what else tells that there is no such process."""
    tables = [
        line
        for name in ("tcp", "tcp6")
        if (path := _PROC / f"{first}/net/{name}").exists()
        for line in path.read_text().splitlines()
    ]
    return listeners(tables, _names((_PROC / f"{first}/ns/net").readlink()))


def _names(network: Path) -> Mapping[str, str]:
    """Return what the processes of a network call themselves, by the inodes of their sockets."""
    names: dict[str, str] = {}
    for pid in all_pids():
        with suppress(OSError), _as_its_user(pid):
            if (_PROC / f"{pid}/ns/net").readlink() != network:
                continue
            name = (read_proc_file(pid, "comm") or "").strip()
            for entry in os.scandir(_PROC / f"{pid}/fd"):
                with suppress(OSError):
                    target = os.readlink(entry.path)  # noqa: PTH115  # half the time, for each of many
                    if target.startswith(_SOCKET):
                        names.setdefault(target.removeprefix(_SOCKET).rstrip("]"), name)
    return names


@contextmanager
def _as_its_user(pid: int) -> Iterator[None]:
    owner = (_PROC / str(pid)).stat()
    with as_user(owner.st_uid, owner.st_gid):
        yield
