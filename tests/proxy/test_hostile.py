"""One connection, a stranger's or a workspace's, costs bounded work: as
much is read at once as others can wait for (security.md 22).

Work is counted in steps, lines and turns of the event loop, never in time.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.edge import PREFIX, Talk, get, until, world

from codehub.proxy.engine import http_body
from codehub.proxy.engine.block_cache import BlockCache
from codehub.proxy.engine.heads import Refused
from codehub.proxy.engine.http_body import STEPS_MAX, TIGHT, Chunked, Malformed
from codehub.proxy.engine.responses import ResponseHead
from codehub.proxy.engine.rules import Rules
from codehub.proxy.engine.websocket import FrameReader

READ = 262_144
"""So much comes at once at most."""
FIRST_LINE = b"GET / HTTP/1.1\r\n"
ONE_BYTE = b"1\r\nx\r\n"
END = b"0\r\n\r\n"


@contextmanager
def steps_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield how many steps each look at a chunked body took."""
    looks: list[int] = []
    take, step = Chunked.take, Chunked._step

    def counted_take(body: Chunked, data: bytes, start: int) -> int:
        looks.append(0)
        return take(body, data, start)

    def counted_step(body: Chunked, data: bytes, position: int) -> int:
        looks[-1] += 1
        return step(body, data, position)

    with monkeypatch.context() as patched:
        patched.setattr(Chunked, "take", counted_take)
        patched.setattr(Chunked, "_step", counted_step)
        yield looks


def taken(body: Chunked, data: bytes) -> bytes:
    """Return what is passed on of all that is there."""
    position, passed = 0, b""
    while True:
        stop = body.take(data, position)
        passed += body.passed_on(data, position, stop)
        position = stop
        if not body.has_more:
            return passed


# Chunks.


