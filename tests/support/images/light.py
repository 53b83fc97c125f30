"""An IDE for tests, as light as one can be: HTTP on port 8080 with the few modules of python3-minimal.

GET /healthz and anything else answers 200, or 503 once it is ill; POST /echo answers what it got, POST /run
what a shell says, POST /ill and /die do harm; a WebSocket on /ws echoes. LIGHT_AWAITS names a file that must
be there before it listens, LIGHT_CRASH ends it at the start, LIGHT_HANG accepts and never answers.
"""

import base64
import hashlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import IO

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
state = {"ill": False}


def head_of(stream: IO[bytes]) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Read a request's line and its headers."""
    line = stream.readline().split()
    headers: dict[bytes, bytes] = {}
    while True:
        header = stream.readline().strip()
        if not header:
            return line, headers
        name, _, value = header.partition(b":")
        headers[name.strip().lower()] = value.strip()


def answer(connection: socket.socket, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


def echo_frames(connection: socket.socket, stream: IO[bytes], key: bytes) -> None:
    accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest())
    connection.sendall(
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
    )
    while True:
        head = stream.read(2)
        if len(head) < 2:
            return
        opcode, length = head[0] & 15, head[1] & 127
        if length == 126:
            (length,) = struct.unpack(">H", stream.read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", stream.read(8))
        mask = stream.read(4)
        body = bytes(byte ^ mask[place % 4] for place, byte in enumerate(stream.read(length)))
        if opcode == 8:
            connection.sendall(b"\x88\x00")
            return
        size = bytes([length]) if length < 126 else b"\x7e" + struct.pack(">H", length)
        connection.sendall(bytes([0x80 | (10 if opcode == 9 else opcode)]) + size + body)


def serve(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as stream:
        line, headers = head_of(stream)
        if len(line) < 2:
            return
        method, path = line[0], line[1]
        if os.environ.get("LIGHT_HANG"):
            time.sleep(3600)
        if headers.get(b"upgrade", b"").lower() == b"websocket":
            echo_frames(connection, stream, headers[b"sec-websocket-key"])
            return
        body = stream.read(int(headers.get(b"content-length", b"0")))
        if method == b"GET":
            answer(connection, 503 if state["ill"] else 200, b'{"status": "alive"}')
        elif path == b"/echo":
            answer(connection, 200, body)
        elif path == b"/run":
            done = subprocess.run(
                ["/bin/sh", "-c", body], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
            answer(connection, 200, done.stdout)
        elif path == b"/ill":
            state["ill"] = True
            answer(connection, 200, b"")
        elif path == b"/die":
            os._exit(1)
        else:
            answer(connection, 404, b"")


def end(*_: object) -> None:
    os._exit(0)


signal.signal(signal.SIGTERM, end)
sys.stdout.write("the light server starts\n")
sys.stdout.flush()
if os.environ.get("LIGHT_CRASH"):
    sys.exit(1)
while (awaited := os.environ.get("LIGHT_AWAITS")) and not os.path.exists(awaited):  # noqa: PTH110  # no pathlib in there
    time.sleep(0.02)
listener = socket.create_server(("0.0.0.0", 8080), backlog=128)
while True:
    accepted, _ = listener.accept()
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
