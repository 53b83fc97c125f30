"""A plain head is read line by line, any other by HTTP's own parser: both read the same in it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.proxy.stage import generated

from codehub.core.origins import WorkspaceOrigins
from codehub.proxy.engine.block_cache import BlockCache, Recent
from codehub.proxy.engine.header_block import HeaderBlock, read_whole
from codehub.proxy.engine.heads import Refused
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.rules import ENDS_HERE
from codehub.proxy.policy.header_rules import header_rules

FIRST_LINE = b"GET / HTTP/1.1\r\n"
RULES = header_rules(secure=False)
NOTED = sorted(name for name, ends_here in RULES.kinds.items() if not ends_here)
NAMES = st.sampled_from(
    [*sorted(ENDS_HERE), *NOTED, b"x-other", b"X_Forwarded_For", b"my_header", b"x y", b"", b"\xe9"]
)
TEXTS = st.sampled_from(
    [
        *(b"1", b"0", b"12", b"-1", b"1,1", b"a", b"a b", b"", b" ", b"\t", b"\x00", b"\r", b"\n", b"\xff", b":"),
        *(b";", b"; ", b"keep-alive", b"close", b"x-other", b"upgrade", b"websocket", b"chunked", b"gzip"),
        *(b"100-continue", b"hub.test", b"codehub_session=s", b"__Host-codehub_session=t", b"Codehub_Device=d"),
        *(b"a=b", b"Basic x", b"=codehub_session=u", b"cht_abcdefghijk", b"Bearer cht_abcdefghijk", b"en;q=0.5"),
    ]
)  # fmt: skip
VALUES = st.lists(TEXTS, max_size=3).map(b"".join)
CASES = st.sampled_from([bytes.lower, bytes.upper, bytes.title])
LINES = st.builds(
    lambda name, case, blank, value: case(name) + b":" + blank + value + b"\r\n",
    NAMES,
    CASES,
    st.sampled_from([b" ", b" ", b" ", b"", b"\t", b"  "]),
    VALUES,
)
PLAIN = [
    b"Host: hub.test\r\n",
    b"Cookie: a=b; codehub_session=s\r\n",
    b"Accept: text/html\r\n",
    b"X-Other: 1\r\n",
]
HEADS = st.tuples(st.permutations(PLAIN), st.lists(LINES, max_size=3)).map(
    lambda parts: FIRST_LINE + b"".join((*parts[0], *parts[1])) + b"\r\n"
)


def shape(block: HeaderBlock) -> object:
    noted = {name: block.noted(name, RULES) for name in NOTED}
    ended = {name: value for name, value in block.fields.items() if name in ENDS_HERE}
    return (
        (block.host, block.length, block.chunked, block.keeps_alive, block.upgrade, block.request_id),
        (block.identity, block.to_trusted, block.to_untrusted, noted, ended),
    )


def outcome(read: Callable[[], HeaderBlock]) -> object:
    try:
        block = read()
    except Refused as refused:
        return refused.status, str(refused)
    return shape(block)


@generated
@given(HEADS)
def test_a_head_says_the_same_whoever_reads_it(raw: bytes) -> None:
    if raw.find(b"\r\n\r\n") + 4 != len(raw):  # it would end before
        return
    cache = BlockCache(RULES)
    by_line = outcome(lambda: cache.read(raw, len(FIRST_LINE), is_known_method=True))
    assert by_line == outcome(lambda: read_whole(raw, RULES, is_http_1_0=False)[0])
    for _ in range(3):  # from what was kept of its lines, then of all of it
        assert outcome(lambda: cache.read(raw, len(FIRST_LINE), is_known_method=True)) == by_line


AT_WORKSPACES = header_rules(secure=False, origins=WorkspaceOrigins("http", "test", None))
ASKED_BY = st.builds(
    lambda host, lines: FIRST_LINE + b"Host: " + host + b"\r\n" + b"".join(lines) + b"\r\n",
    st.sampled_from([b"0123456789abcdef0123.test", b"x.test", b"hub.example"]),
    st.lists(
        st.sampled_from(
            [
                *(b"Cookie: a=b; __Host-codehub_door=d\r\n", b"Cookie: __Host-codehub_door=d; codehub_session=s\r\n"),
                *(b"Cookie: codehub_session=s; codehub_session=t\r\n", b"Authorization: Basic x\r\n"),
                *(b"Authorization: Bearer cht_abcdefghijk\r\n", b"X-Codehub-Token: cht_abcdefghijk\r\n"),
                *(b"x-codehub-token: t\r\n", b"X_Codehub_Token: cht_abcdefghijk\r\n", b"X-Other: 1\r\n"),
            ]
        ),
        max_size=3,
    ),
)  # fmt: skip


def _read_at_workspaces(raw: bytes) -> HeaderBlock:
    block, _, _ = read_whole(raw, AT_WORKSPACES, is_http_1_0=False)
    assert b"cht_" not in block.to_untrusted
    assert b"codehub" not in block.to_untrusted.lower()
    return block


@generated
@given(st.lists(ASKED_BY, min_size=2, max_size=6))
def test_who_asks_is_said_by_the_host_of_each_head_whatever_was_read_before(raws: list[bytes]) -> None:
    cache = BlockCache(AT_WORKSPACES)
    for raw in raws * 3:
        by_line = outcome(partial(cache.read, raw, len(FIRST_LINE), is_known_method=True))
        assert by_line == outcome(partial(_read_at_workspaces, raw))


FIRST_LINES = st.sampled_from(
    [
        FIRST_LINE,
        b"GET /a HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\n",
        b"GET / HTTP/1.0\r\n",
        b"TRACE / HTTP/1.1\r\n",
    ]
)


@generated
@given(st.lists(st.tuples(FIRST_LINES, HEADS), min_size=2, max_size=4))
def test_a_head_says_the_same_whatever_came_before_it_on_its_connection(
    parts: list[tuple[bytes, bytes]],
) -> None:
    connection = RequestHead(BlockCache(RULES))
    for first_line, head in parts:
        raw = first_line + head.removeprefix(FIRST_LINE)
        if raw.find(b"\r\n\r\n") + 4 != len(raw):  # it would end before
            continue
        alone = RequestHead(BlockCache(RULES))
        assert head_outcome(connection, raw) == head_outcome(alone, raw)


def head_outcome(head: RequestHead, raw: bytes) -> object:
    try:
        head.read(raw)
    except Refused as refused:
        return refused.status, str(refused)
    return head.method, head.target, head.route, head.upgrade, type(head.body), shape(head.block)


@pytest.mark.parametrize("line", PLAIN)
def test_a_plain_head_is_read_without_the_parser(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr("codehub.proxy.engine.block_cache.read_whole", None)
    raw = FIRST_LINE + b"Host: hub.test\r\n" + (line if not line.startswith(b"Host") else b"") + b"\r\n"
    assert BlockCache(RULES).read(raw, len(FIRST_LINE), is_known_method=True).host == b"hub.test"


def test_what_was_read_lately_is_bounded_and_nothing_that_came_once_is_kept() -> None:
    cache = BlockCache(RULES)
    kept: tuple[Recent[Any], ...] = (cache._blocks, cache._shown, cache._lines, cache._proxy_fields)
    for times in (1, 2):
        for number in range(5_000):
            lines = b"Host: hub.test\r\nCookie: a=%d\r\nX-Other: %d\r\n\r\n" % (number, number)
            for _ in range(times):
                cache.read(FIRST_LINE + lines, len(FIRST_LINE), is_known_method=True)
        for recent, count_max in zip(kept, (512, 512, 2_048, 512), strict=True):
            assert len(recent.known) <= (1 if times == 1 else count_max)
            assert len(recent._once) <= count_max
