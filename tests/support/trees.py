"""Directory trees for tests: hypothesis makes them, and a picture
of everything that a restore must keep is compared.
"""

# Names are bytes here, which Path does not take.
# ruff: noqa: PTH101, PTH102, PTH112, PTH113, PTH115, PTH119, PTH123, PTH211

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

NAME_BYTES_MAX = 255


def homes(examples: int) -> settings:
    """Shrinking takes minutes when each try runs processes;
    what the report prints repeats the tree as it was.
    """
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
        print_blob=True,
        database=None,
    )


_SECOND_NS = 1_000_000_000

# Any bytes but "/" and zero. Names that look like something to
# tar, to a shell or to a pax header come up often.
_TRICKY = (
    b"-rf",
    b"--checkpoint=1",
    b"*",
    b"?",
    b"[a]",
    b"\\",
    b"\n",
    b" ",
    b"a=b",
    b"12 path=x",
    b"...",
    b"..x",
)
names = st.one_of(
    st.binary(min_size=1, max_size=40).map(lambda name: name.translate(None, b"/\0") or b"x"),
    st.sampled_from(_TRICKY),
    st.just(b"n" * NAME_BYTES_MAX),
    st.text("äöü漢字-_.", min_size=1, max_size=30).map(str.encode),
).filter(lambda name: name not in (b".", b".."))
modes = st.integers(0, 0o7777)
# From 1970 to 2200, to the nanosecond.
times_ns = st.integers(0, 7_258_118_400 * _SECOND_NS)
owners = st.tuples(st.integers(0, 4_000_000), st.integers(0, 4_000_000))
contents = st.tuples(st.binary(max_size=60), st.sampled_from([0, 1, 1, 9, 500, 4000]))
xattrs = st.dictionaries(
    st.text("abc=%.-_\n ä", min_size=1, max_size=20).map(lambda name: f"user.{name}"),
    st.binary(max_size=200),
    max_size=3,
)

ACCESS, DEFAULT, CAPABILITY = "system.posix_acl_access", "system.posix_acl_default", "security.capability"
KEPT = ("user.", "system.posix_acl_", CAPABILITY)
_NOBODY_NAMED = 0xFFFF_FFFF
_USER, _GROUP, _MASK = 0x02, 0x08, 0x10


def acl(owner: int, group: int, others: int, named: dict[tuple[int, int], int], mask: int) -> bytes:
    """Return an access list as Linux stores it. `named`: the rights of users and groups, by kind and
    number.
    """
    entries = [(0x01, owner, _NOBODY_NAMED), (0x04, group, _NOBODY_NAMED), (0x20, others, _NOBODY_NAMED)]
    entries += [(kind, rights, number) for (kind, number), rights in named.items()]
    if named:
        entries.append((_MASK, mask, _NOBODY_NAMED))
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", kind, rights, number)
        for kind, rights, number in sorted(entries, key=lambda entry: (entry[0], entry[2]))
    )


def for_user(number: int, *, others: int = 0) -> bytes:
    """Return a list that lets one more user read and write what is closed to the group."""
    return acl(6, 0, others, {(_USER, number): 6}, 6)


def may_bind_low_ports() -> bytes:
    return struct.pack("<IIIII", 0x0200_0001, 1 << 10, 0, 0, 0)


_rights = st.integers(0, 7)
_named = st.dictionaries(
    # Some of these have a name on every machine.
    st.tuples(st.sampled_from([_USER, _GROUP]), st.one_of(st.integers(0, 9), st.integers(0, 4_000_000))),
    _rights,
    max_size=4,
)
acls = st.builds(acl, _rights, _rights, _rights, _named, _rights)
# An ordinary user's codehub knows nobody else; see test_as_a_person.py.
nameless_acls = st.builds(acl, _rights, _rights, _rights, st.just({}), _rights)
_capabilities = st.builds(
    lambda permitted, inheritable: struct.pack("<IIIII", 0x0200_0001, permitted, inheritable, 0, 0),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)


def _privileges(lists: st.SearchStrategy[bytes]) -> st.SearchStrategy[dict[str, bytes]]:
    return st.fixed_dictionaries({}, optional={ACCESS: lists, DEFAULT: lists, CAPABILITY: _capabilities})


@dataclass(frozen=True)
class Node:
    """A file, a directory, a symlink, a hard link or a sparse file, with everything that is kept of it."""

    kind: str
    mode: int
    mtime_ns: int
    owner: tuple[int, int]
    pattern: tuple[bytes, int]
    xattrs: dict[str, bytes] = field(hash=False)
    privileges: dict[str, bytes] = field(hash=False, default_factory=dict)
    """Access lists, and capabilities, which root alone can give."""

    @property
    def content(self) -> bytes:
        return self.pattern[0] * self.pattern[1]


