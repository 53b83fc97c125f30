"""An IDE for tests: it answers on a unix socket, falls ill when told
to, and does what a person in its terminal would do.
"""

import http.server
import os
import pathlib
import signal
import socketserver
import subprocess
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    ill = False
    polite = False

    def address_string(self) -> str:
        return "someone"

    def do_GET(self) -> None:
        if self.headers.get("Upgrade") == "websocket":
            self.connection.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            )
            while self.connection.recv(4096):
                pass
            self.close_connection = True
            return
        self._answer(503 if Handler.ill else 200, b"hello")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/ill":
            Handler.ill = True
            self._answer(200, b"")
        elif self.path == "/say":
            sys.stdout.write(body)
            sys.stdout.flush()
            self._answer(200, b"")
        elif self.path == "/say-goodbye":
            Handler.polite = True
            self._answer(200, b"")
        elif self.path == "/die":
            os._exit(1)
        else:
            done = subprocess.run(
                ["/bin/bash", "-c", body], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
            self._answer(200, done.stdout)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        sys.stderr.write("someone hung up\n")


def end(*_: object) -> None:
    if Handler.polite:
        pathlib.Path("last-words").write_text("goodbye")
    os._exit(0)


signal.signal(signal.SIGTERM, end)
sys.stdout.write("the test server starts\n")
sys.stdout.flush()
Server(sys.argv[-1], Handler).serve_forever()
