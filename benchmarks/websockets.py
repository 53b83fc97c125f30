"""WebSockets for measuring: `ends.c`, compiled and run.

A proxy's port goes in; how many frames came back, and how busy the ends were, come out.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.proxy_peers import SESSION, WORKSPACE, Behind, Peer, compiled

LOAD_S_MAX = 30
ASK = (
    f"GET /w/{WORKSPACE}/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: "
    f"codehub_session={SESSION}\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Ends:
    program: Path
    behind: Behind

    def count(self, peer: Peer, path: str, connections: int, seconds: float) -> tuple[float, float, float]:
        """Return how many frames a second came back, how many in all, and what share of a processor the ends
        took.
        """
        output = subprocess.run(
            self._command(peer, connections, seconds),
            input=(ASK % path).encode(),
            stdout=subprocess.PIPE,
            check=True,
            timeout=LOAD_S_MAX,
        ).stdout.split()
        per_second, count, busy = (float(field) for field in output)
        return per_second, count, busy

    @contextmanager
    def holding(self, peer: Peer, path: str, connections: int) -> Iterator[None]:
        """Keep so many open, and idle."""
        command = self._command(peer, connections, 0)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write((ASK % path).encode())
                process.stdin.close()
                assert process.stdout.readline() == b"open\n"
                yield
            finally:
                process.terminate()

    def _command(self, peer: Peer, connections: int, seconds: float) -> list[str]:
        backend = self.behind
        arguments = (backend.echo_port, backend.echo_socket, peer.port, connections, seconds)
        return [str(self.program), *(str(argument) for argument in arguments)]


def ends(directory: Path, behind: Behind) -> Ends:
    return Ends(compiled("ends", directory), behind)
