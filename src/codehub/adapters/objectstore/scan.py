"""A tar stream goes in piece by piece; nothing comes out but a refusal: of what leads outside, of what we
would never write.

It reads headers and skips what files hold. It takes exactly what `tar --format=posix` writes of a home, so
that there is nothing that it and GNU tar could read differently. A symlink leads nowhere while files are
written, since no member may lie below one.
"""

from collections.abc import Collection
from zlib import adler32

from codehub.adapters.objectstore.attributes import (
    ACCESS,
    CAPABILITY,
    DEFAULT,
    OF_USERS,
    RefusedAttribute,
    attributes_of,
)
from codehub.adapters.objectstore.names import leads_outside, normalise, parents
from codehub.core.messages import Code, Message
from codehub.ports.archives import Attribute

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_MAGIC = b"ustar\x0000"
_CHECKSUM = slice(148, 156)
_EXTENDED_BYTES_MAX = 16 << 20
_PATH_BYTES_MAX = 4095

_FILE, _HARD_LINK, _SYMLINK, _DIRECTORY, _EXTENDED = b"0", b"1", b"2", b"5", b"x"
_MAJOR, _MINOR, _SPARSE_NAME = b"GNU.sparse.major", b"GNU.sparse.minor", b"GNU.sparse.name"
_SPARSE = frozenset({_MAJOR, _MINOR, _SPARSE_NAME, b"GNU.sparse.realsize"})
_ALLOWED = _SPARSE | {b"path", b"linkpath", b"mtime", b"uid", b"gid", b"uname", b"gname", b"size"}
_ATTRIBUTES = frozenset({ACCESS, DEFAULT, CAPABILITY})
_PRINTED_BYTES = 200
_UNSUPPORTED = {Attribute.ACL: Code.ACL_UNKEPT, Attribute.CAPABILITY: Code.CAPABILITY_UNGIVEN}


class RefusedStream(Exception):
    """The stream is no tar stream of ours, or would write outside. It says why: by a code where a person can
    mend that, else in the words of tar's format.
    """

    def __init__(self, problem: str | Message) -> None:
        super().__init__(problem)
        self.message = (
            problem if isinstance(problem, Message) else Message(Code.STREAM_REFUSED, {"text": problem})
        )


class UnsupportedAttribute(RefusedStream):
    """The stream is good, and a file in it has what can't be given to it here. It says which."""


