"""What the doctor says of workspaces' own origins: whether their names are known, and lead to codehub."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from codehub.doctor.findings import Finding, Verdict
from codehub.doctor.origins import examine_origins
from codehub.settings import load_settings

LABEL = "0" * 20
_resolve = socket.getaddrinfo


@contextmanager
def answering(status: int, *, as_codehub: bool) -> Iterator[int]:
    """Answer on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_named = self.headers["Host"] == f"{LABEL}.localhost:{self.server.server_port}"  # type: ignore[attr-defined]
            self.send_response(status if is_named else 500)
            if as_codehub:
                self.send_header("X-Request-Id", self.headers["X-Request-Id"])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine knows every name below localhost and ws.example.net as its own."""

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        is_known = host.endswith((".localhost", ".ws.example.net"))
        return _resolve("127.0.0.1" if is_known else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def examined(**settings: Any) -> Finding:
    (finding,) = examine_origins(load_settings(**settings))
    return finding


@pytest.mark.parametrize(
    "settings", [{"workspace_host": "none"}, {"public_base_url": "https://code.example.org"}]
)
def test_without_origins_the_doctor_says_nothing_of_them(settings: dict[str, str]) -> None:
    assert examine_origins(load_settings(**settings)) == []


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("status", [401, 404])
def test_the_doctor_sees_that_a_name_leads_to_codehub(status: int) -> None:
    with answering(status, as_codehub=True) as port:
        finding = examined(port=port)
    assert finding == Finding("origins", Verdict.OK, "every name below localhost leads here, by 127.0.0.1")


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("status", "as_codehub"), [(404, False), (200, True), (303, True)], ids=["other", "page", "hub"]
)
def test_the_doctor_sees_that_something_else_answers(status: int, as_codehub: bool) -> None:
    """The hub itself does if a reverse proxy names it in place of the workspace."""
    with answering(status, as_codehub=as_codehub) as port:
        finding = examined(port=port)
    assert finding.verdict is Verdict.OPTIONAL
    assert f"what answers there is not codehub (status {status})" in finding.result
    assert "start codehub on this port" in str(finding.do)


@pytest.mark.usefixtures("known")
def test_the_doctor_sees_that_nothing_answers() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        local = examined(port=port)
        hub = f"https://code.example.org:{port}"
        public = examined(workspace_host="*.ws.example.net", public_base_url=hub)
    for finding in (local, public):
        assert finding.verdict is Verdict.OPTIONAL
        assert "leads to 127.0.0.1, and codehub can't be asked there (Connection refused)" in finding.result
    assert "start codehub on this port" in str(local.do)
    assert "with the Host as it came, and a certificate for *.ws.example.net" in str(public.do)


@pytest.mark.usefixtures("unknown")
def test_the_doctor_says_who_does_not_know_names_of_this_machine() -> None:
    finding = examined()
    assert finding.verdict is Verdict.OPTIONAL
    assert "Safari" in finding.result
    assert "CODEHUB_WORKSPACE_HOST=none" in str(finding.do)
    assert "Programs use `path_url`, below http://127.0.0.1:8000, and a token" in str(finding.do)


@pytest.mark.usefixtures("unknown")
def test_the_doctor_asks_for_a_wildcard_record_where_there_is_none() -> None:
    finding = examined(workspace_host="*.ws.example.net", public_base_url="https://code.example.org")
    assert finding.verdict is Verdict.OPTIONAL
    assert finding.result == "no name below ws.example.net is known on this machine"
    assert "*.ws.example.net, that leads where https://code.example.org leads" in str(finding.do)
