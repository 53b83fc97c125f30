"""A home goes in; how many bytes tar will read, and what in it is neither file, directory nor link, comes out."""

from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from codehub.adapters.local.programs import running
from codehub.ports.backends import ActionFailed

# One line of a process's arguments: pipes and device nodes are named to tar one by one.
_SPECIAL_BYTES_MAX = 1 << 20
_HEADER_BYTES = 1536
_BLOCK = 512
_SPECIAL, _FILE = b"S", b"F"
# find walks any depth; Python's own walk ends at a thousand.
_ASK = (
    *("-xdev", "(", "-type", "b", "-o", "-type", "c", "-o", "-type", "p", ")", "-printf", r"S./%P\0"),
    *("-o", "-type", "f", "-printf", r"F%b %n\0", "-o", "-printf", r"D\0"),
)


@dataclass
class Survey:
    """`size` is an estimate, for showing progress."""

    size: int
    special: list[bytes]


async def survey(home: Path) -> Survey:
    """Look at everything in the home once. What can't be looked at is left to tar, which says it better."""
    found, rest, special_bytes = Survey(0, []), b"", 0
    async with (
        running(("find", "-P", str(home), *_ASK), feeds_it=False) as find,
        aclosing(find.parts()) as parts,
    ):
        async for part in parts:
            *entries, rest = (rest + part).split(b"\0")
            for entry in entries:
                found.size += _HEADER_BYTES
                kind, said = entry[:1], entry[1:]
                if kind == _FILE:
                    blocks, links = said.split()
                    found.size += int(blocks) * _BLOCK // int(links)
                elif kind == _SPECIAL:
                    found.special.append(said)
                    special_bytes += len(said)
            if special_bytes > _SPECIAL_BYTES_MAX:
                raise ActionFailed("the home holds too many pipes or device nodes: remove them")
    return found
