"""The data path over real sockets: each kind of message arrives as it was sent, and ends where it ends."""

import asyncio
import hashlib
from pathlib import Path

import pytest
from tests.support.edge import PREFIX, Talk, answer_ok, get, until, world

MEGABYTE = bytes(range(256)) * 4096


async def test_a_request_reaches_the_workspace_without_the_prefix_and_its_answer_comes_back() -> None:
    async with world(answer_ok) as made:
        talk = await made.connect()
        await talk.send(get("/path?q=1"))
        head = await talk.head()
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"X-Request-Id: " in head
        assert await talk.exactly(22) == b"GET /path?q=1 HTTP/1.1"
        await talk.close()
        assert made.workspace.received[0].startswith(b"GET /path?q=1 HTTP/1.1\r\nHost: hub.test\r\n")


async def test_the_prefix_is_kept_where_the_ide_wants_it() -> None:
    async with world(answer_ok, strips=False) as made:
        talk = await made.connect()
        await talk.send(get("/lab"))
        await talk.head()
        assert made.workspace.received[0].startswith(f"GET {PREFIX}/lab HTTP/1.1\r\n".encode())
        assert f"X-Forwarded-Prefix: {PREFIX}\r\n".encode() in made.workspace.received[0]
        await talk.close()


async def test_a_unix_socket_serves_like_a_port(tmp_path: Path) -> None:
    async with world(answer_ok, path=tmp_path / "ide.sock") as made:
        talk = await made.connect()
        for _ in range(3):
            await talk.send(get("/a"))
            assert b"200 OK" in await talk.head()
            await talk.exactly(15)
        assert len(made.workspace.talks) == 1
        await talk.close()


async def test_connections_are_pooled_and_shared_between_clients() -> None:
    async with world(answer_ok) as made:
        for _ in range(5):
            talk = await made.connect()
            await talk.send(get("/a"))
            await talk.head()
            await talk.exactly(15)
            await talk.close()
        assert len(made.workspace.talks) == 1


@pytest.mark.parametrize(
    ("method", "answer", "body"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b""),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
            b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
        ),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 100_000])
async def test_an_answer_ends_where_it_ends_and_the_next_begins(
    method: str, answer: bytes, body: bytes, piece: int
) -> None:
    async def handler(talk: Talk) -> None:
        while True:
            await talk.head()
            for at in range(0, len(answer), piece):
                await talk.send(answer[at : at + piece])
                await asyncio.sleep(0)

    async with world(handler) as made:
        talk = await made.connect()
        for _ in range(2):
            await talk.send(get("/", method=method))
            head = await talk.head()
            assert head.split(b"\r\n")[0] == answer.split(b"\r\n")[0]
            assert await talk.exactly(len(body)) == body
        await talk.close()
        assert len(made.workspace.talks) == 1


async def test_interim_answers_pass_before_the_final_one() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        assert await talk.head() == b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
        assert (await talk.head()).startswith(b"HTTP/1.1 102 Processing\r\n")
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await talk.exactly(2) == b"ok"
        await talk.close()


@pytest.mark.parametrize("framing", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
async def test_an_interim_answer_says_nothing_of_a_body(framing: bytes) -> None:
    """A client that believed it would take the final answer for that body."""

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 103 Early Hints\r\n" + framing + b"\r\n\r\n")
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        assert await talk.head() == b"HTTP/1.1 103 Early Hints\r\n\r\n"
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await talk.exactly(2) == b"ok"
        await talk.close()


async def test_a_body_that_waits_for_100_continue_is_asked_for_by_the_workspace() -> None:
    async def handler(talk: Talk) -> None:
        head = await talk.head()
        assert b"Expect: 100-continue\r\n" in head
        await talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await talk.exactly(5)
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body)

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", "Expect: 100-continue", "Content-Length: 5", method="PUT"))
        assert await talk.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await talk.send(b"hello")
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await talk.exactly(5) == b"hello"
        await talk.close()


