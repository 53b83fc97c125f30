"""Answers that come before the request was sent to its end: whoever asked
gets them, whole, though the rest can't be sent any more.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.proxy.meeting import Meeting, meeting_by
from tests.support.edge import Talk, answer_ok, get, until, world

from codehub.proxy.engine import upstream
from codehub.proxy.engine.context import DEFAULT_LIMITS
from codehub.proxy.engine.server import targets_in_use
from codehub.proxy.engine.upstream import UpstreamConnection
from codehub.web.bounds import BODY_BYTES_MAX

TOO_LARGE = b"HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"
LONG = b"z" * 149_000 + b"end"
UPLOAD = get("/", "Content-Length: 1000000", method="POST") + b"x"


@pytest.fixture(params=["tcp", "unix"])
async def meeting(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Meeting]:
    async with meeting_by(request.param, tmp_path) as made:
        yield made


@pytest.fixture
async def unix_meeting(tmp_path: Path) -> AsyncIterator[Meeting]:
    async with meeting_by("unix", tmp_path) as made:
        yield made


async def test_an_answer_arrives_though_the_rest_of_the_upload_can_t_be_sent(meeting: Meeting) -> None:
    await meeting.ask(UPLOAD)
    meeting.cross(b"HTTP/1.1 100 Continue\r\n\r\n" + TOO_LARGE)
    heard = await meeting.heard()
    interim, _, answer = heard.partition(b"\r\n\r\n")
    assert interim == b"HTTP/1.1 100 Continue"
    assert answer.startswith(b"HTTP/1.1 413 Payload Too Large\r\n")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\nbig")


async def test_the_rest_of_an_answer_arrives_though_the_rest_of_the_upload_can_t_be_sent(
    meeting: Meeting,
) -> None:
    await meeting.ask(UPLOAD)
    meeting.server.send(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 50000\r\n\r\n")
    assert (await meeting.heard(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
    meeting.cross(b"z" * 50_000)
    assert await meeting.heard() == b"z" * 50_000


@pytest.mark.parametrize(
    "last_bytes",
    [
        b"",
        b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n",
        b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 4\r\n\r\nbig",
        b"HTTP/1.1 413 Payload Too Large\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbig\r\n",
        b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nbig",
        b"HTTP/1.1 413 Payload Too Large\nContent-Length: 3\n\nbig",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nbig",
        b"big",
    ],
    ids=[
        "none",
        "half a head",
        "half a body",
        "half of chunks",
        "two framings",
        "no CR",
        "a switch",
        "no head",
    ],
)
async def test_last_words_that_are_no_whole_answer_are_a_bad_gateway(
    meeting: Meeting, last_bytes: bytes
) -> None:
    await meeting.ask(UPLOAD)
    meeting.cross(last_bytes)
    heard = await meeting.heard()
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert heard.count(b"HTTP/1.1") == 1
    assert b"big" not in heard


@pytest.mark.parametrize("ends_in_order", [True, False])
async def test_an_answer_that_its_connection_ends_is_whole_if_that_ended_in_order(
    unix_meeting: Meeting, ends_in_order: bool
) -> None:
    await unix_meeting.ask(UPLOAD)
    if ends_in_order:
        unix_meeting.read()
    unix_meeting.cross(b"HTTP/1.1 413 Payload Too Large\r\n\r\nbig")
    heard = await unix_meeting.heard()
    assert heard.startswith(b"HTTP/1.1 413 " if ends_in_order else b"HTTP/1.1 502 ")
    assert heard.endswith(b"\r\n\r\nbig") == ends_in_order


async def test_a_client_that_has_sent_everything_stays_and_is_served_on_another_connection(
    meeting: Meeting,
) -> None:
    await meeting.ask(get("/", "Content-Length: 5", method="POST") + b"x")
    meeting.cross(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n\r\nbig", more=b"yyyy")
    assert b"Connection: close" not in await meeting.heard(b"\r\n\r\nbig")
    await meeting.ask(get("/again", "Connection: close"))
    meeting.server.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert (await meeting.heard()).endswith(b"\r\n\r\nok")


async def test_a_server_that_can_t_be_written_to_and_answers_without_end_is_not_listened_to_for_ever(
    unix_meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 1000000000\r\n\r\n"
    endless = iter([begun, *[b"z" * 65_536] * 1000, b""])
    monkeypatch.setattr(upstream, "os", SimpleNamespace(read=lambda _socket, _size: next(endless)))
    await unix_meeting.ask(UPLOAD)
    unix_meeting.cross(begun)
    assert (await unix_meeting.heard()).startswith(b"HTTP/1.1 502 ")
    assert sum(map(len, endless)) > 60_000_000


# Before anything of the request was read.

BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"


def answer_at_once(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch, answer: bytes, *, closes: bool = True
) -> None:
    """Let the server answer, and close, as soon as it is connected
    to: the proxy has sent nothing yet, and reads first.
    """
    connection_made = UpstreamConnection.connection_made

    def made(self: UpstreamConnection, transport: asyncio.BaseTransport) -> None:
        connection_made(self, transport)
        meeting.accept()
        meeting.server.send(answer)
        if closes:
            meeting.server.close()

    monkeypatch.setattr(UpstreamConnection, "connection_made", made)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("answer", "closes"),
    [(BUSY, True), (BUSY, False), (b"HTTP/1.1 503 Busy\r\n\r\nbusy", True)],
    ids=["closing", "staying", "until its end"],
)
async def test_an_answer_that_comes_before_the_request_was_sent_arrives(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch, method: str, answer: bytes, closes: bool
) -> None:
    answer_at_once(meeting, monkeypatch, answer, closes=closes)
    meeting.client.send(get("/", "Content-Length: 0", "Connection: close", method=method))
    heard = await meeting.heard()
    assert heard.startswith(b"HTTP/1.1 503 Busy\r\n")
    assert heard.endswith(b"\r\n\r\nbusy")


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 503 Busy\r\n", b"220 mail.test ESMTP busy\r\n\r\n"],
    ids=["none", "half a head", "no HTTP"],
)
async def test_what_comes_before_the_request_and_is_no_whole_answer_is_a_bad_gateway(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    answer_at_once(meeting, monkeypatch, answer)
    meeting.client.send(get("/", "Connection: close"))
    heard = await meeting.heard()
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert b"busy" not in heard


async def test_a_connection_on_which_the_server_spoke_first_is_not_used_again(
    unix_meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_at_once(unix_meeting, monkeypatch, BUSY, closes=False)
    unix_meeting.client.send(get("/"))
    await unix_meeting.heard(b"busy")
    first = unix_meeting.server
    unix_meeting.client.send(get("/again"))
    await unix_meeting.heard(b"busy")
    assert unix_meeting.server is not first
    first.close()


# The API's own bound.


def to_api(*lines: str, method: str = "POST") -> bytes:
    return "\r\n".join((f"{method} /api/v1/workspaces HTTP/1.1", "Host: hub.test", *lines, "", "")).encode()


@pytest.mark.parametrize(
    "lines",
    [
        (f"Content-Length: {BODY_BYTES_MAX + 1}",),
        (f"Content-Length: {BODY_BYTES_MAX + 1}", "Expect: 100-continue"),
        ("Transfer-Encoding: chunked",),
    ],
    ids=["sized", "expecting", "chunked"],
)
async def test_a_body_that_is_too_large_for_the_api_is_refused_before_anything_is_sent(
    lines: tuple[str, ...],
) -> None:
    async with world(answer_ok) as made:
        chunk = b"%x\r\n" % (BODY_BYTES_MAX + 1) if "chunked" in lines[0] else b""
        heard = await made.ask(to_api(*lines, "X-Request-Id: mine", "Connection: close") + chunk)
        head, _, body = heard.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"\r\nX-Request-Id: mine\r\n" in head
        assert b"\r\nConnection: close" in head
        message = f"The body is larger than {BODY_BYTES_MAX} bytes."
        error = {"code": "PAYLOAD_TOO_LARGE", "message": message, "details": None}
        assert json.loads(body) == {"error": error}
        assert made.gate.admitted == []
        assert made.workspace.talks == []


async def test_chunks_that_become_too_much_for_the_api_are_refused() -> None:
    async with world(swallow) as made:
        talk = await made.connect()
        await talk.send(to_api("Transfer-Encoding: chunked", "X-Request-Id: mine"))
        for _ in range(16):
            await talk.send(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        await until(lambda: sum(map(len, made.workspace.received)) > BODY_BYTES_MAX)
        await talk.send(b"1\r\nx\r\n")
        heard = await talk.rest()
        assert heard.startswith(b"HTTP/1.1 413 ")
        assert b"\r\nX-Request-Id: mine\r\n" in heard
        assert b"PAYLOAD_TOO_LARGE" in heard
        await talk.close()


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_as_large_as_the_api_takes_goes_to_it(is_chunked: bool) -> None:
    async with world(answer_ok) as made:
        body = b"~" * BODY_BYTES_MAX
        if is_chunked:
            raw = to_api("Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            raw = to_api(f"Content-Length: {len(body)}") + body
        talk = await made.connect()
        await talk.send(raw)
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK")
        await until(lambda: b"".join(made.workspace.received).count(b"~") == BODY_BYTES_MAX)
        await talk.close()


@pytest.mark.parametrize("line", [f"Content-Length: {BODY_BYTES_MAX + 1}", "Transfer-Encoding: chunked"])
async def test_the_bound_of_the_api_is_none_of_a_workspace(line: str) -> None:
    async with world(answer_ok) as made:
        talk = await made.connect()
        chunk = b"%x\r\n" % (BODY_BYTES_MAX + 1) if "chunked" in line else b""
        await talk.send(get("/", line, method="POST") + chunk)
        assert (await talk.head()).startswith(b"HTTP/1.1 200 OK")
        await talk.close()


# The client's side: it reads when it has sent.


async def swallow(talk: Talk) -> None:
    await talk.rest()


async def refuse(talk: Talk) -> None:
    await talk.head()
    await talk.send(TOO_LARGE)


async def test_a_client_that_sends_everything_before_it_reads_gets_the_early_answer() -> None:
    size = 20_000_000
    async with world(refuse) as made:
        talk = await made.connect()
        await talk.send(get("/", f"Content-Length: {size}", method="POST"))
        await until(lambda: bool(made.workspace.talks) and not targets_in_use(made.edge.connections))
        await talk.send(b"x" * size)
        talk.end()
        assert (await talk.rest()).endswith(b"\r\n\r\nbig")
        await until(lambda: not made.edge.connections)
        await talk.close()


async def test_a_client_that_sends_without_end_after_its_answer_is_cut() -> None:
    async with world(refuse, limits=replace(DEFAULT_LIMITS, linger_bytes_max=100_000)) as made:
        talk = await made.connect()
        await talk.send(get("/", "Content-Length: 200000", method="POST"))
        assert (await talk.head()).startswith(b"HTTP/1.1 413 ")
        await talk.send(b"x" * 200_000)
        await until(lambda: not made.edge.connections)
        await talk.close()


@pytest.fixture
async def stuck_meeting(unix_meeting: Meeting) -> Meeting:
    """The early answer is more than fits between the proxy and a client that does not read."""
    await unix_meeting.ask(UPLOAD)
    connection = unix_meeting.narrow()
    unix_meeting.cross(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: %d\r\n\r\n%b" % (len(LONG), LONG))
    await until(lambda: not targets_in_use(unix_meeting.edge.connections))
    assert connection.is_stuck
    return unix_meeting


async def test_a_client_that_reads_its_early_answer_slowly_gets_it_whole(stuck_meeting: Meeting) -> None:
    stuck_meeting.pass_time(DEFAULT_LIMITS.stall_s_max - 30)
    assert (await stuck_meeting.heard()).endswith(b"\r\n\r\n" + LONG)


async def test_a_client_that_takes_nothing_of_its_early_answer_is_cut(stuck_meeting: Meeting) -> None:
    stuck_meeting.pass_time(DEFAULT_LIMITS.stall_s_max + 30)
    await until(lambda: not stuck_meeting.edge.connections)
    assert not (await stuck_meeting.heard()).endswith(LONG)
