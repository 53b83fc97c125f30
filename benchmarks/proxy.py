"""The proxy beside its peers: requests and frames per second, processor time of each, memory. One process each, one after the other in every round; ratios are
medians of the rounds' own, because what else this machine does changes from minute to minute.

All are loaded by the same generators (wrk; for WebSockets `benchmarks.websockets`) on the same machine at the same time of day. Both ends
share two cores with the proxy, so they are kept as cheap as can be: what they take, a fast proxy lacks and a slow one does not notice.
wrk repeats one header block, which codehub then reads once; what it does with blocks that it never saw is measured beside it.
"""

import http.client
import statistics
import subprocess
import sys
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
    caddy_peer,
    chp_peer,
    codehub_peer,
    missing_programs,
    nginx_peer,
    upstream,
)

ROUNDS = 9
SECONDS = 2
LOAD_S_MAX = 30
CONNECTIONS = 32
SOCKETS = 50
IDLE_SOCKETS = 5_000
SOCKETS_OF = (sys.executable, "-m", "benchmarks.websockets")
NEVER_SEEN = """
local before
local n = 0
function init(args)
  before = "GET " .. wrk.path .. " HTTP/1.1\\r\\nHost: bench\\r\\nCookie: " .. args[1] .. "\\r\\nX-Nth: "
end
function request()
  n = n + 1
  return before .. n .. "\\r\\n\\r\\n"
end
"""
AUTH, PLAIN, CADDY, CHP, OURS, TWO = (
    "nginx with auth_request",
    "nginx with 64k buffers",
    "Caddy",
    "configurable-http-proxy",
    "codehub",
    "codehub, 2 workers",
)


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

    def tell(self, what: str, targets: dict[str, str]) -> None:
        print(f"\n{what}: median of {ROUNDS} rounds")
        for name in self.per_second:
            ratio = self.ratio(name)
            aim = f"   codehub is {ratio:.2f}x ({targets[name]})" if name in targets else ""
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
        ]
        script = Path(place) / "never-seen.lua"
        script.write_text(NEVER_SEEN)
        small, unseen, large, sockets = Figures(), Figures(), Figures(), Figures()
        for _ in range(ROUNDS):
            for peer in peers:
                measure(small, peer, lambda peer: requests(peer, "small"))
            for peer in peers:
                if peer.name in (AUTH, OURS):
                    measure(unseen, peer, lambda peer: requests(peer, "small", script))
            for peer in peers:
                if peer.name != TWO:
                    measure(large, peer, lambda peer: requests(peer, "large"))
            for peer in peers:
                if peer.name != TWO:
                    measure(sockets, peer, lambda peer: frames(peer, behind[1]))
        small.tell(
            f"200 B over {CONNECTIONS} connections",
            {AUTH: "must 0.6, goal 0.8", CADDY: "must 1.5, goal 2", CHP: "must 4, goal 6"},
        )
        unseen.tell("200 B, a header block that was never seen before each time", {AUTH: "no target"})
        large.tell("100 KB", {PLAIN: "must 0.9", CHP: "must 5"})
        sockets.tell(f"WebSocket, {SOCKETS} connections", {PLAIN: "must 0.9", CHP: "must 1.8"})
        print(
            f"\nprocessor per request, two workers to one: {small.cpu(TWO) / small.cpu(OURS):.2f}x (at most 1.15)"
        )
        ours = next(peer for peer in peers if peer.name == OURS)
        through_memory(ours)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        behind = stack.enter_context(upstream(Path(place)))
        idle_memory(stack.enter_context(codehub_peer(behind)), behind[1])


def measure(figures: Figures, peer: Peer, load: Callable[[Peer], tuple[float, float]]) -> None:
    before = peer.cpu_s()
    per_second, count = load(peer)
    figures.note(peer.name, per_second, (peer.cpu_s() - before) / count * 1e6)


def requests(peer: Peer, size: str, script: Path | None = None) -> tuple[float, float]:
    """Return how many a second, and how many in all."""
    cookie = f"codehub_session={SESSION}"
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}"]
    command += ["-H", f"Cookie: {cookie}"] if script is None else ["-s", str(script)]
    command.append(f"http://127.0.0.1:{peer.port}/w/{WORKSPACE}/{size}")
    command += [] if script is None else ["--", cookie]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LOAD_S_MAX).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(f"{peer.name}: {told}")
    words = told.split()
    return float(words[words.index("Requests/sec:") + 1]), float(words[words.index("requests") - 1])


def frames(peer: Peer, echo_port: int) -> tuple[float, float]:
    command = [*SOCKETS_OF, "count", str(peer.port), str(echo_port), str(SOCKETS), str(SECONDS)]
    told = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=LOAD_S_MAX
    ).stdout.split()
    return float(told[0]), float(told[1])


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


def idle_memory(peer: Peer, echo_port: int) -> None:
    frames(peer, echo_port)  # warm
    before = peer.memory_kb()
    command = [*SOCKETS_OF, "hold", str(peer.port), str(echo_port), str(IDLE_SOCKETS)]
    holding = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert holding.stdout is not None
        assert holding.stdout.readline().strip() == "open"
        time.sleep(2)
        each = (peer.memory_kb() - before) / IDLE_SOCKETS
    finally:
        holding.terminate()
        holding.wait()
    print(f"{IDLE_SOCKETS:,} idle WebSockets: {each:.1f} KB each (at most 12)")


if __name__ == "__main__":
    main()
