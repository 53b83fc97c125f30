"""Generated requests, plain and subtly wrong, through an edge to servers that
keep every byte: what arrives there, a strict reader judges.

`make fuzz` runs it for long; CODEHUB_TEST_SEED chooses other examples.
"""

import asyncio
import re
from dataclasses import dataclass, field

import uvloop
from hypothesis import given, note
from tests.proxy.attacks import EARLY, FORGED, SECRET, SWITCHES, Asked, Attack, attacks, pieces
from tests.proxy.stage import End, Stage, generated, holds, stage, turns
from tests.proxy.strict import (
    Head,
    Message,
    Short,
    Wrong,
    request_at,
    request_head_at,
    response_at,
    skip_empty_lines,
)
from tests.support.edge import PREFIX

P = PREFIX.encode()
TOKEN = re.compile(rb"(?<![A-Za-z0-9])cht_[A-Za-z0-9_-]{8,}")
ENDS_AT_PROXY = frozenset(
    b"authorization connection content-length cookie forwarded host http2-settings keep-alive proxy-authenticate"
    b" proxy-authorization proxy-connection sec-websocket-extensions te transfer-encoding upgrade x-forwarded-for"
    b" x-forwarded-host x-forwarded-port x-forwarded-prefix x-forwarded-proto x-forwarded-server x-real-ip"
    b" x-request-id".split()
)
WORKSPACE, API, NOWHERE = "workspace", "api", "nowhere"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MADE_ONCE = (b"host", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-request-id")


@dataclass
class Reading:
    """What a client's bytes are, strictly: whole requests, then one that
    has a head and no end, or what goes through a tunnel.
    """

    whole: list[Message] = field(default_factory=list)
    unfinished: Head | None = None
    tunnelled: bytes = b""

    @property
    def heads(self) -> list[Head]:
        return [message.head for message in self.whole] + ([self.unfinished] if self.unfinished else [])


def read(raw: bytes, *, switches: bool) -> Reading:
    reading = Reading()
    at = 0
    while (at := skip_empty_lines(raw, at)) < len(raw):
        try:
            reading.unfinished = request_head_at(raw, at)
            message = request_at(raw, at)
        except (Short, Wrong):
            break
        reading.unfinished = None
        reading.whole.append(message)
        at = message.end
        if switches and asks_to_switch(message.head):
            reading.tunnelled = raw[at:]
            break
        if message.head.start[2] == b"1.0" or b"close" in message.head.options(b"connection"):
            break
    return reading


def asks_to_switch(head: Head) -> bool:
    wants = b"upgrade" in head.options(b"connection") and head.all(b"upgrade") == [b"websocket"]
    has_body = head.all(b"transfer-encoding") or head.all(b"content-length") not in ([], [b"0"])
    return head.start[0] == b"GET" and head.start[2] == b"1.1" and wants and not has_body


def path_of(target: bytes) -> bytes:
    """Return what arrives behind the proxy of such a target, up to its query."""
    return target.removeprefix(b"http://hub.test").removeprefix(P).partition(b"?")[0]


class Server(End):
    """One connection to a server that answers every request with its path."""

    def __init__(self, attack: Attack, arrived: list[Message], connections: list[End]) -> None:
        super().__init__()
        self._attack = attack
        self._arrived = arrived
        connections.append(self)
        self.read_up_to = 0
        self.has_switched = False
        self._answered = self._greeted = -1

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        while not self.has_switched and self.read_up_to < len(self.data):
            try:
                self._greet(request_head_at(self.data, self.read_up_to))
                message = request_at(self.data, self.read_up_to)
            except Short:
                return
            except Wrong:
                self.transport.close()
                return
            self._arrived.append(message)
            self._answer(message.head)
            self.read_up_to = message.end

    def eof_received(self) -> bool:
        return False

    def _greet(self, head: Head) -> None:
        if self._attack.server == EARLY:
            self._answer(head)
        elif head.all(b"expect") and self._greeted != self.read_up_to:
            self._greeted = self.read_up_to
            self.write(CONTINUE)

    def _answer(self, head: Head) -> None:
        if self._answered == self.read_up_to:
            return
        self._answered = self.read_up_to
        if self._attack.server == SWITCHES and head.all(b"upgrade"):
            self.has_switched = True
            self.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            )
            return
        path = path_of(head.start[1])
        start = b"HTTP/1.1 200 OK\r\nX-Path: %b\r\nContent-Length: %d\r\n\r\n" % (path, len(path))
        self.write(start if head.start[0] == b"HEAD" else start + path)


