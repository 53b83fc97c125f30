"""What generated requests and responses found: each as a plain case of its own."""

import asyncio

import pytest
from tests.support.edge import OpenGate, Talk, answer_ok, get, until, world

from codehub.core.route import Kind
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer, Target


async def test_a_header_that_is_sent_in_several_lines_arrives_in_several_lines() -> None:
    async with world(answer_ok) as made:
        await made.ask(get("/", "Accept: a", "X-Other: 1", "Accept: b", "Connection: close"))
    arrived = b"".join(made.workspace.received)
    assert b"Accept: a\r\nX-Other: 1\r\nAccept: b\r\n" in arrived


async def test_a_client_of_http_1_0_switches_no_protocols() -> None:
    async with world(answer_ok) as made:
        await made.ask(get("/", "Connection: Upgrade", "Upgrade: websocket", version="1.0"))
    assert b"pgrade" not in b"".join(made.workspace.received)


@pytest.mark.parametrize(
    "line", ["Content-Length: 0 \t", "Transfer-Encoding: chunked ", "Expect: 100-continue ", "X-Other: 1 \t"]
)
async def test_blanks_after_a_value_are_no_part_of_it(line: str) -> None:
    async with world(answer_ok) as made:
        answer = await made.ask(get("/", "Connection: close", line) + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert line.strip().encode() + b"\r\n" in b"".join(made.workspace.received)


@pytest.mark.parametrize("trailer", ["Authorization: Bearer cht_abcdefghijk", "X-Sum: cht_abcdefghijk"])
async def test_nothing_of_a_trailer_that_signs_in_arrives_even_if_it_comes_in_pieces(trailer: str) -> None:
    async with world(answer_ok) as made:
        talk = await made.connect()
        await talk.send(get("/", "Transfer-Encoding: chunked", method="POST") + b"0\r\n" + trailer.encode())
        await until(lambda: b"".join(made.workspace.received).endswith(b"0\r\n"))
        await talk.send(b"\r\n\r\n")
        await talk.rest()
        await talk.close()
    assert b"cht_" not in b"".join(made.workspace.received)


class SlowGate(OpenGate):
    """Says nothing before it is told to."""

    def __init__(self, like: OpenGate) -> None:
        super().__init__(like.workspace, like.api)
        self.speaks = asyncio.Event()

    async def admit(self, head: RequestHead) -> Target | Answer:
        await self.speaks.wait()
        return self.workspace if head.route.kind is Kind.WORKSPACE else self.api


async def test_a_server_that_answers_before_it_has_read_does_not_stop_the_next_request() -> None:
    size = 1_000_000

    async def handler(talk: Talk) -> None:
        head = await talk.head()
        await talk.exactly(size if b"%d" % size in head else 2)
        if b"%d" % size not in head:  # as if more had been sent than it takes
            (connection,) = made.edge.connections
            connection.upstream_takes(more=False)
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", "Content-Length: 2", method="POST") + b"hi")
        await talk.head()
        gate = made.edge.gate = SlowGate(made.gate)
        talk.writer.write(get("/", f"Content-Length: {size}", method="POST") + b"x" * size)
        (connection,) = made.edge.connections
        await until(lambda: not connection._reads)
        gate.speaks.set()
        assert (await talk.head()).startswith(b"HTTP/1.1 200 ")
        await talk.close()


async def test_chunks_from_a_server_of_http_1_0_are_refused() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")

    async with world(handler) as made:
        answer = await made.ask(get("/", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 502 ")


async def test_blanks_after_the_length_of_an_answer_are_no_part_of_it() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2 \r\n\r\nok")

    async with world(handler) as made:
        answer = await made.ask(get("/", "Connection: close"))
    assert b"\r\nContent-Length: 2\r\n" in answer
    assert answer.endswith(b"\r\n\r\nok")
