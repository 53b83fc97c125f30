"""The client's own side of a connection: one that was kept open may be gone when it is needed again."""

import socket
import struct
from concurrent.futures import ThreadPoolExecutor

from codehub.cli.account import Account
from codehub.cli.client import Client

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
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