async def test_an_early_answer_arrives_and_the_rest_of_the_upload_goes_nowhere() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", "Content-Length: 100000000", method="POST") + b"x" * 1000)
        head = await talk.head()
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"Connection: close\r\n" in head
        assert await talk.rest() == b"big"
        await talk.close()


async def test_pipelined_requests_are_answered_in_order_each_admitted_on_its_own() -> None:
    async with world(answer_ok) as made:
        talk = await made.connect()
        await talk.send(b"".join(get(f"/{number}") for number in range(20)))
        for number in range(20):
            head = await talk.head()
            size = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            assert await talk.exactly(size) == b"GET /%d HTTP/1.1" % number
        await talk.close()
        assert len(made.gate.admitted) == 20


async def test_a_request_that_is_repeated_after_another_is_the_same_as_before() -> None:
    async with world(answer_ok) as made:
        plain = get("/plain")
        absolute = plain.replace(f"{PREFIX}/plain".encode(), f"http://hub.test{PREFIX}/absolute".encode())
        upload = get("/upload", "Content-Length: 1", method="POST") + b"x"
        await made.ask((plain * 2 + absolute) * 2 + (upload * 2 + plain) * 2 + get("/", "Connection: close"))
        asked = [target.decode().removeprefix(PREFIX) for target in made.gate.admitted]
        uploads = ["/upload", "/upload", "/plain"] * 2
        assert asked == ["/plain", "/plain", "/absolute"] * 2 + uploads + ["/"]


async def test_no_byte_of_the_next_request_reaches_the_workspace_before_it_is_admitted() -> None:
    release = asyncio.Event()

    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.exactly(3)
        await release.wait()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        secret = b"Cookie: codehub_session=secret\r\n"
        second = b"GET /api/v1/session HTTP/1.1\r\nHost: hub.test\r\n" + secret + b"\r\n"
        await talk.send(get("/", "Content-Length: 3", method="POST") + b"abc" + second)
        await until(lambda: b"abc" in b"".join(made.workspace.received))
        assert b"".join(made.workspace.received).endswith(b"\r\n\r\nabc")
        assert b"secret" not in b"".join(made.workspace.received)
        assert len(made.gate.admitted) == 1
        release.set()
        await talk.head()
        await until(lambda: len(made.gate.admitted) == 2)
        await talk.close()


async def test_an_upload_of_any_size_streams_through_unchanged() -> None:
    digest = hashlib.sha256()

    async def handler(talk: Talk) -> None:
        await talk.head()
        left = 64 * len(MEGABYTE)
        while left:
            part = await talk.reader.read(1 << 16)
            digest.update(part)
            left -= len(part)
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", f"Content-Length: {64 * len(MEGABYTE)}", method="POST"))
        for _ in range(64):
            await talk.send(MEGABYTE)
        assert b"200 OK" in await talk.head()
        assert digest.hexdigest() == hashlib.sha256(MEGABYTE * 64).hexdigest()
        await talk.close()


async def test_a_download_waits_for_a_client_that_takes_nothing() -> None:
    sent = 0

    async def handler(talk: Talk) -> None:
        nonlocal sent
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * len(MEGABYTE)))
        for _ in range(64):
            await talk.send(MEGABYTE)
            sent += len(MEGABYTE)

    async with world(handler) as made:
        talk = await made.connect()
        talk.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await talk.send(get())
        await until(lambda: sent > 0)
        before = 0
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 32 * len(MEGABYTE)
        talk.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await talk.head()
        digest = hashlib.sha256()
        for _ in range(64):
            digest.update(await talk.exactly(len(MEGABYTE)))
        assert digest.hexdigest() == hashlib.sha256(MEGABYTE * 64).hexdigest()
        await talk.close()


async def test_a_chunked_upload_with_trailers_passes_as_it_is() -> None:
    body = b"5;note=1\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: abc\r\n\r\n"

    async def handler(talk: Talk) -> None:
        head = await talk.head()
        assert b"Transfer-Encoding: chunked\r\n" in head
        got = await talk.until_text(b"X-Sum: abc\r\n\r\n")
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(got), got))

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/", "Transfer-Encoding: chunked", method="POST"))
        for at in range(len(body)):
            await talk.send(body[at : at + 1])
        await talk.head()
        assert await talk.exactly(len(body)) == body
        await talk.close()


