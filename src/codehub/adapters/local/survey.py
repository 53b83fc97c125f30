"""A home goes in; how many bytes tar will read, and what in it is neither file, directory nor link, comes out.

Refuses a home with another filesystem in it.
"""

import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from codehub.adapters.gnutar import elsewhere
from codehub.adapters.local.programs import running
from codehub.ports.backends import ActionFailed

# One line of a process's arguments: pipes and device nodes are named to tar one by one.
_SPECIAL_BYTES_MAX = 1 << 20
_HEADER_BYTES = 1536
_BLOCK = 512
_SPECIAL, _FILE, _READ_ONLY, _DIRECTORY = b"S", b"F", b"R", b"D"
# find walks any depth; Python's own walk ends at a thousand.
_ASK_SPECIAL = ("(", "-type", "b", "-o", "-type", "c", "-o", "-type", "p", ")", "-printf", r"S./%P\0")
# Of another filesystem find shows the top, and no more.
_ASK_DIRECTORY = ("-type", "d", "-printf", r"D%D %P\0")
_ASK_FILE = ("-type", "f", "-printf", r"F%b %n\0")
_ASK_READ_ONLY = ("-type", "f", "!", "-perm", "-u+w", "-printf", r"F%b %n\0R%P\0")


@dataclass
class Survey:
    """`size` is an estimate, for showing progress."""

    size: int = 0
    special: list[bytes] = field(default_factory=list)
    special_bytes: int = 0
    device: bytes = b""
    read_only: list[bytes] = field(default_factory=list)
    """Files that their owner can't write, if they were asked for."""
    missed: str = ""
    """What find says if it has not seen everything."""

    def take(self, kind: bytes, said: bytes) -> None:
        """Add what find says of one entry."""
        if kind == _READ_ONLY:
            self.read_only.append(said)
            return  # which is told once more, as a file
        self.size += _HEADER_BYTES
        if kind == _FILE:
            blocks, links = said.split()
            self.size += int(blocks) * _BLOCK // int(links)
        elif kind == _DIRECTORY:
            device, _, path = said.partition(b" ")
            self.device = self.device or device  # the home itself comes first
            if device != self.device:
                raise elsewhere(os.fsdecode(path))
        elif kind == _SPECIAL:
            self.special.append(said)
            self.special_bytes += len(said)


async def survey(place: str, *, inside: Sequence[str] = (), names_read_only: bool = False) -> Survey:
    """Look at everything in a home once, from `inside` a sandbox. What can't be looked at is left to tar, which says it better."""
    found, rest = Survey(), b""
    asked = (*_ASK_SPECIAL, "-o", *((*_ASK_READ_ONLY, "-o") if names_read_only else ()), *_ASK_FILE)
    command = (*inside, "find", "-P", place, "-xdev", *asked, "-o", *_ASK_DIRECTORY, "-o", "-printf", r"L\0")
    async with running(command, feeds_it=False) as find:
        async with aclosing(find.parts()) as parts:
            async for part in parts:
                *entries, rest = (rest + part).split(b"\0")
                for entry in entries:
                    found.take(entry[:1], entry[1:])
                if found.special_bytes > _SPECIAL_BYTES_MAX:
                    raise ActionFailed("the home holds too many pipes or device nodes: remove them")
        if await find.exit_code():
            found.missed = find.complaint
    return found


async def is_changed_since(home: Path, moment: Path, since: datetime | None = None) -> bool:
    """Whether anything in the home has a later change than this file, and is later than `since`. A time of change can't be set, as others
    can."""
    later = () if since is None else ("-newerct", since.isoformat())
    async with running(
        ("find", str(home), "-cnewer", str(moment), *later, "-print", "-quit"), feeds_it=False
    ) as find:
        async with aclosing(find.parts()) as parts:
            is_found = any([part async for part in parts])
        return is_found or await find.exit_code() != 0
