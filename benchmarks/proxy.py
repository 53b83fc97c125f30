"""The proxy beside its peers: requests and frames per second, processor time of each,
memory. One process each, one after the other in every round; ratios are medians of the
rounds' own, because what else this machine does changes from minute to minute.

All are loaded by the same generators (wrk; for WebSockets `ends.c`) on the same machine at the same time of
day. Both ends share two cores with the proxy, so they are kept as cheap as can be: what they take, a fast
proxy lacks and a slow one does not notice. wrk repeats one header block, which codehub then reads once; what
it does with blocks that it never saw is measured beside it.
"""

import http.client
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.proxy_peers import (
    BIG_BUFFERS,
    SESSION,
    WORKSPACE,
    Peer,
    bare_relay,
    caddy_peer,
    chp_peer,
    codehub_peer,
    missing_programs,
    nginx_peer,
    upstream,
)
from benchmarks.websockets import LOAD_S_MAX, Ends, ends

ROUNDS = 9
SECONDS = 2
CONNECTIONS = 32
SOCKETS = 50
IDLE_SOCKETS = 5_000
NEVER_SEEN = """
local before
local n = 0
function init(args)
  before = "GET " .. wrk.path .. " HTTP/1.1\\r\\nHost: " .. args[1] ..
    "\\r\\nCookie: " .. args[2] .. "\\r\\nX-Nth: "
end
function request()
  n = n + 1
  return before .. n .. "\\r\\n\\r\\n"
end
"""
AUTH, PLAIN, CADDY, CHP, OURS, TWO, ORIGIN, RELAY = (
    "nginx with auth_request",
    "nginx with 64k buffers",
    "Caddy",
    "configurable-http-proxy",
    "codehub",
    "codehub, 2 workers",
    "codehub at an origin",
    "bare relay in C",
)

Load = Callable[[Peer], tuple[float, float]]
"""Returns how many a second, and how many in all."""


@dataclass
class Figures:
    """What was measured of each peer, by round."""

    per_second: dict[str, list[float]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, per_second: float, cpu_us: float) -> None:
        self.per_second.setdefault(name, []).append(per_second)
        self.cpu_us.setdefault(name, []).append(cpu_us)

    def rate(self, name: str) -> float:
        return statistics.median(self.per_second[name])

    def cpu(self, name: str) -> float:
        return statistics.median(self.cpu_us[name])

    def ratio(self, name: str) -> float:
        rounds = zip(self.per_second[OURS], self.per_second[name], strict=True)
        return statistics.median(ours / theirs for ours, theirs in rounds)

    def cpu_ratio(self, name: str) -> float:
        rounds = zip(self.cpu_us[name], self.cpu_us[OURS], strict=True)
        return statistics.median(theirs / ours for theirs, ours in rounds)

    def tell(self, what: str, targets: dict[str, str]) -> None:
        print(f"\n{what}: median of {ROUNDS} rounds")
        for name in self.per_second:
            ratio = self.ratio(name)
            by_cpu = f"{self.cpu_ratio(name):.2f}x by processor time"
            aim = f"   codehub is {ratio:.2f}x ({targets[name]}), {by_cpu}" if name in targets else ""
            print(f"  {name:26} {self.rate(name):10,.0f}/s  {self.cpu(name):7.1f} us of processor each{aim}")