def _nodes(lists: st.SearchStrategy[bytes]) -> st.SearchStrategy[Node]:
    kinds = st.sampled_from(["file", "file", "directory", "directory", "symlink", "hard link", "sparse"])
    plain: st.SearchStrategy[dict[str, bytes]] = st.just({})
    return st.builds(
        Node, kinds, modes, times_ns, owners, contents, xattrs, st.one_of(plain, _privileges(lists))
    )


def _trees(lists: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[tuple[bytes, Node, int]]]:
    """A tree is a list: each node with its name and the number of the directory that it goes into."""
    return st.lists(st.tuples(names, _nodes(lists), st.integers(0, 1000)), max_size=25)


def _made_readable(node: Node) -> Node:
    """What its owner has closed is closed to whoever has no rights
    but theirs; so is the attribute of what is read-only.
    """
    is_read_only = node.kind == "directory" and not node.xattrs
    return replace(node, mode=node.mode | (0o500 if is_read_only else 0o700))


trees, trees_of_a_person = _trees(acls), _trees(nameless_acls)
trees_without_rights = _trees(st.builds(acl, st.just(7), _rights, _rights, _named, _rights)).map(
    lambda tree: [(name, _made_readable(node), place) for name, node, place in tree]
)


def plant(home: bytes, tree: list[tuple[bytes, Node, int]]) -> None:
    """Make the tree. Attributes come last and from below, since making a file changes its directory's
    times.
    """
    directories = [home]
    files: list[bytes] = []
    made = []
    for name, node, place in tree:
        path = directories[place % len(directories)] + b"/" + name
        if os.path.lexists(path) or len(path) - len(home) > 3000:
            continue
        _make(path, node, files)
        if node.kind == "directory":
            directories.append(path)
        elif node.kind in ("file", "sparse"):
            files.append(path)
        made.append((path, node))
    for path, node in reversed(made):
        _dress(path, node)


def _make(path: bytes, node: Node, files: list[bytes]) -> None:
    match node.kind:
        case "directory":
            os.mkdir(path)
        case "symlink":
            os.symlink(node.content[:200].replace(b"\0", b"0") or b"/usr/bin/python3", path)
        case "hard link" if files:
            os.link(files[len(node.content) % len(files)], path)
        case "sparse":
            with open(path, "wb") as file:
                for number in range(1 + len(node.content) % 5):
                    file.seek(number * 300_000 + 100_000)
                    file.write(node.content)
                file.truncate(2_000_000 + len(node.content))
        case _:
            with open(path, "wb") as file:
                file.write(node.content)


def _dress(path: bytes, node: Node) -> None:
    if node.kind != "symlink":
        os.chmod(path, 0o700)  # under its other name it may be closed already, to all but root
        for name, value in node.xattrs.items():
            os.setxattr(path, name, value)
    if os.geteuid() == 0:
        os.chown(path, *node.owner, follow_symlinks=False)
    if node.kind != "symlink":
        os.chmod(path, node.mode)
        for name, value in node.privileges.items():
            if _can_have(path, name):
                os.setxattr(path, name, value)
    os.utime(path, ns=(node.mtime_ns, node.mtime_ns), follow_symlinks=False)


def _can_have(path: bytes, name: str) -> bool:
    match name:
        case "system.posix_acl_default":
            return os.path.isdir(path)
        case "security.capability":
            return os.geteuid() == 0 and os.path.isfile(path)
        case _:
            return True


Picture = dict[bytes, tuple[object, ...]]


def picture(home: bytes) -> Picture:
    """Return everything that must be kept: kind, mode, owner, time,
    size, content, links, xattrs, and how much is stored.
    """
    linked: dict[int, bytes] = {}
    return {path[len(home) :]: _look(path, linked) for path in sorted(_walk(home))}


def _walk(directory: bytes) -> Iterator[bytes]:
    yield directory
    waiting = [directory]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _look(path: bytes, linked: dict[int, bytes]) -> tuple[object, ...]:
    status = os.lstat(path)
    what = (
        stat.S_IFMT(status.st_mode),
        stat.S_IMODE(status.st_mode),
        status.st_uid,
        status.st_gid,
        status.st_mtime_ns,
    )
    if stat.S_ISLNK(status.st_mode):
        return (*what, os.readlink(path), status.st_nlink)
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith(KEPT)}
    if not stat.S_ISREG(status.st_mode):
        return (*what, attributes)
    # Two names of one file have the same first name, in the source and in the copy.
    first = linked.setdefault(status.st_ino, path)
    is_sparse = status.st_blocks * 512 < status.st_size - 65536
    with open(path, "rb") as file:
        digest = sha256(file.read()).hexdigest()
    return (*what, attributes, status.st_size, digest, status.st_nlink, os.path.basename(first), is_sparse)
