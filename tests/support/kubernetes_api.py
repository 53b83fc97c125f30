"""A server that answers as an API server never does on demand: a
fault injector for the client, and proof of nothing else.
"""

import asyncio
import json
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = Any


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Json


class Conversation:
    """One request, and what is said to it."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.reader = reader
        self.writer = writer

    def answer(self, body: Json, status: int = 200, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} As Told", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in named.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + content)

    def refuse(self, status: int, reason: str = "", message: str = "no", **headers: str) -> None:
        body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
        self.answer(body, status, **headers)

    def begin_stream(self) -> None:
        self.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def send(self, *events: Json) -> None:
        for event in events:
            line = json.dumps(event).encode() + b"\n"
            self.writer.write(b"%x\r\n%s\r\n" % (len(line), line))

    def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")

    def cut(self) -> None:
        self.writer.transport.abort()


Handler = Callable[[Conversation], Awaitable[None]]


@dataclass
class HostileApi:
    """Gives each request to the next handler, the last of them again and again."""

    handlers: list[Handler] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    connections: int = 0
    client_names: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        certificate = writer.get_extra_info("peercert") or {}
        subject = dict(pair for entry in certificate.get("subject", ()) for pair in entry)
        self.client_names.append(subject.get("commonName", ""))
        try:
            while True:
                request = await _read(reader)
                self.requests.append(request)
                handler = self.handlers.pop(0) if len(self.handlers) > 1 else self.handlers[0]
                await handler(Conversation(request, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def asked(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return Request(method, parts.path, query, headers, json.loads(content) if content else None)


@dataclass(frozen=True)
class Authority:
    """A certificate authority, made with openssl."""

    place: Path

    @property
    def certificate(self) -> Path:
        return self.place / "ca.crt"

    def make(self) -> None:
        self.place.mkdir(exist_ok=True)
        self._key("ca")
        _openssl(
            "req", "-x509", "-new", "-key", self._file("ca.key"), "-subj", "/CN=test-ca", "-days", "2",
            "-out", str(self.certificate),
        )  # fmt: skip

    def issue(self, name: str, *, address: str = "") -> tuple[Path, Path]:
        """Return the files of a certificate and its key."""
        self._key(name)
        _openssl(
            "req", "-new", "-key", self._file(f"{name}.key"), "-subj", f"/CN={name}",
            "-out", self._file(f"{name}.csr"),
        )  # fmt: skip
        extensions = self.place / f"{name}.ext"
        extensions.write_text(f"subjectAltName={address}\n" if address else "")
        _openssl(
            "x509", "-req", "-in", self._file(f"{name}.csr"), "-CA", str(self.certificate),
            "-CAkey", self._file("ca.key"), "-CAcreateserial", "-days", "2",
            "-extfile", str(extensions), "-out", self._file(f"{name}.crt"),
        )  # fmt: skip
        return self.place / f"{name}.crt", self.place / f"{name}.key"

    def _key(self, name: str) -> None:
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self._file(f"{name}.key"))

    def _file(self, name: str) -> str:
        return str(self.place / name)

    def server_context(self) -> ssl.SSLContext:
        """Return what a server on 127.0.0.1 needs; it takes clients with a certificate and without."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.certificate))
        context.load_cert_chain(*self.issue("server", address="IP:127.0.0.1,DNS:elsewhere.test"))
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
