"""What others feel beside hostile connections: `/healthz` through the edge while eight of them do their
worst, and what 256 KB of it costs.

Each kind of attack, the edge, the attackers and the API behind are processes of their own. `python -m
benchmarks.hostile [SECONDS]`.
"""

import asyncio
import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import uvloop

from codehub.adapters.system.machine import SystemClock, SystemRandomness, SystemTasks
from codehub.core.route import Kind
from codehub.ports.instances import TcpUpstream
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.server import Edge
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.policy.answers import EngineAnswers
from codehub.proxy.policy.header_rules import header_rules

CONNECTIONS = 8
SECONDS = 5.0
P99_MS_MAX = 50.0
BLOCK = 262_144
PREFIX = b"/w/019a8b00-0000-7000-8000-000000000001"
ONE_BYTE = b"1\r\nx\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LOGIN = b"POST /api/v1/login HTTP/1.1\r\nHost: hub\r\nTransfer-Encoding: chunked\r\n\r\n"
VISIT = b"GET %b/ HTTP/1.1\r\nHost: hub\r\n\r\n" % PREFIX
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

# What a client says at first, what it says for ever, and what the workspace answers for ever.
ATTACKS: dict[str, tuple[bytes, bytes, bytes, bytes]] = {
    "nobody else": (b"", b"", b"", b""),
    "one-byte chunks of a workspace": (VISIT, b"", CHUNKED, ONE_BYTE),
    "chunks with extensions of a workspace": (VISIT, b"", CHUNKED, b"1;\r\nx\r\n"),
    "interim answers of a workspace": (VISIT, b"", b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "a login in one-byte chunks": (LOGIN, ONE_BYTE, b"", b""),
}


class Gate:
    """Lets everybody in."""

    def __init__(self, workspace: int, api: int) -> None:
        self._workspace = Target(TcpUpstream("127.0.0.1", workspace), mount=PREFIX, strips=True)
        self._api = Target(TcpUpstream("127.0.0.1", api))

    def admit(self, head: RequestHead) -> Target | Answer:
        return self._workspace if head.route.kind is Kind.WORKSPACE else self._api

    async def find_again(self, _head: RequestHead, _target: Target) -> Target | Answer:
        return Answer(502)


async def serve_edge(listener: socket.socket, workspace: int, api: int) -> None:
    edge = Edge(
        Gate(workspace, api),
        rules=header_rules(secure=False),
        answers=EngineAnswers(),
        clock=SystemClock(),
        tasks=SystemTasks(),
        randomness=SystemRandomness(),
    )
    async with edge.serving(listener):
        await asyncio.Event().wait()


async def serve_api(listener: socket.socket) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            while True:
                if b"healthz" in await reader.readuntil(b"\r\n\r\n"):
                    writer.write(OK)
        while await reader.read(BLOCK):
            pass

    async with await asyncio.start_server(answer, sock=listener):
        await asyncio.Event().wait()


async def attack(listener: socket.socket, edge: int, name: str) -> None:
    request, more, response_head, response_part = ATTACKS[name]
    block = response_part * (BLOCK // len(response_part)) if response_part else b""
    more *= BLOCK // len(more) if more else 0

    async def send_all(writer: asyncio.StreamWriter, data: bytes) -> None:
        with suppress(ConnectionError):
            while data:
                writer.write(data)
                await writer.drain()

    async def workspace(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response_head)
            await send_all(writer, block)

    async def client() -> None:
        while True:
            with suppress(ConnectionError):
                reader, writer = await asyncio.open_connection("127.0.0.1", edge)
                writer.write(request)
                sending = asyncio.create_task(send_all(writer, more))
                while await reader.read(BLOCK):
                    pass
                sending.cancel()
                writer.close()

    async with await asyncio.start_server(workspace, sock=listener):
        await asyncio.gather(
            *(client() for _ in range(CONNECTIONS if request else 0)), asyncio.Event().wait()
        )


def run(serve: Callable[[], object]) -> None:
    with suppress(KeyboardInterrupt):
        uvloop.run(serve())  # type: ignore[arg-type]


def listening() -> tuple[socket.socket, int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    return listener, listener.getsockname()[1]


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latencies_ms(port: int, seconds: float) -> list[float]:
    latencies = []
    until = time.perf_counter() + seconds
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while (began := time.perf_counter()) < until:
            connection.sendall(HEALTH)
            answer = b""
            while not answer.endswith(b"ok"):
                answer += connection.recv(4096)
            latencies.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)
    return sorted(latencies)


def measure(name: str, seconds: float) -> tuple[list[float], float]:
    (front, edge), (back, workspace), (behind, api) = listening(), listening(), listening()
    works = (
        partial(serve_edge, front, workspace, api),
        partial(serve_api, behind),
        partial(attack, back, edge, name),
    )
    processes = [multiprocessing.Process(target=run, args=(work,), daemon=True) for work in works]
    for process in processes:
        process.start()
    try:
        latencies_ms(edge, 1.0)
        before = processor_s(processes[0].pid or 0)
        latencies = latencies_ms(edge, seconds)
        return latencies, (processor_s(processes[0].pid or 0) - before) / seconds
    finally:
        for process in processes:
            process.kill()
            process.join()
        for listener in (front, back, behind):
            listener.close()


def cost_ms(piece: bytes) -> float:
    """Return the processor time that reading 256 KB of it takes, the least of five."""
    from codehub.proxy.engine.http_body import Chunked  # noqa: PLC0415

    data = piece * (BLOCK // len(piece))
    times = []
    for _ in range(5):
        body, position, began = Chunked(), 0, time.process_time()
        while (stop := body.take(data, position)) != position:
            position = stop
        times.append(time.process_time() - began)
    return min(times) * 1000


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    for description, piece in (
        ("one-byte chunks", ONE_BYTE),
        ("16-byte chunks", b"10\r\n%b\r\n" % (b"x" * 16)),
    ):
        print(f"processor for 256 KB of {description}: {cost_ms(piece):.1f} ms", flush=True)
    print(f"\n/healthz beside {CONNECTIONS} connections (p99 at most {P99_MS_MAX:g} ms)")
    for name in ATTACKS:
        latencies, busy = measure(name, seconds)
        p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
        print(
            (
                f"{name:40} p50 {p50:7.1f} ms  p99 {p99:7.1f} ms  worst {latencies[-1]:7.1f} ms  of "
                f"{len(latencies)}; edge {busy:.0%} busy"
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