@dataclass
class Outcome:
    admitted: list[tuple[bytes, bytes]] = field(default_factory=list)
    to_workspace: list[Message] = field(default_factory=list)
    to_api: list[Message] = field(default_factory=list)
    workspace: list[End] = field(default_factory=list)
    api: list[End] = field(default_factory=list)
    received: bytes = b""
    """By the client."""


async def play(attack: Attack, reading: Reading) -> Outcome:
    outcome = Outcome()
    async with stage(
        lambda: Server(attack, outcome.to_workspace, outcome.workspace),
        lambda: Server(attack, outcome.to_api, outcome.api),
        gate_is_slow=attack.gate_is_slow,
    ) as made:
        client = await made.connect()
        for piece in pieces(attack.raw, attack.cuts):
            client.write(piece)
            await turns(attack.turns)
        methods = [message.head.start[0] for message in reading.whole]
        await holds(lambda: client.is_over or count_answers(client.data, methods) == len(methods))
        await hang_up(made, client)
        outcome.admitted = made.gate.asked
    outcome.received = client.data
    return outcome


async def hang_up(made: Stage, client: End) -> None:
    client.end()
    await holds(lambda: client.is_over)
    await made.cancel_all()


def count_answers(data: bytes, methods: list[bytes]) -> int:
    for count, method in enumerate(methods):
        try:
            data = data[response_at(data, method, is_over=False).message.end :]
        except Short:
            return count
    return len(methods)


def judge_admissions(reading: Reading, outcome: Outcome) -> None:
    asked = [(head.start[0], head.start[1].removeprefix(b"http://hub.test")) for head in reading.heads]
    assert outcome.admitted == asked[: len(outcome.admitted)], (
        "something else was admitted than was asked for"
    )


def judge_arrivals(reading: Reading, outcome: Outcome) -> None:
    admitted = reading.heads[: len(outcome.admitted)]
    for arrived, connections, place in (
        (outcome.to_workspace, outcome.workspace, WORKSPACE),
        (outcome.to_api, outcome.api, API),
    ):
        sent = [
            message
            for message in reading.whole
            if message.head in admitted and place_of(message.head) == place
        ]
        assert len(arrived) <= len(sent), "more arrived than was sent"
        for there, here in zip(arrived, sent, strict=False):
            judge_head(there.head, here.head)
            assert there.content == here.content, "the content differs"
            assert there.trailers == here.trailers, "the trailers differ"
            for name, value in there.trailers:
                assert name.replace(b"_", b"-") not in ENDS_AT_PROXY, "a trailer that ends at the proxy"
                assert not TOKEN.search(value), "a token in a trailer"
        judge_rests(connections, reading)


def judge_rests(connections: list[End], reading: Reading) -> None:
    """What is no whole request is the beginning of the one that
    was not finished, or of one that was answered early.
    """
    for connection in connections:
        assert isinstance(connection, Server)
        rest = connection.data[connection.read_up_to :]
        if connection.has_switched:
            assert reading.tunnelled.startswith(rest), "the tunnel is not what was sent"
        elif rest:
            head = request_head_at(rest, 0)
            assert path_of(head.start[1]) in [path_of(known.start[1]) for known in reading.heads]
            try:
                request_at(rest, 0)
            except Short:
                continue
            raise AssertionError("a whole request that was not read")


