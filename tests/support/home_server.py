"""An IDE for tests of browsers: it serves the files of its home, sends each WebSocket's messages back, and
notes what reached it in the file `requests`, one JSON a line.

Beside a page `x`, the file `x.headers` may hold header lines of its answer. `/listen?3000` has it serve the
same on that port, too, and `/start` runs the script of that name in its home.
"""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import signal
import socketserver
import subprocess
import sys
import threading

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TYPES = {".js": "text/javascript", ".html": "text/html; charset=utf-8"}


class Handler(http.server.BaseHTTPRequestHandler):
    def address_string(self) -> str:
        return "someone"

    def log_message(self, *_: object) -> None:
        return

    def _note(self) -> None:
        noted = {"method": self.command, "target": self.path, "headers": dict(self.headers.items())}
        with pathlib.Path("requests").open("a") as notes:
            notes.write(json.dumps(noted) + "\n")

    def do_GET(self) -> None:
        self._note()
        if self.headers.get("Upgrade") == "websocket":
            self._talk()
            return
        if self.path.startswith("/listen?"):
            beside = PortServer(("127.0.0.1", int(self.path.partition("?")[2])), Handler)
            threading.Thread(target=beside.serve_forever, daemon=True).start()
        if self.path == "/start":
            subprocess.Popen(["sh", "start"])
        page = pathlib.Path(self.path.partition("?")[0].lstrip("/") or "index.html")
        body = page.read_bytes() if page.is_file() else b"<title>hello</title>hello"
        self.send_response(200)
        self.send_header("Content-Type", _TYPES.get(page.suffix, "text/html; charset=utf-8"))
        self.send_header("Content-Length", str(len(body)))
        more = page.with_name(page.name + ".headers")
        for line in more.read_text().splitlines() if more.is_file() else []:
            self.send_header(*line.split(": ", 1))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self._note()
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _talk(self) -> None:
        """Send short messages back, until the other side ends."""
        accept = base64.b64encode(hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + _GUID).digest())
        self.connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        while len(head := self.rfile.read(2)) == 2 and head[0] & 0x0F == 1:
            size = head[1] & 0x7F
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[place % 4] for place, byte in enumerate(self.rfile.read(size)))
            self.connection.sendall(bytes([0x81, size]) + data)
        self.close_connection = True


class _Server(socketserver.ThreadingMixIn):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        sys.stderr.write("someone hung up\n")


class Server(_Server, socketserver.UnixStreamServer):
    pass


class PortServer(_Server, socketserver.TCPServer):
    allow_reuse_address = True


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server(sys.argv[-1], Handler).serve_forever()
