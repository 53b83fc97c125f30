"""A program that connects to a port of its own loopback, for whoever can
run one there and give it an input and an output: that becomes a stream.

Such an output can't end before its program does (containerd ends the input with
it), so both ways go in parts of a length and so many bytes; a part of none ends one way.
"""

import shlex
import struct
from collections.abc import Awaitable, Callable

from codehub.adapters.byte_streams import PART_BYTES

CONNECTED, REFUSED = b"+", b"-"
"""What the program says first."""

_LENGTH = struct.Struct(">L")
# The end of the input ends all of it.
PERL = r"""
use Socket; my $port = shift; my $s;
for ([AF_INET, pack_sockaddr_in($port, inet_aton("127.0.0.1"))],
     [AF_INET6, Socket::pack_sockaddr_in6($port, "\0" x 15 . "\1")]) {
    socket($s, $_->[0], SOCK_STREAM, 0) && connect($s, $_->[1]) && last; undef $s;
}
$SIG{PIPE} = "IGNORE"; binmode STDIN; binmode STDOUT;
sub put { my ($to, $data) = @_; my $at = 0;
    while ($at < length $data) {
        my $n = syswrite($to, $data, length($data) - $at, $at); return 0 unless $n; $at += $n } 1 }
put(*STDOUT, $s ? "+" : "-"); exit unless $s;
my $child = fork;
if (!$child) {
    close STDIN; my $data;
    while (sysread($s, $data, 32768)) { put(*STDOUT, pack("N", length $data) . $data) || exit }
    put(*STDOUT, pack("N", 0)); exit;
}
my ($head, $data); my $open = 1;
while (read(STDIN, $head, 4) == 4) {
    my $size = unpack("N", $head);
    if (!$size) { shutdown($s, 1); $open = 0; next }
    last unless read(STDIN, $data, $size) == $size;
    $open &&= put($s, $data);
}
kill "KILL", $child; waitpid($child, 0);
"""
PYTHON = r"""
import os, socket, struct, sys, threading

def connect(port):
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            connection = socket.socket(family)
            connection.connect((host, port))
            return connection
        except OSError:
            continue

def put(data):
    while data:
        data = data[os.write(1, data):]

def give(connection):
    try:
        while data := connection.recv(32768):
            put(struct.pack(">L", len(data)) + data)
    except OSError:
        pass
    put(struct.pack(">L", 0))

connection = connect(int(sys.argv[1]))
put(b"+" if connection else b"-")
if connection:
    threading.Thread(target=give, args=[connection], daemon=True).start()
    while len(head := sys.stdin.buffer.read(4)) == 4:
        data = sys.stdin.buffer.read(struct.unpack(">L", head)[0])
        try:
            connection.sendall(data) if data else connection.shutdown(socket.SHUT_WR)
        except OSError:
            continue
"""


def relay_script(port: int) -> str:
    """Return what a shell of any image does: by perl, which every Debian has, or Python, which every Jupyter
    has. It ends without a word where there is neither.
    """
    programs = (("perl", "-e", PERL), ("python3", "-I", "-S", "-c", PYTHON))
    return "\n".join(
        f"command -v {argv[0]} >/dev/null && exec {shlex.join(argv)} {port}" for argv in programs
    )


class RelayStream:
    """A ByteStream over the program's output and input. `receive` returns
    some of the output, b"" at its end; `send` raises BrokenPipeError at the end of the input.
    """

    def __init__(
        self, receive: Callable[[], Awaitable[bytes]], send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self._receive = receive
        self._send = send
        self._unread = b""
        self._part_bytes = 0
        self._has_ended = False
        self._is_closed = False

    async def first_byte(self) -> bytes:
        """Return what the program says first, b"" if it says nothing."""
        if not self._unread:
            self._unread = await self._receive()
        first, self._unread = self._unread[:1], self._unread[1:]
        return first

    async def read(self) -> bytes:
        while not self._has_ended:
            if not self._part_bytes and len(self._unread) >= _LENGTH.size:
                (self._part_bytes,) = _LENGTH.unpack_from(self._unread)
                self._unread = self._unread[_LENGTH.size :]
                self._has_ended = not self._part_bytes
            elif self._part_bytes and self._unread:
                data, self._unread = self._unread[: self._part_bytes], self._unread[self._part_bytes :]
                self._part_bytes -= len(data)
                return data
            elif data := await self._receive():
                self._unread += data
            else:
                self._has_ended = True
        return b""

    async def write(self, data: bytes) -> None:
        if self._is_closed:
            raise BrokenPipeError
        for at in range(0, len(data), PART_BYTES):
            part = data[at : at + PART_BYTES]
            await self._send(_LENGTH.pack(len(part)) + part)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            try:
                await self._send(_LENGTH.pack(0))
            except BrokenPipeError:
                return  # it has ended, and knows no more than that