def test_one_byte_chunks_are_walked_many_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    data = ONE_BYTE * (READ // len(ONE_BYTE))
    with steps_counted(monkeypatch) as looks:
        assert taken(Chunked(), data) == data
    assert sum(looks) <= len(data) // len(ONE_BYTE) // 25


@pytest.mark.parametrize(
    "chunk", [ONE_BYTE, b"1;\r\nx\r\n", b"01\r\nx\r\n", b"10\r\n" + b"x" * 16 + b"\r\n", b"2\r\n\r\n\r\n"]
)
@pytest.mark.parametrize("decodes", [False, True])
def test_so_much_is_read_at_once_and_the_rest_later(
    chunk: bytes, decodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = chunk * 5000 + END
    body = Chunked(decodes=decodes)
    with steps_counted(monkeypatch) as looks:
        passed = taken(body, data)
    assert body.done
    assert max(looks) <= STEPS_MAX
    if decodes:
        assert passed == chunk.partition(b"\r\n")[2][:-2] * 5000
    else:
        assert passed == data


@pytest.mark.parametrize(
    "chunk", [b"1;%b\r\nx\r\n" % (b"e" * 100), b"000000000000001\r\nx\r\n", b"1;e\r\nx\r\n"]
)
def test_chunks_that_are_mostly_what_is_around_them_are_refused(chunk: bytes) -> None:
    with pytest.raises(Malformed, match="too small"):
        taken(Chunked(), chunk * 100_000)


def test_what_is_around_large_chunks_is_nobodys_business() -> None:
    chunk = b"%x;%b\r\n%b\r\n" % (4000, b"e" * 4000, b"x" * 4000)
    assert taken(Chunked(), chunk * 100 + END) == chunk * 100 + END


@pytest.mark.parametrize("pieces", [1, 2, 3, 5, 7])
def test_small_chunks_end_where_they_end_however_they_are_cut(pieces: int) -> None:
    data = (
        b"".join(b"%X\r\n%b\r\n" % (size, (b"\r\n1\r\n\x00\xff" * 8)[:size]) for size in range(1, 40)) + END
    )
    body, buffer, passed = Chunked(), b"", b""
    for at in range(0, len(data), pieces):
        buffer += data[at : at + pieces]
        while True:
            stop = body.take(buffer, 0)
            passed, buffer = passed + buffer[:stop], buffer[stop:]
            if not body.has_more:
                break
    assert (body.done, passed, buffer) == (True, data, b"")


@pytest.mark.parametrize(
    "wrong", [b"1\r\nxx\r\n", b"1\r\nx\n\n", b"3\r\nab\r\n", b"1\nx\r\n", b"g\r\nx\r\n", b"\n"]
)
def test_a_wrong_chunk_among_small_ones_is_refused(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        taken(Chunked(), ONE_BYTE * 100 + wrong + ONE_BYTE * 100)


async def test_a_workspace_that_answers_in_small_chunks_leaves_turns_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of it comes, and between two looks at it the event loop has turned."""
    chunk, many = b"1;\r\nx\r\n", 20_000
    looks: Counter[int] = Counter()
    turn = 0
    take = Chunked.take

    def noted(body: Chunked, data: bytes, start: int) -> int:
        looks[turn] += 1
        return take(body, data, start)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * many + END)

    monkeypatch.setattr(Chunked, "take", noted)
    async with world(handler) as made:
        counting = asyncio.create_task(count_turns())
        talk = await made.connect()
        await talk.send(get())
        await talk.head()
        assert await talk.exactly(len(chunk) * many + len(END)) == chunk * many + END
        counting.cancel()
        await talk.close()
    assert len(looks) >= many // STEPS_MAX
    assert max(looks.values()) <= 2, "a read, and what was left of the last one"


async def test_a_client_that_uploads_in_small_chunks_is_passed_on_whole() -> None:
    body = b"1;\r\nx\r\n" * 20_000 + END

    async def handler(talk: Talk) -> None:
        await talk.head()
        assert await talk.exactly(len(body)) == body
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", "Transfer-Encoding: chunked", method="POST") + body)
        assert (await talk.head()).startswith(b"HTTP/1.1 200 ")
        await talk.send(get())
        await talk.close()


async def test_a_last_word_in_small_chunks_is_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers and goes: its connection is closed before all that it said is read."""
    monkeypatch.setattr(http_body, "STEPS_MAX", 2)
    body = b"10\r\n%b\r\n" % (b"x" * 16) * 500 + END

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body)
        talk.writer.close()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        await talk.head()
        assert await talk.exactly(len(body)) == body
        await talk.close()


# What a stranger sends to sign in.

LOGIN = b"POST /api/v1/login HTTP/1.1\r\nHost: hub.test\r\nTransfer-Encoding: chunked\r\n\r\n"


async def swallow(talk: Talk) -> None:
    await talk.rest()


async def test_a_login_in_one_byte_chunks_is_refused_long_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with steps_counted(monkeypatch) as looks:
        async with world(swallow) as made:
            talk = await made.connect()
            await talk.send(LOGIN + ONE_BYTE * 1_000_000)
            assert (await talk.rest()).startswith(b"HTTP/1.1 400 ")
            await talk.close()
    assert sum(looks) <= 3 * TIGHT.spare, "a fixed number of steps, however much is sent"
    assert max(looks) <= STEPS_MAX


async def test_the_api_is_given_chunks_of_our_own() -> None:
    """What is around a stranger's chunks costs it nothing: it gets one for what came at once."""
    async with world(swallow) as made:
        talk = await made.connect()
        await talk.send(LOGIN + b'1\r\n{\r\n1\r\n}\r\n000001;name="value"\r\n \r\n' + END)
        await until(lambda: b"".join(made.workspace.received).endswith(END))
        assert b"".join(made.workspace.received).partition(b"\r\n\r\n")[2] == b"3\r\n{} \r\n" + END
        await talk.close()


# Heads.


@pytest.mark.parametrize("piece", [1, 7, 100_000])
async def test_so_many_interim_answers_are_passed_on_and_no_more(piece: int) -> None:
    interim = b"HTTP/1.1 102 Processing\r\n\r\n"
    sent = interim * 101

    async def handler(talk: Talk) -> None:
        await talk.head()
        for at in range(0, len(sent), piece):
            await talk.send(sent[at : at + piece])
        assert await talk.is_closed()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        heard = await talk.until_text(b"HTTP/1.1 502 ")
        assert heard.count(interim) == 100
        await talk.close()


def test_interim_answers_are_read_once_each_however_many_come_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    init = ResponseHead.__init__

    def noted(head: ResponseHead, raw: bytes, *args: object, **kwargs: object) -> None:
        read.append(len(raw))
        init(head, raw, *args, **kwargs)  # type: ignore[arg-type]

    async def handler(talk: Talk) -> None:
        await talk.head()
        answers = (b"HTTP/1.1 103 Early Hints\r\nX-N: %d\r\n\r\n" % n for n in range(10_000))
        await talk.send(b"".join(answers))

    async def flood() -> None:
        async with world(handler) as made:
            talk = await made.connect()
            await talk.send(get())
            assert b"HTTP/1.1 502 " in await talk.until_text(b"HTTP/1.1 502 ")
            await talk.close()

    monkeypatch.setattr(ResponseHead, "__init__", noted)
    asyncio.run(flood())
    assert len(read) == 101
    assert max(read) < 50


@pytest.mark.parametrize(
    "lines", [b"a:b\r\n" * 300, b"Cookie: %b\r\n" % (b"a=b;" * 2000), b"Connection: %b\r\n" % (b"a," * 2000)]
)
async def test_a_head_of_more_parts_than_anybody_needs_is_refused(lines: bytes) -> None:
    with pytest.raises(Refused) as refused:
        BlockCache(Rules()).read(
            FIRST_LINE + b"Host: h\r\n%b\r\n" % lines, len(FIRST_LINE), is_known_method=True
        )
    assert refused.value.status == 431


async def test_an_answer_of_more_headers_than_anybody_needs_is_none() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\n%bContent-Length: 0\r\n\r\n" % (b"a:b\r\n" * 300))

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        assert (await talk.head()).startswith(b"HTTP/1.1 502 ")
        await talk.close()


@pytest.mark.parametrize("head", [b"GET %b/ HTTP/1.1\r\nHost: hub.test\r\nA: b\r\n\r\n" % PREFIX.encode()])
async def test_a_head_that_comes_byte_by_byte_is_read_all_the_same(head: bytes) -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        for byte in b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 0\r\n\r\n":
            await talk.send(bytes([byte]))

    async with world(handler) as made:
        talk = await made.connect()
        for byte in head:
            await talk.send(bytes([byte]))
        assert b"X-A: b\r\n" in await talk.head()
        for byte in b"GET / HTTP/1.1\r\nHost: h\n":
            await talk.send(bytes([byte]))
        assert (await talk.head()).startswith(b"HTTP/1.1 400 "), "a line that ends without CR"
        await talk.close()


# Frames.


def test_of_more_frames_at_once_than_anybody_sends_only_the_first_are_read() -> None:
    reader = FrameReader()
    assert len(reader.feed(b"\x82\x00" * (READ // 2))) < 2000
    assert len(reader.feed(b"\x82\x00" * (READ // 2))) == 1, "from then on they are not told apart"
    assert reader.feed(b"\x89\x04ping") == []
    assert reader.feed(b"\x82\x04data\x82\x04more") == [(4, b"data"), (4, b"more")], "until one comes alone"
