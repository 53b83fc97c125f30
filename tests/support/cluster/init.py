"""The first process of a test cluster's namespaces: keeps its components
running, and ends everything when whoever started it is gone.

Called with the cluster's directory by `python -I -S`. It waits for a
line on its input; when that ends, so does the cluster.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_TICK_S = 0.1
_AGAIN_S = 0.3


def main(place: Path) -> None:
    sys.stdin.readline()  # our control group and our network are ready
    node = json.loads((place / "node.json").read_text())
    for command in node["prepare"]:
        subprocess.run(command, check=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    running: dict[int, str] = {}
    again_at = dict.fromkeys(node["components"], 0.0)
    while not select.select([sys.stdin], [], [], _TICK_S)[
        0
    ]:  # nothing is ever said: it is readable when it ends
        for name, command in node["components"].items():
            is_due = time.monotonic() >= again_at[name] and not (place / "held" / name).exists()
            if name not in running.values() and is_due:
                running[_start(place, name, command)] = name
        while (pid := _reap()) is not None:
            if name := running.pop(pid, ""):
                (place / "pids" / name).unlink()
                again_at[name] = time.monotonic() + _AGAIN_S


def _start(place: Path, name: str, command: list[str]) -> int:
    with (place / "logs" / name).open("ab") as log:
        log.write(f"--- {name} begins\n".encode())
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    process.returncode = 0  # it is reaped below, with what containers leave to us
    (place / "pids" / name).write_text(str(process.pid))
    return process.pid


def _reap() -> int | None:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] or None
    except ChildProcessError:
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
