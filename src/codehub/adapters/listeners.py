"""What Linux says of sockets goes in, what listens on a loopback comes out.

Looked at with a shell alone, since an image may hold no more. Names are what processes call themselves.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence

from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instance_access import Command, CommandSession, Listener

LOOK_S_MAX = 10.0
_LOOK_BYTES_MAX = 1 << 20
_LISTENERS_MAX = 200
# Its number, its own address and port, the peer's, its state (0A: it listens), and at last its inode.
_LISTENS = re.compile(r" *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) \S+ 0A (?:\S+ +){5}(\d+) .*")
# 0.0.0.0, 127.0.0.1, ::, ::1 and ::ffff:127.0.0.1, each 4 bytes as a little-endian number.
_OF_THE_LOOPBACK = frozenset(
    {
        "00000000",
        "0100007F",
        "0" * 32,
        "0" * 24 + "01000000",
        "0" * 16 + "FFFF0000" + "0100007F",
    }
)
# The tables first, then "> PID NAME" of each process and its sockets. Without an `ls` no port has a name.
_SCRIPT = """
exec 2>/dev/null
for table in tcp tcp6; do
    while read -r line; do echo "$line"; done < "/proc/net/$table"
done
for process in /proc/[0-9]*; do
    read -r name < "$process/comm" || continue
    echo "> ${process#/proc/} $name"
    ls -l "$process/fd" | while read -r line; do
        case $line in *"-> socket:["*) echo "${line##*-> }";; esac
    done
done
"""
LOOK = Command(("/bin/sh", "-c", _SCRIPT), directory="/")


async def look(session: CommandSession, *, ide_port: int | None) -> Sequence[Listener]:
    """Return what listens where LOOK runs, but for the IDE. Raises BackendUnreachable after a while."""
    output = bytearray()
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            while len(output) < _LOOK_BYTES_MAX and (part := await session.output.read()):
                output += part
    except TimeoutError:
        raise BackendUnreachable(Message(Code.NO_ANSWER)) from None
    tables: list[str] = []
    names: dict[str, str] = {}
    name = ""
    for line in output.decode(errors="replace").splitlines():
        if line.startswith("> "):
            name = line.split(" ", 2)[-1]
        elif line.startswith("socket:["):
            names.setdefault(line.removeprefix("socket:[").rstrip("]"), name)
        else:
            tables.append(line)
    return listeners(tables, names, ide_port=ide_port)


def listeners(
    table: Iterable[str], names: Mapping[str, str], *, ide_port: int | None = None
) -> Sequence[Listener]:
    """Return who listens by the lines of /proc/net/tcp and tcp6, and the names of processes by socket."""
    processes: dict[int, str | None] = {}
    for line in table:
        match = _LISTENS.fullmatch(line)
        if match is not None and match[1] in _OF_THE_LOOPBACK and (port := int(match[2], 16)) != ide_port:
            processes[port] = processes.get(port) or _printable(names.get(match[3]))
    return [Listener(port, processes[port]) for port in sorted(processes)[:_LISTENERS_MAX]]


def _printable(name: str | None) -> str | None:
    """Return a name that can be shown: it is whatever a process wants to be called."""
    return "".join(letter for letter in name or "" if letter.isprintable()).strip() or None
