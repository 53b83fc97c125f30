"""The blocking HTTP client, against a server that does as it is told:
framings, lines, silence, halves and the wrong protocol.
"""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from codehub.http_client import Connection, Unreachable

WELL = b"HTTP/1.1 200 OK\r\nX-Word: yes\r\nContent-Length: 4\r\n\r\nbody"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nbody"
LINES = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\none\ntwo\n"
_PATIENCE_S = 60.0


@contextmanager
def answering(answer: bytes, *, hangs_up: bool = True, scheme: str = "http") -> Iterator[Connection]:
    """Yield a connection to a server that gives everybody this answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as beside:

        def serve() -> socket.socket:
            peer, _address = listener.accept()
            peer.recv(1 << 16)
            peer.sendall(answer)
            if hangs_up:
                peer.close()
            return peer

        serving = beside.submit(serve)
        connection = Connection(
            f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/base", answer_s_max=_PATIENCE_S
        )
        yield connection
        connection.close()
        serving.result().close()


@pytest.mark.parametrize("answer", [WELL, IN_CHUNKS, TO_THE_END])
def test_an_answer_comes_whole_however_it_is_framed(answer: bytes) -> None:
    with answering(answer) as connection:
        whole = connection.ask("GET", "/x", {})
    assert (whole.status, whole.body) == (200, b"body")


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody"]
)
def test_half_an_answer_or_none_is_told_as_such(answer: bytes) -> None:
    with answering(answer) as connection, pytest.raises(Unreachable) as failed:
        connection.ask("GET", "/x", {})
    assert str(failed.value)


def test_lines_come_one_by_one_and_silence_is_no_end() -> None:
    with answering(LINES[:-4], hangs_up=False) as connection:
        stream = connection.stream("GET", "/x", {})
        assert (stream.status, stream.readline(_PATIENCE_S)) == (200, b"one\n")
        assert stream.readline(0.05) is None
    with answering(LINES) as connection:
        stream = connection.stream("GET", "/x", {})
        assert [stream.readline(_PATIENCE_S) for _ in range(3)] == [b"one\n", b"two\n", b""]


def test_a_stream_that_is_cut_off_has_no_end() -> None:
    cut_off = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    with answering(cut_off) as connection:
        stream = connection.stream("GET", "/x", {})
        assert stream.readline(_PATIENCE_S) == b"one\n"
        with pytest.raises(Unreachable):
            stream.readline(_PATIENCE_S)


def test_a_server_without_tls_is_told_from_one_that_is_not_there() -> None:
    with answering(WELL, scheme="https") as connection, pytest.raises(Unreachable) as failed:
        connection.ask("GET", "/x", {})
    assert failed.value.is_without_tls
    with pytest.raises(Unreachable, match="refused") as failed:
        Connection("http://127.0.0.1:1", answer_s_max=_PATIENCE_S).ask("GET", "/x", {})
    assert not failed.value.is_without_tls