class TarScan:
    """Feed it every byte, then `finish`. `members` and `outward` count what has passed."""

    def __init__(
        self,
        *,
        members_max: int | None = None,
        outward_max: int | None = None,
        refused: Collection[Attribute] = (),
    ) -> None:
        self.members = 0
        self.outward = 0
        self._members_max = members_max
        self._outward_max = outward_max
        self._refused = refused
        self._unparsed = b""
        self._skip = 0
        self._extended_size: int | None = None
        self._extended: dict[bytes, bytes] | None = None
        self._zeros: int | None = None
        self._symlinks: set[bytes] = set()
        self._clear_parent = b""

    def feed(self, chunk: bytes | memoryview) -> None:
        if self._zeros is not None:
            self._expect_zeros(chunk)
            return
        if self._skip >= len(chunk):
            self._skip -= len(chunk)
            return
        if self._unparsed:
            chunk, self._unparsed = self._unparsed + bytes(chunk), b""
        position, self._skip = self._skip, 0
        end = len(chunk)
        while True:
            needed = _BLOCK if self._extended_size is None else _pad(self._extended_size)
            if end - position < needed:
                self._unparsed = bytes(chunk[position:])
                return
            part = bytes(chunk[position : position + needed])
            position += needed
            if self._extended_size is not None:
                self._extended = _records(part[: self._extended_size])
                self._extended_size = None
                continue
            if part == _ZEROS:
                if self._extended is not None:
                    raise RefusedStream("an extended header describes nothing")
                self._zeros = _BLOCK
                self._expect_zeros(chunk[position:])
                return
            position += self._header(part)
            if position > end:
                self._skip = position - end
                return

    def finish(self) -> None:
        if self._zeros is None or self._zeros < 2 * _BLOCK or self._zeros % _BLOCK:
            raise RefusedStream("the tar stream ends early")

    def _expect_zeros(self, chunk: bytes | memoryview) -> None:
        assert self._zeros is not None
        if bytes(chunk).count(0) != len(chunk):
            raise RefusedStream("something follows the end of the tar stream")
        self._zeros += len(chunk)

    def _header(self, header: bytes) -> int:
        """Judge one member, and return how many bytes it holds, padding included."""
        if header[257:265] != _MAGIC:
            raise RefusedStream("a header is not of the posix format")
        if _sum(header) - sum(header[_CHECKSUM]) + 8 * 0x20 != _octal(header[_CHECKSUM]):
            raise RefusedStream("a header's checksum is wrong")
        kind, size = header[156:157], _octal(header[124:136])
        if kind == _EXTENDED:
            if self._extended is not None:
                raise RefusedStream("an extended header describes an extended header")
            if not 0 < size <= _EXTENDED_BYTES_MAX:
                raise RefusedStream("an extended header is too long")
            self._extended_size = size
            return 0
        extended, self._extended = self._extended or {}, None
        if (size_text := extended.get(b"size")) is not None:
            if not size_text.isdigit():
                raise RefusedStream("a size is no number")
            size = int(size_text)
        self._member(kind, header, size, extended)
        return _pad(size)

    def _member(self, kind: bytes, header: bytes, size: int, extended: dict[bytes, bytes]) -> None:
        path = self._path(kind, header, extended)
        if not path and kind != _DIRECTORY:
            raise RefusedStream("the home itself is not a directory")
        if kind == _SYMLINK:
            self._symlink(path, extended.get(b"linkpath", _text(header[157:257])))
        elif kind == _HARD_LINK:
            self._hard_link(path, extended.get(b"linkpath", _text(header[157:257])))
        elif kind not in (_FILE, _DIRECTORY):
            raise RefusedStream(f"a member is neither file, directory nor link, but of type {kind!r}")
        if kind != _FILE and size:
            raise RefusedStream("what is no file holds bytes")
        self._attributes(path, kind, extended)
        if path:
            self.members += 1
            if self._members_max is not None and self.members > self._members_max:
                raise RefusedStream("it holds more files than its .meta says")

    def _attributes(self, path: bytes, kind: bytes, extended: dict[bytes, bytes]) -> None:
        try:
            attributes = list(attributes_of(extended, is_file=kind == _FILE, is_directory=kind == _DIRECTORY))
        except RefusedAttribute as error:
            raise RefusedStream(Message(error.code, {"path": _printable(path)})) from None
        for attribute in attributes:
            if attribute in self._refused:
                raise UnsupportedAttribute(Message(_UNSUPPORTED[attribute], {"path": _printable(path)}))

    def _path(self, kind: bytes, header: bytes, extended: dict[bytes, bytes]) -> bytes:
        pax_path = extended.get(b"path")
        path = self._place(_name(header) if pax_path is None else pax_path)
        sparse = {key: extended[key] for key in _SPARSE if key in extended}
        if not sparse:
            return path
        # A sparse file goes by a name of its own; that which stands for it is checked all the same.
        if kind != _FILE or sparse.keys() != _SPARSE or (sparse[_MAJOR], sparse[_MINOR]) != (b"1", b"0"):
            raise RefusedStream("a sparse file is described in a way that we do not write")
        return self._place(sparse[_SPARSE_NAME])

    def _place(self, name: bytes, *, may_be_symlink: bool = False) -> bytes:
        """Return where in the home a name leads, and refuse one that leads outside or through a symlink."""
        if len(name) > _PATH_BYTES_MAX:
            facts = {"length": len(name), "max": _PATH_BYTES_MAX, "path": _printable(name)}
            raise RefusedStream(Message(Code.PATH_TOO_LONG, facts))
        path = normalise(name)
        if path is None:
            raise RefusedStream(f"a path leads outside: {name[:200]!r}")
        if self._symlinks:
            parent = path.rpartition(b"/")[0]
            is_below_symlink = parent != self._clear_parent and not self._symlinks.isdisjoint(parents(path))
            if is_below_symlink or (path in self._symlinks and not may_be_symlink):
                raise RefusedStream(f"a path leads through a symlink: {name[:200]!r}")
            self._clear_parent = parent
        return path

    def _symlink(self, path: bytes, target: bytes) -> None:
        if not target or b"\0" in target:
            raise RefusedStream("a symlink leads nowhere")
        if leads_outside(path, target):
            self.outward += 1
            if self._outward_max is not None and self.outward > self._outward_max:
                raise RefusedStream(f"a symlink leads outside: {path[:200]!r} -> {target[:200]!r}")
        self._add_symlink(path)

    def _hard_link(self, path: bytes, name: bytes) -> None:
        target = self._place(name, may_be_symlink=True)
        if not target:
            raise RefusedStream("a hard link leads to the home itself")
        if target in self._symlinks:
            self._add_symlink(path)

    def _add_symlink(self, path: bytes) -> None:
        self._symlinks.add(path)
        self._clear_parent = b""


def _pad(size: int) -> int:
    return (size + _BLOCK - 1) // _BLOCK * _BLOCK


def _sum(header: bytes) -> int:
    """Return the sum of all bytes.

    Adler's first half is that and one more, modulo 65,521, which 256 bytes do not reach.
    """
    return (adler32(header[:256]) & 0xFFFF) + (adler32(header[256:]) & 0xFFFF) - 2


def _printable(path: bytes) -> str:
    """Return a path for people. Of a long one both ends: the last name is the one that they look for."""
    if len(path) > 2 * _PRINTED_BYTES:
        path = path[:_PRINTED_BYTES] + b" ... " + path[-_PRINTED_BYTES:]
    return repr(path.decode(errors="backslashreplace"))


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _name(header: bytes) -> bytes:
    name, prefix = _text(header[:100]), _text(header[345:500])
    return prefix + b"/" + name if prefix else name


def _octal(field: bytes) -> int:
    digits = field.rstrip(b" \0").lstrip(b" ")
    if not digits or digits.strip(b"01234567"):
        raise RefusedStream("a number in a header is not octal")
    return int(digits, 8)


def _records(body: bytes) -> dict[bytes, bytes]:
    """Read an extended header's records, each `length key=value\\n`.

    Refuses a key that `tar` does not write of a home.
    """
    records: dict[bytes, bytes] = {}
    position = 0
    while position < len(body):
        space = body.find(b" ", position, position + 20)
        if space < 0 or not (digits := body[position:space]).isdigit():
            raise RefusedStream("an extended header is malformed")
        end = position + int(digits)
        equals = body.find(b"=", space + 1, end)
        if end > len(body) or equals < 0 or body[end - 1 : end] != b"\n":
            raise RefusedStream("an extended header is malformed")
        key, value = body[space + 1 : equals], body[equals + 1 : end - 1]
        if key in records:
            raise RefusedStream("an extended header says something twice")
        if key in _ALLOWED:
            if b"\0" in value:
                raise RefusedStream("a name holds a zero byte")
            records[key] = value
        elif key in _ATTRIBUTES:
            records[key] = value
        elif not key.startswith(OF_USERS):
            raise RefusedStream(f"an extended header says something that we do not write: {key[:100]!r}")
        position = end
    return records