def judge_head(there: Head, here: Head) -> None:
    to_workspace = place_of(here) == WORKSPACE
    assert there.start[0] == here.start[0]
    assert path_of(there.start[1]) == path_of(here.start[1])
    assert there.start[2] == b"1.1"
    for name in MADE_ONCE:
        assert len(there.all(name)) == 1, f"not one {name!r}"
    assert there.all(b"host") == (here.all(b"host") or [b"localhost"])
    assert there.all(b"x-forwarded-for") == [b"127.0.0.1"]
    assert there.all(b"x-forwarded-prefix") == ([P] if to_workspace else [])
    switches = asks_to_switch(here)
    assert there.all(b"connection") == ([b"Upgrade"] if switches else [])
    assert [value.lower() for value in there.all(b"upgrade")] == ([b"websocket"] if switches else [])
    assert len(there.all(b"transfer-encoding")) == len(here.all(b"transfer-encoding"))
    made = ENDS_AT_PROXY | {b"x-forwarded-by"}
    nominated = here.options(b"connection")
    kept = [
        (name, value)
        for name, value in here.fields
        if name.replace(b"_", b"-") not in ENDS_AT_PROXY and name not in nominated and not TOKEN.search(value)
    ]
    passed = [(name, value) for name, value in there.fields if name not in made]
    assert [line for line in passed if not TOKEN.search(line[1])] == kept, (
        "headers were lost, or came from nowhere"
    )
    if to_workspace:
        judge_secrets(there)


def judge_secrets(there: Head) -> None:
    assert not there.all(b"authorization")
    assert not any(TOKEN.search(value) for _, value in there.fields)
    assert not TOKEN.search(there.start[1])
    for cookie in there.all(b"cookie"):
        assert not any(pair.strip(b" =").startswith(b"codehub_") for pair in cookie.split(b";"))


def judge_answers(attack: Attack, reading: Reading, outcome: Outcome) -> None:
    data, answered, is_last = outcome.received, 0, False
    while data and data != CONTINUE:  # it may be told to go on, and not go on
        assert not is_last, "bytes after the last answer"
        head = reading.heads[answered] if answered < len(reading.heads) else None
        message = response_at(data, head.start[0] if head else b"GET", is_over=True).message
        is_last = message.head.all(b"connection") == [b"close"]
        if is_last:  # what could not be read is refused with content, whatever its method was
            message = response_at(data, b"GET", is_over=True).message if message.end < len(data) else message
        data = data[message.end :]
        status = message.head.start[1]
        if status == b"101":
            answered += 1
            break
        if status == b"200":
            assert head is not None, "an answer to nothing"
            assert message.head.all(b"x-path") == [path_of(head.start[1])], "the answer to something else"
            answered += 1
        elif head is not None and place_of(head) == NOWHERE:
            answered += 1
        else:
            assert is_last, "a refusal after which the talk goes on"
    if attack.server != EARLY:
        assert answered >= count_plain(attack.asked, reading), "a plain request was not answered"


def count_plain(asked: tuple[Asked, ...], reading: Reading) -> int:
    leading = 0
    for request in asked[: len(reading.whole)]:
        if not request.is_plain:
            break
        leading += 1
    return leading


def place_of(head: Head) -> str:
    target = head.start[1].removeprefix(b"http://hub.test")
    if target.startswith(P + b"/"):
        return WORKSPACE
    return NOWHERE if target.startswith(b"/w/") else API


def judge(attack: Attack, reading: Reading, outcome: Outcome) -> None:
    judge_admissions(reading, outcome)
    judge_arrivals(reading, outcome)
    judge_answers(attack, reading, outcome)
    if not any(request.is_edited for request in attack.asked) and not reading.tunnelled:
        received = b"".join(connection.data for connection in outcome.workspace)
        assert SECRET not in received, "a secret reached the workspace"
        assert FORGED not in received, "a forged sender reached the workspace"


@generated
@given(attack=attacks())
def test_nothing_arrives_but_what_was_read_and_admitted(attack: Attack) -> None:
    note(repr(attack))
    reading = read(attack.raw, switches=attack.server == SWITCHES)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        judge(attack, reading, runner.run(play(attack, reading)))
