"""Talks in which a server answers plainly, or subtly wrong: hypothesis draws them."""

from dataclasses import dataclass

from hypothesis import strategies as st
from tests.proxy.attacks import BLANKS, cuts
from tests.proxy.strict import Short, Wrong, response_at

STAYS, ENDS, RESETS = "stays", "ends", "resets"
_EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
_INTERIM = [
    *(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    *(
        b"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 199 \r\nConnection: X\r\nX: 1\r\n\r\n",
    ),
]
_FIELDS = [
    *(b"X-One: 1", b"x-two: \t spaced \t", b"X-Empty:", b"X-Latin: caf\xe9", b"X-Same: a\r\nX-Same: b", b"Set-Cookie: a=1; Path=/"),
    *(b"Connection: X-One", b"Connection: close", b"Connection: keep-alive", b"Keep-Alive: timeout=5", b"Upgrade: h2c"),
    *(b"Proxy-Authenticate: Basic", b"TE: trailers", b"Set-Cookie: codehub_session=evil", b"X-Request-Id: evil"),
    *(b"Clear-Site-Data: *", b"Trailer: X-Sum", b"Connection: Content-Length, Set-Cookie"),
]  # fmt: skip
_ODD_LINES = [
    *(b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 0x5"),
    *(b"Content-Length: 5 ", b"Content-Length : 5", b"Content-Length:\r\n 5", b"Content-Length:", b"Content-Length: -1"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"Transfer-Encoding: identity", b"Transfer-Encoding:\x0bchunked"),
    *(b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: gzip, chunked"),
    *(b" X-Led: 1", b"X-Folded: a\r\n b", b"no colon", b": no name", b"X-Nul: \0", b"X-Cr: a\rb", b"X-Lf: a\nContent-Length: 5"),
    *(b"", b"Upgrade: websocket\r\nConnection: Upgrade", b"X Space: 1", b"X-Delete: \x7f"),
]  # fmt: skip
_ODD_STARTS = [
    *(b"HTTP/1.1 101 Switching Protocols", b"HTTP/1.1 100 Continue", b"HTTP/1.1 20", b"HTTP/1.1 2000 OK", b"HTTP/2.0 200 OK"),
    *(b"HTTP/1.1  200 OK", b"HTTP/1.1 200", b" HTTP/1.1 200 OK", b"http/1.1 200 OK", b"HTTP/1.1 200 O\0K", b"HTTP/0.9 200 OK"),
    *(b"ICY 200 OK", b"\r\nHTTP/1.1 200 OK", b"HTTP/1.1 099 No", b"HTTP/1.1 200 OK\r", b"HTTP/1.1\t200 OK", b"HTTP/1.10 200 OK"),
]  # fmt: skip
_ODD_ENDS = [b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b" \r\n", b"\r\n ", b"\r\n\r\n", b"\r\n\n"]
_ODD_SIZES = [
    b"+5",
    b"0x5",
    b"5 ",
    b" 5",
    b"-5",
    b"",
    b"fffffffffffffffff",
    b"5;a\n",
    b"5\n",
    b"5;\r",
    b"g",
    b"6",
    b"4",
]
_ODD_TRAILERS = [
    b"Content-Length: 5\r\n",
    b"Set-Cookie: codehub_session=evil\r\n",
    b"no colon\r\n",
    b"X-A: b\r\n c\r\n",
    b"X: \n",
]
_CONTENT = st.one_of(
    st.sampled_from([b"hello", _EVIL, b"0\r\n\r\n" + _EVIL, b"\r\n", b"0\r\n\r\n"]),
    st.binary(min_size=1, max_size=20),
)
_EDITS = st.sampled_from([b"", *(bytes([byte]) for byte in b"\r\n \t\0:;,05aX")])


@dataclass(frozen=True, slots=True)
class Exchange:
    method: bytes
    version: bytes
    reply: bytes
    cuts: tuple[int, ...]
    then: str
    """What the server does after its reply: it STAYS, ENDS the connection or RESETS it."""
    is_plain: bool
    """Nothing is wrong with the reply: the client gets it."""
    by_another: bool
    """Another client asks than the one before."""


@dataclass(frozen=True, slots=True)
class Conversation:
    exchanges: tuple[Exchange, ...]
    is_pipelined: bool
    """One client asks for everything at once."""


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    is_pipelined = draw(st.integers(0, 3)) == 3
    exchanges = draw(st.lists(_exchanges(may_be_late=not is_pipelined), min_size=1, max_size=4))
    return Conversation(tuple(exchanges), is_pipelined)


@st.composite
def _exchanges(draw: st.DrawFn, *, may_be_late: bool) -> Exchange:
    method = draw(st.sampled_from([b"GET", b"GET", b"HEAD", b"POST"]))
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.1", b"1.0"]))
    odd = draw(
        st.sampled_from(["", "", "", "", "line", "end", "body", "edit", "start", "cut", "more", "reset"])
    )
    reply = b"".join(draw(st.lists(st.sampled_from(_INTERIM), max_size=2))) + _reply(draw, method, odd)
    then = draw(st.sampled_from([STAYS, STAYS, ENDS]))
    try:
        end = response_at(reply, method, is_over=False).message.end
    except (Short, Wrong):
        end, then = len(reply), ENDS
    if odd == "reset":
        then = RESETS
    # What nobody asked for comes at once with the last byte of the reply, or before anybody asks again.
    at = tuple(cut for cut in cuts(draw, len(reply)) if may_be_late or cut < end)
    if odd == "more" and may_be_late and end < len(reply):
        at = (end,)
    return Exchange(method, version, reply, at, then, is_plain=not odd, by_another=draw(st.booleans()))


def _reply(draw: st.DrawFn, method: bytes, odd: str) -> bytes:
    status = draw(st.sampled_from([b"200 OK", b"200 OK", b"404 ", b"204 No Content", b"304 Not Modified"]))
    has_content = method != b"HEAD" and status[:3] not in (b"204", b"304")
    framing = draw(st.sampled_from(["length", "chunks", "close"]))
    is_1_0 = (framing != "chunks" or odd == "body") and draw(st.integers(0, 5)) == 5
    lines = [(b"HTTP/1.0 " if is_1_0 else b"HTTP/1.1 ") + status]
    lines += draw(
        st.lists(st.sampled_from(_FIELDS), max_size=3, unique_by=lambda line: line.partition(b":")[0])
    )
    body = draw(_CONTENT)
    if framing == "length":
        wrong_by = draw(st.integers(-2, 2)) if odd == "body" else 0
        lines.append(b"Content-Length: %d%b" % (max(0, len(body) + wrong_by), draw(BLANKS)))
    elif framing == "chunks":
        lines.append(b"Transfer-Encoding: chunked" + draw(BLANKS))
        body = _chunked(draw, body, is_odd=odd == "body")
    if odd == "line":
        lines.insert(draw(st.integers(1, len(lines))), draw(st.sampled_from(_ODD_LINES)))
    elif odd == "start":
        lines[0] = draw(st.sampled_from(_ODD_STARTS))
    ends = [b"\r\n"] * (len(lines) + 1)
    if odd == "end":
        ends[draw(st.integers(0, len(lines)))] = draw(st.sampled_from(_ODD_ENDS))
    raw = b"".join(line + end for line, end in zip((*lines, b""), ends, strict=True))
    raw += body if has_content or odd == "body" else b""
    if odd == "edit":
        at = draw(st.integers(0, len(raw) - 1))
        raw = raw[:at] + draw(_EDITS) + raw[at + draw(st.integers(0, 1)) :]
    elif odd == "cut":
        raw = raw[: draw(st.integers(0, len(raw) - 1))]
    elif odd == "more":
        raw += draw(st.sampled_from([_EVIL, b"\r\n", b"x", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    return raw


def _chunked(draw: st.DrawFn, content: bytes, *, is_odd: bool) -> bytes:
    parts = [
        b"%x" % len(content),
        draw(st.sampled_from([b"", b";a=b"])),
        b"\r\n",
        content,
        b"\r\n",
        b"0",
        b"\r\n",
    ]
    parts += [draw(st.sampled_from([b"", b"X-Sum: 1\r\n"])), b"\r\n"]
    if is_odd:
        at = draw(st.sampled_from([0, 2, 4, 5, 6, 7, 8]))
        odd = {0: _ODD_SIZES, 5: [*_ODD_SIZES, b"00"], 7: _ODD_TRAILERS}.get(at, _ODD_ENDS)
        parts[at] = draw(st.sampled_from(odd))
    return b"".join(parts)
