"""WebSockets for measuring: a server that echoes what comes after the upgrade, and a client that counts how often it comes back.

Frames are bytes to both: what is measured is the proxy between them. Both ends share the machine with it, so they do as little as can
be done: epoll, `read` and `write`, no event loop. `echo PORT`, `count PORT CONNECTIONS SECONDS`, `hold PORT CONNECTIONS`.
"""

import os
import select
import socket
import sys
import time
from contextlib import suppress

from benchmarks.proxy_peers import SESSION, WORKSPACE

MESSAGE = b"\x82\xbe\x00\x00\x00\x00" + b"m" * 62  # a masked binary frame of 62 bytes
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
ASK = (
    f"GET /w/{WORKSPACE}/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: codehub_session={SESSION}\r\n\r\n"
).encode()
END = b"\r\n\r\n"
READ_BYTES = 448


def echo(port: int) -> None:
    """Serve until killed."""
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    polled = select.epoll()
    polled.register(listener, select.EPOLLIN)
    upgrading: dict[int, bytes] = {}
    while True:
        for number, _ in polled.poll():
            if number == listener.fileno():
                accepted = listener.accept()[0].detach()
                upgrading[accepted] = b""
                polled.register(accepted, select.EPOLLIN)
                continue
            with suppress(ConnectionError):
                if data := os.read(number, READ_BYTES):
                    os.write(number, data if number not in upgrading else upgraded(number, data, upgrading))
                    continue
            upgrading.pop(number, None)
            os.close(number)


def upgraded(number: int, data: bytes, upgrading: dict[int, bytes]) -> bytes:
    """Return what to answer to a handshake, as far as it has come."""
    upgrading[number] += data
    if not upgrading[number].endswith(END):
        return b""
    del upgrading[number]
    return UPGRADED


def connect(port: int, count: int) -> list[socket.socket]:
    """Return so many open WebSockets."""
    opened = []
    for _ in range(count):
        made = socket.create_connection(("127.0.0.1", port))
        made.sendall(ASK)
        answer = b""
        while not answer.endswith(END):
            part = made.recv(READ_BYTES)
            if not part:
                raise RuntimeError(answer[:200])
            answer += part
        if not answer.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(answer[:200])
        opened.append(made)
    return opened


def count(port: int, connections: int, seconds: float) -> None:
    """Send one frame at a time on each, and the next when it has come back; print how many a second, and how many in all."""
    opened = connect(port, connections)
    polled = select.epoll()
    left = {}
    for made in opened:
        polled.register(made, select.EPOLLIN)
        left[made.fileno()] = len(MESSAGE)
        made.sendall(MESSAGE)
    messages = 0
    began = now = time.monotonic()
    while now < began + seconds:
        for number, _ in polled.poll():
            missing = left[number] - len(os.read(number, READ_BYTES))
            if missing:
                left[number] = missing
            else:
                left[number] = len(MESSAGE)
                messages += 1
                os.write(number, MESSAGE)
        now = time.monotonic()
    print(messages / (now - began), messages, flush=True)


def hold(port: int, connections: int) -> None:
    """Keep so many open, silent, until killed."""
    opened = connect(port, connections)
    print("open", flush=True)
    while opened:
        time.sleep(1)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    if what == "echo":
        echo(int(numbers[0]))
    elif what == "hold":
        hold(int(numbers[0]), int(numbers[1]))
    else:
        count(int(numbers[0]), int(numbers[1]), float(numbers[2]))
