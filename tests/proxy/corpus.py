"""Malformed and ambiguous requests: each with what codehub does
with it. `PASS` are those that any server must take.
"""

from dataclasses import dataclass

from tests.support.edge import PREFIX

REFUSE, PASS = "refuse", "pass"
P = PREFIX.encode()
HOST = b"Host: hub.test\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    raw: bytes
    word: str = REFUSE


def _get(
    lines: bytes = b"", *, target: bytes = P + b"/", method: bytes = b"GET", end: bytes = b"\r\n"
) -> bytes:
    return method + b" " + target + b" HTTP/1.1\r\n" + HOST + lines + end


def _post(lines: bytes, body: bytes) -> bytes:
    return _get(lines, method=b"POST") + body


SMUGGLED = b"GET " + P + b"/smuggled HTTP/1.1\r\nHost: hub.test\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: 5\r\n"

CASES = [
    # Two framings, or one that can be read in two ways.
    Case("length and chunked", _post(LENGTH + CHUNKED, b"0\r\n\r\n" + SMUGGLED)),
    Case("chunked and length", _post(CHUNKED + LENGTH, b"0\r\n\r\n" + SMUGGLED)),
    Case("two lengths that differ", _post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello")),
    Case("two lengths that agree", _post(LENGTH + LENGTH, b"hello")),
    Case("lengths in one line", _post(b"Content-Length: 5, 5\r\n", b"hello")),
    Case("negative length", _post(b"Content-Length: -5\r\n", b"hello")),
    Case("signed length", _post(b"Content-Length: +5\r\n", b"hello")),
    Case("hexadecimal length", _post(b"Content-Length: 0x5\r\n", b"hello")),
    Case("length with a space in it", _post(b"Content-Length: 5 5\r\n", b"hello")),
    Case("length with an underscore", _post(b"Content-Length: 1_0\r\n", b"hello")),
    Case("empty length", _post(b"Content-Length: \r\n", b"hello")),
    Case("length of words", _post(b"Content-Length: five\r\n", b"hello")),
    Case("length beyond all numbers", _post(b"Content-Length: 99999999999999999999999\r\n", b"hello")),
    Case("length with a fraction", _post(b"Content-Length: 5.0\r\n", b"hello")),
    Case("chunked twice", _post(CHUNKED + CHUNKED, b"0\r\n\r\n" + SMUGGLED)),
    Case("chunked, chunked", _post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n")),
    Case("chunked, then identity", _post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n")),
    Case("gzip, chunked", _post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n")),
    Case("identity", _post(b"Transfer-Encoding: identity\r\n", b"")),
    Case("xchunked", _post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n")),
    Case("quoted chunked", _post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n")),
    Case("chunked with a vertical tab", _post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n")),
    Case("chunked with a parameter", _post(b"Transfer-Encoding: chunked;q=1\r\n", b"0\r\n\r\n")),
    Case("empty transfer coding", _post(b"Transfer-Encoding: \r\n" + LENGTH, b"hello")),
    Case(
        "space before the colon of the coding",
        _post(b"Transfer-Encoding : chunked\r\n" + LENGTH, b"0\r\n\r\n"),
    ),
    Case(
        "tab before the colon of the coding",
        _post(b"Transfer-Encoding\t: chunked\r\n" + LENGTH, b"0\r\n\r\n"),
    ),
    Case("folded coding", _post(b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH, b"0\r\n\r\n")),
    Case("chunked from HTTP/1.0", b"POST " + P + b"/ HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n"),
    # Chunks.
    Case("chunk size of words", _post(CHUNKED, b"zz\r\nhello\r\n0\r\n\r\n")),
    Case("negative chunk size", _post(CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n")),
    Case("hexadecimal prefix in a chunk size", _post(CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n")),
    Case("chunk size beyond all numbers", _post(CHUNKED, b"fffffffffffffffffffff\r\nhello\r\n0\r\n\r\n")),
    Case("empty chunk size", _post(CHUNKED, b"\r\nhello\r\n0\r\n\r\n")),
    Case("space before a chunk size", _post(CHUNKED, b" 5\r\nhello\r\n0\r\n\r\n")),
    Case("chunk longer than its size", _post(CHUNKED, b"5\r\nhello world\r\n0\r\n\r\n")),
    Case("chunk without CRLF after it", _post(CHUNKED, b"5\r\nhello0\r\n\r\n")),
    Case("chunk ended by a bare LF", _post(CHUNKED, b"5\r\nhello\n0\r\n\r\n")),
    Case("chunk size ended by a bare LF", _post(CHUNKED, b"5\nhello\r\n0\r\n\r\n")),
    Case("chunk extension that hides a line", _post(CHUNKED, b"5;a\nhello\r\n0\r\n\r\n")),
    Case("chunk extension with a control character", _post(CHUNKED, b"5;a\x01b\r\nhello\r\n0\r\n\r\n")),
    Case("trailer without a colon", _post(CHUNKED, b"0\r\nno trailer\r\n\r\n")),
    Case("trailer that frames", _post(CHUNKED, b"0\r\nContent-Length: 5\r\n\r\n")),
    Case("trailer that signs in", _post(CHUNKED, b"0\r\nAuthorization: Bearer cht_abcdefghijk\r\n\r\n")),
    # Lines.
    Case("bare LF everywhere", b"GET " + P + b"/ HTTP/1.1\nHost: hub.test\n\n"),
    Case("bare LF in a header", _get(b"A: b\nC: d\r\n")),
    Case("bare CR in a header", _get(b"A: b\rC: d\r\n")),
    Case("bare CR ends the request line", b"GET " + P + b"/ HTTP/1.1\rHost: hub.test\r\n\r\n"),
    Case("NUL in a header's value", _get(b"A: b\0c\r\n")),
    Case("NUL in a header's name", _get(b"A\0: b\r\n")),
    Case("control character in a value", _get(b"A: b\x01c\r\n")),
    Case("folded header", _get(b"A: b\r\n c\r\n")),
    Case("folded by a tab", _get(b"A: b\r\n\tc\r\n")),
    Case("header without a colon", _get(b"nothing\r\n")),
    Case("header without a name", _get(b": value\r\n")),
    Case("space in a header's name", _get(b"A b: c\r\n")),
    Case("space before the first header", b"GET " + P + b"/ HTTP/1.1\r\n Host: hub.test\r\n\r\n"),
    Case("space before a colon", b"GET " + P + b"/ HTTP/1.1\r\nHost : hub.test\r\n\r\n"),
    Case("header name in UTF-8", _get("Ä: b\r\n".encode())),
    Case("bracket in a header's name", _get(b"A[]: b\r\n")),
    # Host.
    Case("no Host", b"GET " + P + b"/ HTTP/1.1\r\n\r\n"),
    Case("two Hosts", _get(b"Host: other.test\r\n")),
    Case("the same Host twice", _get(HOST)),
    Case("empty Host", b"GET " + P + b"/ HTTP/1.1\r\nHost: \r\n\r\n"),
    Case("Host with a path", b"GET " + P + b"/ HTTP/1.1\r\nHost: hub.test/evil\r\n\r\n"),
    Case("Host with a user", b"GET " + P + b"/ HTTP/1.1\r\nHost: user@hub.test\r\n\r\n"),
    Case("Host with a space", b"GET " + P + b"/ HTTP/1.1\r\nHost: hub test\r\n\r\n"),
    Case("Host with a comma", b"GET " + P + b"/ HTTP/1.1\r\nHost: hub.test, evil.test\r\n\r\n"),
    Case("Host with a NUL", b"GET " + P + b"/ HTTP/1.1\r\nHost: hub\0.test\r\n\r\n"),
    Case("Host with letters for a port", b"GET " + P + b"/ HTTP/1.1\r\nHost: hub.test:http\r\n\r\n"),
    Case("another Host in the target", b"GET http://evil.test" + P + b"/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    # The request line.
    Case("HTTP/0.9", b"GET " + P + b"/\r\n\r\n"),
    Case("HTTP/2.0", b"GET " + P + b"/ HTTP/2.0\r\n" + HOST + b"\r\n"),
    Case("HTTP/1.2", b"GET " + P + b"/ HTTP/1.2\r\n" + HOST + b"\r\n"),
    Case("HTTP/1.10", b"GET " + P + b"/ HTTP/1.10\r\n" + HOST + b"\r\n"),
    Case("http in small letters", b"GET " + P + b"/ http/1.1\r\n" + HOST + b"\r\n"),
    Case("no version's number", b"GET " + P + b"/ HTTP/\r\n" + HOST + b"\r\n"),
    Case("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Case("method in small letters", _get(method=b"get")),
    Case("unknown method", _get(method=b"STEAL")),
    Case("method with a control character", _get(method=b"GE\x01T")),
    Case("CONNECT", b"CONNECT hub.test:443 HTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("TRACE", _get(method=b"TRACE")),
    Case("a star", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("target without a slash", _get(target=b"w/x")),
    Case("two spaces before the target", _get(target=b" " + P + b"/")),
    Case("space in the target", _get(target=P + b"/a b")),
    Case("tab in the target", _get(target=P + b"/a\tb")),
    Case("NUL in the target", _get(target=P + b"/a\0b")),
    Case("escaped NUL in the target", _get(target=P + b"/a%00b")),
    Case("half an escape", _get(target=P + b"/a%2")),
    Case("an escape of no number", _get(target=P + b"/a%zzb")),
    Case("control character in the target", _get(target=P + b"/a\x7fb")),
    Case("target in UTF-8", _get(target=P + "/ä".encode())),
    Case("out of the root", _get(target=P + b"/../../../../etc/passwd")),
    Case("out of the workspace", _get(target=P + b"/../other/")),
    Case("out of the root, escaped", _get(target=P + b"/%2e%2e/%2e%2e/%2e%2e/%2e%2e/x")),
    Case("out of the root, its slash escaped", _get(target=P + b"/..%2f..%2f..%2f..%2f..%2fx")),
    Case("fragment in the target", _get(target=P + b"/a#b")),
    Case("another scheme", b"GET ftp://hub.test/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("a head that never ends", _get(b"A: " + b"b" * 70_000 + b"\r\n")),
    Case("a target that never ends", _get(target=P + b"/" + b"a" * 70_000)),
    Case(
        "a thousand headers",
        _get(b"".join(b"A%d: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n" % n for n in range(1000))),
    ),
    Case("an expectation nobody knows", _get(b"Expect: miracles\r\n")),
    Case("a bare CR before", b"\r" + _get()),
    Case("a bare LF before", b"\n" + _get()),
    Case("a bare CR among empty lines", b"\r\n\r\r\n" + _get()),
    Case("only garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    # What any server must take.
    Case("plain", _get(), PASS),
    Case("its own host in the target", b"GET http://hub.test" + P + b"/ HTTP/1.1\r\n" + HOST + b"\r\n", PASS),
    Case("empty lines before", b"\r\n\r\n" + _get(), PASS),
    Case("an empty value", _get(b"A:\r\n"), PASS),
    Case("a value of Latin-1", _get(b"A: caf\xe9\r\n"), PASS),
    Case("Host with a port", b"GET " + P + b"/ HTTP/1.1\r\nHost: hub.test:8000\r\n\r\n", PASS),
    Case("Host of IPv6", b"GET " + P + b"/ HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n", PASS),
    Case("escapes", _get(target=P + b"/a%20b%2Ec?%zz=1"), PASS),
    Case("HTTP/1.0 without Host", b"GET " + P + b"/ HTTP/1.0\r\n\r\n", PASS),
    Case("a body", _post(LENGTH, b"hello"), PASS),
    Case("a length with zeros before it", _post(b"Content-Length: 0005\r\n", b"hello"), PASS),
    Case("chunks", _post(CHUNKED, b"5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), PASS),
    Case("Chunked", _post(b"Transfer-Encoding: Chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"), PASS),
    Case("a body of a GET", _get(LENGTH) + b"hello", PASS),
    Case(
        "an upgrade to h2c",
        _get(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"),
        PASS,
    ),
]