def main() -> None:
    if missing := missing_programs():
        print(f"skipped: {', '.join(missing)} not installed")
        return
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        behind = stack.enter_context(upstream(Path(place)))
        peers = [
            stack.enter_context(nginx_peer(AUTH, Path(place), behind, auth=True, more="")),
            stack.enter_context(nginx_peer(PLAIN, Path(place), behind, auth=False, more=BIG_BUFFERS)),
            stack.enter_context(caddy_peer(Path(place), behind)),
            stack.enter_context(chp_peer(behind)),
            stack.enter_context(codehub_peer(behind)),
            stack.enter_context(codehub_peer(behind, workers=2)),
            stack.enter_context(codehub_peer(behind, has_origins=True)),
            stack.enter_context(bare_relay(Path(place), behind)),
        ]
        sockets = ends(Path(place), behind)
        script = Path(place) / "never-seen.lua"
        script.write_text(NEVER_SEEN)
        small, unseen, large, at_port, at_socket = (Figures() for _ in range(5))
        single = (AUTH, PLAIN, CADDY, CHP, OURS)
        loads: list[tuple[Figures, tuple[str, ...], Load]] = [
            (small, (*single, TWO, ORIGIN), lambda peer: requests(peer, "small")),
            (unseen, (AUTH, OURS, ORIGIN), lambda peer: requests(peer, "small", script)),
            (large, single, lambda peer: requests(peer, "large")),
            (at_port, (*single, RELAY), lambda peer: frames(peer, sockets, "ws")),
            (at_socket, single, lambda peer: frames(peer, sockets, "ws-unix")),
        ]
        for _ in range(ROUNDS):
            for figures, names, load in loads:
                for peer in peers:
                    if peer.name in names:
                        measure(figures, peer, load)
        small.tell(
            f"200 B over {CONNECTIONS} connections",
            {
                AUTH: "must 0.6, goal 0.8",
                CADDY: "must 1.5, goal 2",
                CHP: "must 4, goal 6",
                ORIGIN: "below the mount as at an origin",
            },
        )
        unseen.tell(
            "200 B, a header block that was never seen before each time",
            {AUTH: "must 0.55", ORIGIN: "below the mount as at an origin"},
        )
        large.tell("100 KB", {PLAIN: "must 0.9", CHP: "must 5"})
        at_port.tell(
            f"WebSocket, {SOCKETS} connections, to a port",
            {PLAIN: "must 0.9", CHP: "must 1.8", RELAY: "the limit of whoever reads and writes each frame"},
        )
        at_socket.tell(
            (
                f"WebSocket, {SOCKETS} connections, to a unix socket as codehub reaches an IDE by default "
                "(configurable-http-proxy knows ports only)"
            ),
            {PLAIN: "no target", CHP: "no target: it goes to the port"},
        )
        print(
            f"\nprocessor per request, two workers to one: {small.cpu(TWO) / small.cpu(OURS):.2f}x (at "
            "most 1.15)"
        )
        ours = next(peer for peer in peers if peer.name == OURS)
        through_memory(ours)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        behind = stack.enter_context(upstream(Path(place)))
        idle_memory(stack.enter_context(codehub_peer(behind)), ends(Path(place), behind))


def measure(figures: Figures, peer: Peer, load: Load) -> None:
    before = peer.cpu_s()
    per_second, count = load(peer)
    figures.note(peer.name, per_second, (peer.cpu_s() - before) / count * 1e6)


def requests(peer: Peer, size: str, script: Path | None = None) -> tuple[float, float]:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}"]
    lines = ["-H", f"Host: {peer.host}", "-H", f"Cookie: {peer.cookie}"]
    command += lines if script is None else ["-s", str(script)]
    command.append(f"http://127.0.0.1:{peer.port}{peer.path}/{size}")
    command += [] if script is None else ["--", peer.host, peer.cookie]
    report = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LOAD_S_MAX).stdout
    if "Non-2xx" in report or "Socket errors" in report:
        raise RuntimeError(f"{peer.name}: {report}")
    fields = report.split()
    return float(fields[fields.index("Requests/sec:") + 1]), float(fields[fields.index("requests") - 1])


def frames(peer: Peer, sockets: Ends, path: str) -> tuple[float, float]:
    per_second, count, _busy = sockets.count(peer, path, SOCKETS, SECONDS)
    return per_second, count


def through_memory(peer: Peer) -> None:
    """Let a gigabyte through, and see how far the process grew at its highest."""
    before = peer.memory_kb("VmHWM")
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", peer.port)
    connection.request("GET", f"/w/{WORKSPACE}/huge", headers={"Cookie": f"codehub_session={SESSION}"})
    answer = connection.getresponse()
    size = 0
    while part := answer.read(1 << 20):
        size += len(part)
    took = time.monotonic() - began
    assert size == 1 << 30, size
    grown = (peer.memory_kb("VmHWM") - before) / 1024
    print(f"1 GB through: {grown:.1f} MB more (at most 32), {size / took / 1e6:.0f} MB/s")


def idle_memory(peer: Peer, sockets: Ends) -> None:
    frames(peer, sockets, "ws")  # warm
    before = peer.memory_kb()
    with sockets.holding(peer, "ws", IDLE_SOCKETS):
        time.sleep(2)
        each = (peer.memory_kb() - before) / IDLE_SOCKETS
    print(f"{IDLE_SOCKETS:,} idle WebSockets: {each:.1f} KB each (at most 12)")


if __name__ == "__main__":
    main()
