"""Attacks on the proxy's request side: hypothesis draws them. Plain
requests, and such as differ from one in a single place.
"""

from dataclasses import dataclass

from hypothesis import strategies as st
from tests.support.edge import PREFIX

SECRET = b"s3cretsecret"
FORGED = b"6.6.6.6"
P = PREFIX.encode()
HOST = b"Host: hub.test"

# Each may be there once; a proxy passes it on, or ends it, and sends the request.
_FIELDS = [
    *(b"X-One: 1", b"x-two: \t spaced \t", b"Accept: a\r\nAccept: b", b"X-Empty:", b"X-Latin: caf\xe9", b"Trailer: X-Sum"),
    *(b"X-Same: a\r\nX-Same: b", b"Expect: 100-continue", b"Sec-WebSocket-Key: k", b"Cookie: a=1; b=2"),
    *(b"Connection: X-One, keep-alive", b"Connection: close", b"Connection: Host, Content-Length, X-Forwarded-For"),
    b"Connection: upgrade\r\nUpgrade: h2c",
    *(b"Keep-Alive: timeout=5", b"TE: trailers", b"Proxy-Connection: keep-alive", b"HTTP2-Settings: AAMA"),
    *(b"X-Forwarded-For: " + FORGED, b"X_Forwarded_For: " + FORGED, b"Forwarded: for=" + FORGED),
    *(b"X-Real-Ip: " + FORGED, b"X-Forwarded-Host: " + FORGED, b"X-Forwarded-Prefix: " + FORGED),
    *(b"X-Request-Id: mine", b"Content_Length: 3", b"Transfer_Encoding: chunked", b"Sec-WebSocket-Extensions: x"),
    *(b"Authorization: Bearer cht_" + SECRET, b"X-Token: cht_" + SECRET, b"Proxy-Authorization: Basic " + SECRET),
    *(b"Cookie: a=1; codehub_session=" + SECRET, b"Cookie: =codehub_session=" + SECRET + b"; b=2"),
]  # fmt: skip
# What is added to a request, or takes the place of one of its lines.
_ODD_LINES = [
    *(b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 0x5"),
    *(b"Content-Length: 5 5", b"Content-Length: 5 ", b"Content-Length:\x0b5", b"Content-Length : 5", b"Content-Length\t: 5"),
    *(b"Content-Length:\r\n 5", b"Content-Length: ", b"Content-Length: 99999999999999999999", b"Content-Length: 05"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked, identity"),
    *(b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: chunked\x0c"),
    *(b"Transfer-Encoding : chunked", b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding: CHUNKED", b"Transfer-Encoding: "),
    *(HOST, b"Host: evil.test", b"Host: hub.test ", b"Host: a, b", b"Host:", b"Host : hub.test", b"host: HUB.test"),
    *(b" X-Led: 1", b"\tX-Led: 1", b"X-Folded: a\r\n b", b"X-Folded: a\r\n\tContent-Length: 5", b"no colon", b": no name", b""),
    *(b"X-Nul: a\0b", b"X-Control: \x01", b"X-Delete: \x7f", b"X-Cr: a\rTransfer-Encoding: chunked", b"X-Cr: a\r"),
    *(b"X-Lf: a\nContent-Length: 5", b"\nX-Lf: a", b"X Space: 1", b"X\xc4: 1", b"X-\x01: 1", b"X[]: 1"),
    *(b"Upgrade: websocket", b"Connection: Upgrade", b"Expect: miracles", b"Expect: 100-continue", b"Expect: 100-continue "),
]  # fmt: skip
_ODD_ENDS = [
    b"\n",
    b"\r",
    b"\r\r\n",
    b"\n\r",
    b"",
    b" \r\n",
    b"\0\r\n",
    b"\r\n ",
    b"\r\n\r\n",
    b"\x0b\r\n",
    b"\r\n\n",
]
_ODD_TRAILERS = [
    *(b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Host: evil.test", b"X_Forwarded_For: " + FORGED),
    *(b"Authorization: Bearer cht_" + SECRET, b"Cookie: codehub_session=" + SECRET, b"X-Sum: cht_" + SECRET),
    *(b"X-Folded: a\r\n b", b" X-Led: 1", b"no colon", b"X-Lf: a\nb", b"X-Nul: \0", b"X-Forwarded-For: " + FORGED),
]  # fmt: skip
_ODD_STARTS = [
    *(b"GET", b"GET  %b HTTP/1.1", b"GET %b HTTP/1.2", b"GET %b HTTP/2.0", b"GET %b", b"get %b HTTP/1.1", b"GET\t%b HTTP/1.1"),
    *(b"GET %b HTTP/1.1 ", b" GET %b HTTP/1.1", b"GET %b\x0bHTTP/1.1", b"CONNECT %b HTTP/1.1", b"GET %b#x HTTP/1.1"),
    *(b"GET %b/../x HTTP/1.1", b"GET http://evil.test%b HTTP/1.1", b"GET http://hub.test%b HTTP/1.1", b"GET %b\0 HTTP/1.1"),
    *(b"GET %b?t=cht_" + SECRET + b" HTTP/1.1", b"PRI %b HTTP/1.1", b"TRACE %b HTTP/1.1", b"GET %b HTTP/1.01", b"\r\nGET %b HTTP/1.1"),
]  # fmt: skip
BLANKS = st.sampled_from([b"", b"", b" ", b"  "])
_BYTES = st.sampled_from([bytes([byte]) for byte in b"\r\n \t\0:;,05aX/\x0b\x7f\xff"])
_SMUGGLED = b"GET " + P + b"/smuggled HTTP/1.1\r\nHost: hub.test\r\n\r\n"
_CONTENT = st.one_of(
    st.sampled_from([b"hello", _SMUGGLED, b"0\r\n\r\n" + _SMUGGLED, b"\r\n", b"x\r\n0\r\n\r\n", b"\0" * 20]),
    st.binary(min_size=1, max_size=20),
)


@dataclass(frozen=True, slots=True)
class Asked:
    raw: bytes
    is_plain: bool
    """Nothing is wrong with it: who sends it gets its answer."""
    is_edited: bool = False
    """A byte of it was changed, so a secret may no longer be where a secret is looked for."""


@dataclass(frozen=True, slots=True)
class Attack:
    asked: tuple[Asked, ...]
    cuts: tuple[int, ...]
    """Where the bytes of all of them are cut: each piece arrives on its own."""
    turns: int
    """How often the event loop turns between two pieces."""
    server: str
    """READS a request and answers, answers EARLY, after its head, or SWITCHES protocols if asked to."""
    gate_is_slow: bool

    @property
    def raw(self) -> bytes:
        return b"".join(request.raw for request in self.asked)


READS, EARLY, SWITCHES = "reads", "early", "switches"


@st.composite
def attacks(draw: st.DrawFn) -> Attack:
    count = draw(st.integers(1, 4))
    asked = tuple(draw(_requests(number)) for number in range(count))
    size = sum(len(request.raw) for request in asked)
    return Attack(
        asked,
        cuts=cuts(draw, size),
        turns=draw(st.sampled_from([1, 8])),
        server=draw(st.sampled_from([READS, READS, SWITCHES, EARLY])),
        gate_is_slow=draw(st.booleans()),
    )


def cuts(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    return tuple(sorted(draw(st.sets(st.integers(1, max(1, size - 1)), max_size=4))))


def pieces(raw: bytes, at: tuple[int, ...]) -> list[bytes]:
    return [raw[start:end] for start, end in zip((0, *at), (*at, len(raw)), strict=True)]


@st.composite
def _requests(draw: st.DrawFn, number: int) -> Asked:
    to_api = draw(st.integers(0, 5)) == 5
    is_1_0 = draw(st.integers(0, 9)) == 9
    odd = draw(st.sampled_from(["", "", "", "", "line", "end", "body", "body", "edit", "start", "cut"]))
    framing = draw(
        st.sampled_from(["chunks", "length"] if odd == "body" else ["none", "none", "length", "chunks"])
    )
    switches = framing == "none" and draw(st.integers(0, 3)) == 3
    target = (b"/api" if to_api else P) + b"/%d" % number
    method = b"GET" if switches else draw(st.sampled_from([b"GET", b"HEAD", b"POST", b"PUT", b"DELETE"]))
    start = method + b" " + target + (b" HTTP/1.0" if is_1_0 else b" HTTP/1.1")
    fields = draw(st.lists(st.sampled_from(_FIELDS), max_size=4, unique_by=_name))
    lines = [start, HOST, *([b"Connection: Upgrade", b"Upgrade: websocket"] if switches else []), *fields]
    body = b""
    if framing == "length":
        body = draw(_CONTENT)
        wrong_by = draw(st.integers(-len(body), 3)) if odd == "body" else 0
        lines.append(b"Content-Length: %d%b" % (len(body) + wrong_by, draw(BLANKS)))
    elif framing == "chunks":
        body = _chunked(draw, is_odd=odd == "body", may_trail=not to_api)
        lines.append(b"Transfer-Encoding: chunked" + draw(BLANKS))
    if odd == "line":
        at = draw(st.integers(1, len(lines)))
        lines[at : at + draw(st.integers(0, 1))] = [draw(st.sampled_from(_ODD_LINES))]
    elif odd == "start":
        lines[0] = draw(st.sampled_from(_ODD_STARTS)).replace(b"%b", target)
    ends = [b"\r\n"] * (len(lines) + 1)
    if odd == "end":
        ends[draw(st.integers(0, len(lines)))] = draw(st.sampled_from(_ODD_ENDS))
    raw = b"".join(line + end for line, end in zip((*lines, b""), ends, strict=True)) + body
    if odd == "edit":
        at = draw(st.integers(0, len(raw) - 1))
        raw = raw[:at] + draw(st.one_of(st.just(b""), _BYTES)) + raw[at + draw(st.integers(0, 1)) :]
    elif odd == "cut":
        raw = raw[: draw(st.integers(1, len(raw)))]
    # A line that runs into the next makes a value of what was a field.
    is_edited = odd in ("edit", "cut") or b"" in ends
    return Asked(raw, is_plain=not odd and not (is_1_0 and framing == "chunks"), is_edited=is_edited)


def _name(line: bytes) -> bytes:
    return line.partition(b":")[0].lower()


def _chunked(draw: st.DrawFn, *, is_odd: bool, may_trail: bool) -> bytes:
    contents = draw(st.lists(_CONTENT, max_size=2))
    parts: list[bytes] = []
    for content in contents:
        parts += (
            b"%x" % len(content),
            draw(st.sampled_from([b"", b";a=b", b' ; a="b"'])) + b"\r\n",
            content,
            b"\r\n",
        )
    trailers = draw(st.lists(st.sampled_from([b"X-Sum: 1", b"X-Other:"]), max_size=2)) if may_trail else []
    parts += (b"0", b"\r\n", *(part for line in trailers for part in (line, b"\r\n")), b"\r\n")
    if is_odd and draw(st.booleans()):
        parts[-1:] = [draw(st.sampled_from(_ODD_TRAILERS)), b"\r\n\r\n"]
    elif is_odd:
        at = draw(st.integers(0, len(parts) - 1))
        parts[at] = draw(st.sampled_from(_odd_parts(parts[at])))
    return b"".join(parts)


def _odd_parts(part: bytes) -> list[bytes]:
    """What may stand where this part of a chunked body was: a size, the end of a line, content or a
    trailer.
    """
    if part.endswith(b"\r\n"):
        return [part[:-2] + end for end in _ODD_ENDS]
    before = [sign + part for sign in (b"+", b"-", b"0x", b" ", b"0", b"0" * 20, b"\r\n")]
    behind = [b" ", b"\t", b";a\n", b";\r", b";\0", b";", b"_0", b",1", b"0", b"\n", b'; a="']
    return [*before, *(part + end for end in behind), part[:-1], b"", b"f" * 16]
