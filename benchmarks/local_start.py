"""A start on this machine: STANDBY to RUNNING of the light IDE in its sandbox, beside the bare start of
the same program.

`python -m benchmarks.local_start [--starts 12]`
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.docker import BY, arrives, running_codehub
from tests.support.light_ide import light_code_server
from tests.support.workspaces import in_backends

from codehub.adapters.system.machine import SystemIdentity
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import InstanceBackend, StorageBackend

_PROBE_S = 0.005


async def main_async(asked: argparse.Namespace) -> None:
    with light_code_server() as place:
        settings = {"PATH": f"{place}:{os.environ['PATH']}", "CODEHUB_IDE": "code-server"}
        async with running_codehub(settings) as (service, api, _pid):
            workspace_id = SystemIdentity().new_id()
            made = in_backends(InstanceBackend.LOCAL_PROCESS, StorageBackend.LOCAL_DIR, workspace_id)
            spec = replace(made, ide="code-server", desired_state=DesiredState.STANDBY)
            await service.create(workspace_id, spec, BY)
            await arrives(api, workspace_id, Phase.STANDBY)
            bare, ours = [], []
            for turn in range(asked.starts + 1):
                probe = await asyncio.to_thread(bare_start, place / "code-server")
                began = time.perf_counter()
                await service.set_wish(workspace_id, DesiredState.RUNNING, BY)
                await arrives(api, workspace_id, Phase.RUNNING)
                took = time.perf_counter() - began
                if turn:
                    bare.append(probe)
                    ours.append(took)
                await service.set_wish(workspace_id, DesiredState.STANDBY, BY)
                await arrives(api, workspace_id, Phase.STANDBY)
    mine, other = statistics.median(ours), statistics.median(bare)
    print(
        f"wish RUNNING to observed RUNNING: p50 of {asked.starts}: {mine * 1000:.0f} ms, the bare program to "
        f"its first answer: {other * 1000:.0f} ms -> {mine / other:.2f}x",
        flush=True,
    )


def bare_start(program: Path) -> float:
    """Start it as its user would, and ask until it answers."""
    with tempfile.TemporaryDirectory(prefix="codehub-bench-", dir="/var/tmp") as place:
        path = f"{place}/socket"
        began = time.perf_counter()
        command = (program, "--socket", path)
        silent = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=silent, stderr=silent) as process:
            while not answers(path):
                assert process.poll() is None, "it did not start"
                time.sleep(_PROBE_S)
            took = time.perf_counter() - began
            process.kill()
    return took


def answers(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(path)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(16).startswith(b"HTTP/1.0 200")
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=12)
    asyncio.run(main_async(parser.parse_known_args()[0]))


if __name__ == "__main__":
    main()
