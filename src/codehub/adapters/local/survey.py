"""A home goes in; the bytes that tar will read, and the pipes and device nodes in it, come out.

Refuses a home with another filesystem in it.
"""

import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from codehub.adapters.gnutar import other_filesystem
from codehub.adapters.local.programs import run_program
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

# One line of a process's arguments: pipes and device nodes are named to tar one by one.
_SPECIAL_BYTES_MAX = 1 << 20
_HEADER_BYTES = 1536
_BLOCK = 512
_SPECIAL, _FILE, _READ_ONLY, _DIRECTORY = b"S", b"F", b"R", b"D"
# find walks any depth; Python's own walk ends at a thousand.
_ASK_SPECIAL = ("(", "-type", "b", "-o", "-type", "c", "-o", "-type", "p", ")", "-printf", r"S./%P\0")
# Of another filesystem find shows only the top directory.
_ASK_DIRECTORY = ("-type", "d", "-printf", r"D%D %P\0")
_ASK_FILE = ("-type", "f", "-printf", r"F%b %n\0")
_ASK_READ_ONLY = (
    *("-type", "f", "!", "-perm", "-u+w", "-printf", r"F%b %n\0R%P\0", "-o"),
    *("-type", "d", "!", "-perm", "-u+w", "-printf", r"D%D %P\0R%P\0"),
)


@dataclass
class Survey:
    """`size` is an estimate, for showing progress."""

    size: int = 0
    special: list[bytes] = field(default_factory=list)
    special_bytes: int = 0
    device: bytes = b""
    read_only: list[bytes] = field(default_factory=list)
    """Files and directories that their owner can't write, if they are wanted."""
    problem: str = ""
    """The error message of find, if it has not read everything."""

    def add(self, kind: bytes, data: bytes) -> None:
        """Add one entry of find's output."""
        if kind == _READ_ONLY:
            self.read_only.append(data)
            return  # which is listed once more, as what it is
        self.size += _HEADER_BYTES
        if kind == _FILE:
            blocks, links = data.split()
            self.size += int(blocks) * _BLOCK // int(links)
        elif kind == _DIRECTORY:
            device, _, path = data.partition(b" ")
            self.device = self.device or device  # the home itself comes first
            if device != self.device:
                raise other_filesystem(os.fsdecode(path))
        elif kind == _SPECIAL:
            self.special.append(data)
            self.special_bytes += len(data)


async def survey(path: str, *, inside: Sequence[str] = (), names_read_only: bool = False) -> Survey:
    """Read every entry of a home once, from `inside` a sandbox.

    What can't be read is left to tar, which reports it better.
    """
    result, unparsed = Survey(), b""
    conditions = (*_ASK_SPECIAL, "-o", *((*_ASK_READ_ONLY, "-o") if names_read_only else ()), *_ASK_FILE)
    command = (
        *inside,
        "find",
        "-P",
        path,
        "-xdev",
        *conditions,
        "-o",
        *_ASK_DIRECTORY,
        "-o",
        "-printf",
        r"L\0",
    )
    async with run_program(command, feeds_it=False) as find:
        async with aclosing(find.parts()) as parts:
            async for part in parts:
                *entries, unparsed = (unparsed + part).split(b"\0")
                for entry in entries:
                    result.add(entry[:1], entry[1:])
                if result.special_bytes > _SPECIAL_BYTES_MAX:
                    raise ActionFailed(Message(Code.TOO_MANY_DEVICES))
        if await find.exit_code():
            result.problem = find.complaint
    return result


async def is_changed_since(home: Path, moment: Path, since: datetime | None = None) -> bool:
    """Whether anything in the home has a later change than this file, and is later than `since`. A time of
    change can't be set, as others can.
    """
    conditions = () if since is None else ("-newerct", since.isoformat())
    async with run_program(
        ("find", str(home), "-cnewer", str(moment), *conditions, "-print", "-quit"), feeds_it=False
    ) as find:
        async with aclosing(find.parts()) as parts:
            has_output = any([part async for part in parts])
        return has_output or await find.exit_code() != 0
