"""Generated responses, plain and subtly wrong, through an edge to
clients: what each client gets, a strict reader judges.

`make fuzz` runs it for long; CODEHUB_TEST_SEED chooses other examples.
"""

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop
from hypothesis import given, note
from tests.proxy.attacks import pieces
from tests.proxy.meeting import meeting_by
from tests.proxy.replies import ENDS, RESETS, STAYS, Conversation, Exchange, conversations
from tests.proxy.stage import End, Stage, generated, holds, stage, turns
from tests.proxy.strict import Head, Response, Short, Wrong, request_at, response_at
from tests.support.edge import PREFIX

HOP_BY_HOP = frozenset(
    b"content-length keep-alive proxy-authenticate proxy-authorization proxy-connection te transfer-encoding upgrade"
    b" connection".split()
)
OURS = frozenset({b"clear-site-data", b"x-request-id"})


@dataclass(frozen=True, slots=True)
class Heard:
    """What a client got for one of its requests, and whether its connection is over since."""

    data: bytes
    is_over: bool


@dataclass
class Record:
    served: list[tuple[int, int]] = field(default_factory=list)
    """Which connection was asked for which exchange, in order."""
    replied: set[int] = field(default_factory=set)
    """The exchanges whose reply was sent to its end."""
    connections: int = 0


class Server(End):
    """One connection to a server that replies as the conversation says."""

    def __init__(self, talk: Conversation, record: Record) -> None:
        super().__init__()
        self._talk = talk
        self._record = record
        self._number = record.connections
        record.connections += 1
        self._tasks: list[asyncio.Task[None]] = []

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        try:
            message = request_at(self.data, 0)
        except Short:
            return
        self.data = self.data[message.end :]
        number = int(message.head.start[1].removeprefix(b"/"))
        self._record.served.append((self._number, number))
        self._tasks.append(asyncio.get_running_loop().create_task(self._say(number)))

    def eof_received(self) -> bool:
        return False

    async def _say(self, number: int) -> None:
        exchange = self._talk.exchanges[number]
        for number_of_piece, piece in enumerate(pieces(exchange.reply, exchange.cuts)):
            await turns(3 if number_of_piece else 0)
            self.write(piece)
        if exchange.then == ENDS:
            self.transport.close()
        elif exchange.then == RESETS and not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        self._record.replied.add(number)


async def play(talk: Conversation, record: Record) -> list[Heard]:
    async with stage(lambda: Server(talk, record), End) as made:
        heard = await (ask_at_once if talk.is_pipelined else ask_in_turn)(made, talk, record)
        await made.cancel_all()
    return heard


async def ask_in_turn(made: Stage, talk: Conversation, record: Record) -> list[Heard]:
    heard: list[Heard] = []
    client = await made.connect()
    for number, exchange in enumerate(talk.exchanges):
        if client.is_over or exchange.by_another:
            client = await made.connect()
        at = len(client.data)
        client.write(request(number, exchange))
        await answered(client, at, [exchange.method])
        await holds(lambda number=number: number in record.replied)  # type: ignore[misc]  # a default binds it now
        await turns(6)
        heard.append(Heard(client.data[at:], client.is_over))
    return heard


async def ask_at_once(made: Stage, talk: Conversation, _record: Record) -> list[Heard]:
    client = await made.connect()
    client.write(b"".join(request(number, exchange) for number, exchange in enumerate(talk.exchanges)))
    await answered(client, 0, [exchange.method for exchange in talk.exchanges])
    heard: list[Heard] = []
    data = client.data
    for exchange in talk.exchanges:
        try:
            end = response_at(data, exchange.method, is_over=client.is_over).message.end
        except (Short, Wrong):
            end = len(data)
        heard.append(Heard(data[:end], client.is_over and end == len(data)))
        data = data[end:]
        if not data and client.is_over:
            break
    assert not data, "bytes after the last answer"
    return heard


def request(number: int, exchange: Exchange) -> bytes:
    start = b"%b %b/%d HTTP/%b\r\nHost: hub.test\r\n" % (
        exchange.method,
        PREFIX.encode(),
        number,
        exchange.version,
    )
    return start + (b"Content-Length: 2\r\n\r\nhi" if exchange.method == b"POST" else b"\r\n")


async def answered(client: End, at: int, methods: Sequence[bytes]) -> None:
    """Wait for that many whole answers, the connection's end if
    the last one says so included; or for its end.
    """

    def is_answered() -> bool:
        data, closes = client.data[at:], False
        for method in methods:
            try:
                message = response_at(data, method, is_over=False).message
            except (Short, Wrong):
                return False
            data = data[message.end :]
            closes = message.head.all(b"connection") == [b"close"]
        return not closes

    await holds(lambda: client.is_over or is_answered())


