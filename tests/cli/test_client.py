"""The client's own side of a connection: one that was kept open may be gone when it is needed again."""

import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from codehub.cli.account import Account
from codehub.cli.client import Client
from codehub.cli.failures import Failed

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
_LAST = {"items": [3], "next_cursor": None}
BY_A_RESET = struct.pack("ii", 1, 0)  # as a machine on the way does that has forgotten the connection


def test_a_request_with_a_body_is_sent_again_if_the_connection_was_cut_meanwhile() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as beside:

        def answer_one() -> socket.socket:
            connection, _address = listener.accept()
            connection.recv(1 << 16)
            connection.sendall(ANSWER)
            return connection

        client = Client(Account(f"http://127.0.0.1:{listener.getsockname()[1]}", "a-token"))
        serving = beside.submit(answer_one)
        assert client.ask("GET", "/session") == {}
        with serving.result() as first:
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, BY_A_RESET)
        serving = beside.submit(answer_one)
        try:
            assert client.ask("POST", "/workspaces/1:recover", {"accept_loss": True}) == {}
        finally:
            socket.create_connection(listener.getsockname()).close()  # whoever still accepts has somebody
            client.close()
            serving.result().close()


def test_a_list_comes_in_pages_that_are_as_long_as_an_operator_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[object] = []

    def answer(_client: Client, _method: str, _path: str, **query: object) -> object:
        sizes.append(query["limit"])
        if query["limit"] != 2:
            raise Failed("INVALID_REQUEST", "limit", [{"field": "limit", "problem": "too many", "max": 2}])
        return {"items": [1, 2], "next_cursor": "a"} if query["cursor"] is None else _LAST

    monkeypatch.setattr(Client, "ask", answer)
    assert list(Client(Account("http://localhost", "a-token")).pages("/workspaces")) == [1, 2, 3]
    assert sizes == [200, 2, 2]


@pytest.mark.parametrize("details", [None, [{"field": "q"}], [{"field": "limit", "max": 200}]])
def test_a_list_that_is_refused_for_something_else_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, details: object
) -> None:
    def refuse(*_arguments: object, **_query: object) -> object:
        raise Failed("INVALID_REQUEST", "no", details)

    monkeypatch.setattr(Client, "ask", refuse)
    with pytest.raises(Failed):
        list(Client(Account("http://localhost", "a-token")).pages("/workspaces"))
