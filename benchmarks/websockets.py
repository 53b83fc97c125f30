"""WebSockets for measuring: both ends in one process, a server that echoes what comes after the upgrade and a client that counts how often it comes back.

Frames are bytes to both: what is measured is the proxy between them. The ends share two cores with it, so they do as little as can be done:
one epoll, `read` and `write`. `count PORT ECHO_PORT CONNECTIONS SECONDS`, `hold PORT ECHO_PORT CONNECTIONS`.
"""

import os
import resource
import select
import socket
import sys
import threading
import time
from collections.abc import Callable

from benchmarks.proxy_peers import SESSION, WORKSPACE

MESSAGE = b"\x82\xbe\x00\x00\x00\x00" + b"m" * 62  # a masked binary frame of 62 bytes
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
ASK = (
    f"GET /w/{WORKSPACE}/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: codehub_session={SESSION}\r\n\r\n"
).encode()
END = b"\r\n\r\n"
HEAD_BYTES_MAX = 65_536
READ_BYTES = 448
"""More than a frame and less than what Python asks the system for anew each time."""
POLL_S = 0.05
ONCE = select.EPOLLIN | select.EPOLLET
"""Told once for what has come: a frame is read whole, and asking again whether there is more costs."""


class Ends:
    def __init__(self, echo_port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", echo_port), backlog=4096)
        self._polled = select.epoll()
        self._polled.register(self._listener, select.EPOLLIN)
        self._upgrading: dict[int, bytes] = {}
        self._echoing: set[int] = set()
        self._left: dict[int, int] = {}
        self.messages = 0

    def talk(self, opened: list[socket.socket]) -> None:
        """Send one frame at a time on each of these, and the next when it has come back."""
        for made in opened:
            self._left[made.fileno()] = len(MESSAGE)
            self._polled.register(made, ONCE)
            made.sendall(MESSAGE)

    def serve(self, is_over: Callable[[], bool]) -> None:
        left, echoing, read, write, size = self._left, self._echoing, os.read, os.write, len(MESSAGE)
        while not is_over():
            for number, _ in self._polled.poll(POLL_S):
                if number in echoing:
                    try:
                        data = read(number, READ_BYTES)
                    except ConnectionError:
                        data = b""
                    if data:
                        write(number, data)
                    else:
                        echoing.remove(number)
                        os.close(number)
                elif number in left:
                    missing = left[number] - len(read(number, READ_BYTES))
                    left[number] = missing or size
                    if not missing:
                        self.messages += 1
                        write(number, MESSAGE)
                else:
                    self._greet(number)

    def _greet(self, number: int) -> None:
        """Accept a connection, or answer its handshake once all of it has come."""
        if number == self._listener.fileno():
            accepted = self._listener.accept()[0].detach()
            self._upgrading[accepted] = b""
            self._polled.register(accepted, ONCE)
            return
        self._upgrading[number] += os.read(number, HEAD_BYTES_MAX)
        if self._upgrading[number].endswith(END):
            del self._upgrading[number]
            self._echoing.add(number)
            os.write(number, UPGRADED)


def connect(port: int, count: int, opened: list[socket.socket]) -> None:
    """Open so many WebSockets."""
    for _ in range(count):
        made = socket.create_connection(("127.0.0.1", port))
        made.sendall(ASK)
        answer = b""
        while not answer.endswith(END):
            part = made.recv(READ_BYTES)
            if not part:
                raise RuntimeError(answer)
            answer += part
        if not answer.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(answer)
        opened.append(made)


def main(what: str, port: int, echo_port: int, connections: int, seconds: float = 0.0) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    ends = Ends(echo_port)
    opened: list[socket.socket] = []
    connecting = threading.Thread(target=connect, args=(port, connections, opened), daemon=True)
    connecting.start()
    ends.serve(lambda: not connecting.is_alive())
    if len(opened) != connections:
        sys.exit("not all could be opened")
    if what == "hold":
        print("open", flush=True)
        ends.serve(lambda: False)
    ends.talk(opened)
    began = time.monotonic()
    ends.serve(lambda: time.monotonic() >= began + seconds)
    print(ends.messages / (time.monotonic() - began), ends.messages, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