async def test_an_http_1_0_client_gets_a_plain_body_and_the_end_of_the_connection() -> None:
    async def handler(talk: Talk) -> None:
        head = await talk.head()
        assert head.startswith(b"GET / HTTP/1.1\r\n")
        await talk.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )

    async with world(handler) as made:
        head, _, body = (await made.ask(get(version="1.0"))).partition(b"\r\n\r\n")
        assert b"Transfer-Encoding" not in head
        assert b"Connection: close" in head
        assert body == b"abcde"


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.0 200 OK\r\n\r\nall of it")

    async with world(handler) as made:
        head, _, body = (await made.ask(get())).partition(b"\r\n\r\n")
        assert b"Connection: close" in head
        assert body == b"all of it"


async def test_an_answer_that_is_cut_off_is_cut_off_for_the_client_too() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        await talk.head()
        assert len(await talk.rest()) < 100
        await talk.close()


async def test_websockets_pass_both_ways_with_bytes_that_came_early() -> None:
    async def handler(talk: Talk) -> None:
        head = await talk.head()
        assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in head
        await talk.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello"
        )
        while part := await talk.reader.read(100):
            await talk.send(part.upper())

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get("/ws", "Connection: Upgrade", "Upgrade: websocket") + b"early")
        assert (await talk.head()).startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert await talk.exactly(10) == b"helloEARLY"
        await talk.send(b"later")
        assert await talk.exactly(5) == b"LATER"
        talk.end()
        assert await talk.rest() == b""
        await talk.close()


async def test_an_upgrade_that_is_refused_leaves_an_ordinary_connection() -> None:
    async with world(answer_ok) as made:
        talk = await made.connect()
        await talk.send(get("/ws", "Connection: Upgrade", "Upgrade: websocket") + get("/next"))
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK")
        assert await talk.exactly(16) == b"GET /ws HTTP/1.1"
        await talk.head()
        assert await talk.exactly(18) == b"GET /next HTTP/1.1"
        await talk.close()


async def test_a_switch_of_protocols_that_nobody_asked_for_is_refused() -> None:
    async def handler(talk: Talk) -> None:
        await talk.head()
        await talk.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        await talk.rest()

    async with world(handler) as made:
        talk = await made.connect()
        await talk.send(get())
        assert (await talk.head()).startswith(b"HTTP/1.1 502 ")
        await talk.close()


@pytest.mark.parametrize("framing", ["sized", "chunked", "until it closes"])
async def test_what_waits_for_a_slow_reader_is_not_written_over_by_what_comes_for_others(
    framing: str,
) -> None:
    size, readers = 4 << 20, 6

    async def answer(talk: Talk) -> None:
        which = (await talk.head()).split(b"/")[1][:1]
        head = {"sized": b"Content-Length: %d\r\n" % size, "chunked": b"Transfer-Encoding: chunked\r\n"}
        await talk.send(b"HTTP/1.1 200 OK\r\n%b\r\n" % head.get(framing, b""))
        for _ in range(size >> 16):
            part = which * (1 << 16)
            await talk.send(b"10000\r\n%b\r\n" % part if framing == "chunked" else part)
        await talk.send(b"0\r\n\r\n" if framing == "chunked" else b"")

    async with world(answer) as made:
        talks = [await made.connect() for _ in range(readers)]
        for which, talk in enumerate(talks):
            await talk.send(get(f"/{which}"))
        for talk in talks:
            await talk.head()
        left = size // 8
        step = left >> 16 << 16 if framing != "chunked" else (left >> 16) * (0x10000 + 9)
        for _ in range(8):
            for which, talk in enumerate(talks):
                part = (await talk.exactly(step)).replace(b"10000\r\n", b"").replace(b"\r\n", b"")
                assert part == b"%d" % which * left
        for talk in talks:
            await talk.close()