def judge(talk: Conversation, heard: list[Heard], record: Record) -> None:
    for exchange, got in zip(talk.exchanges, heard, strict=False):
        judge_answer(exchange, got)
    assert len(heard) == len(talk.exchanges) or heard[-1].is_over, "somebody got no answer"
    for number, exchange in enumerate(talk.exchanges):
        times = [connection for connection, asked in record.served if asked == number]
        assert len(times) <= (1 if exchange.method == b"POST" else 2), "it was sent again"
        if not is_reusable(exchange):
            later = record.served[record.served.index((times[-1], number)) + 1 :] if times else []
            assert times[-1:] not in [[connection] for connection, _ in later], (
                "a spoilt connection was used again"
            )


def is_reusable(exchange: Exchange) -> bool:
    try:
        message = response_at(exchange.reply, exchange.method, is_over=False).message
    except (Short, Wrong):
        return False
    return message.end == len(exchange.reply)


def judge_answer(exchange: Exchange, got: Heard) -> None:
    assert got.data, "no answer at all"
    there, sent = read(exchange.reply, exchange.method, is_over=exchange.then == ENDS)
    if exchange.then == RESETS:
        there = None
    here, heard = read(got.data, exchange.method, is_over=got.is_over)
    if here is None:
        assert there is None, "a whole answer was cut"
        assert sent.startswith(heard), "something else came than was sent"
        assert got.is_over
        return
    assert here.message.end == len(got.data), "bytes after the answer"
    head = here.message.head
    judge_head(head, exchange)
    if head.start[1] == b"502":
        assert not exchange.is_plain, "a plain answer was refused"
    elif there is None:
        assert here.ends_with_connection or exchange.then == RESETS, "half an answer looks whole"
        assert sent.startswith(heard), "something else came than was sent"
    else:
        assert heard == sent, "the content differs"
        assert head.start[1] == there.message.head.start[1], "the status differs"
        assert kept(head) == kept(there.message.head), "headers were lost, or came from nowhere"
        assert list(here.interim) == ([] if exchange.version == b"1.0" else list(there.interim))


def read(data: bytes, method: bytes, *, is_over: bool) -> tuple[Response | None, bytes]:
    """Return the response, if it is a whole one, and what there is of its content."""
    try:
        response = response_at(data, method, is_over=is_over)
    except (Short, Wrong) as broken:
        return None, broken.content
    return response, response.message.content


def judge_head(head: Head, exchange: Exchange) -> None:
    assert head.start[0] == b"1.1"
    assert len(head.all(b"x-request-id")) == 1
    assert head.all(b"connection") in ([], [b"close"])
    for name in HOP_BY_HOP - {b"connection", b"content-length", b"transfer-encoding"}:
        assert not head.all(name), name
    assert not any(is_ours(cookie) for cookie in head.all(b"set-cookie"))
    if exchange.version == b"1.0":
        assert head.all(b"connection") == [b"close"]
        assert not head.all(b"transfer-encoding"), "chunks for a client that does not know them"


def kept(head: Head) -> list[tuple[bytes, bytes]]:
    ended = HOP_BY_HOP | OURS | (head.options(b"connection") - {b"close", b"keep-alive"})
    return [
        (name, value.partition(b";")[0])
        for name, value in head.fields
        if name not in ended and not (name == b"set-cookie" and is_ours(value))
    ]


def is_ours(cookie: bytes) -> bool:
    return cookie.strip(b" =").startswith(b"codehub_")


@generated
@given(talk=conversations())
def test_every_client_gets_its_own_answer_and_nothing_else(talk: Conversation) -> None:
    note(repr(talk))
    record = Record()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        judge(talk, runner.run(play(talk, record)), record)


async def play_end(exchange: Exchange) -> Heard:
    """The server answers and closes while it is sent a body, so that only what it leaves behind is read."""
    start = request(0, exchange).partition(b"\r\n\r\n")[0].replace(b"\r\nContent-Length: 2", b"")
    with TemporaryDirectory() as directory:
        async with meeting_by("unix", Path(directory)) as meeting:
            await meeting.ask(start + b"\r\nContent-Length: 3\r\n\r\nh")
            if exchange.then != RESETS:
                meeting.read()
            meeting.cross(exchange.reply, more=b"i")
            return Heard(await meeting.heard(), is_over=True)


@generated
@given(talk=conversations())
def test_last_words_are_an_answer_as_any_other_or_none(talk: Conversation) -> None:
    note(repr(talk))
    exchange = talk.exchanges[0]
    ended = replace(exchange, then=ENDS) if exchange.then == STAYS else exchange
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        judge_answer(ended, runner.run(play_end(ended)))
