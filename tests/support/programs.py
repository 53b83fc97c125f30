"""What the contract of commands has run: for platforms with a shell and Python, and for memory as
functions.
"""

import asyncio
from collections.abc import Mapping, Sequence
from signal import SIGTERM, SIGWINCH

from codehub.adapters.memory.instance_access import MemoryProcess, Program
from codehub.ports.instance_access import ByteStream

_SERVE = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def answer(connection):
    data = bytearray()
    while part := connection.recv(65536):
        data += part
    connection.sendall(sys.argv[2].encode() + data)
    connection.close()
print("ready", flush=True)
while True:
    threading.Thread(target=answer, args=[server.accept()[0]], daemon=True).start()
"""
_GREET = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
connection = server.accept()[0]
connection.sendall(b"hello")
connection.shutdown(socket.SHUT_WR)
data = bytearray()
while part := connection.recv(65536):
    data += part
print(data.decode(), flush=True)
"""


def _shell(script: str) -> Sequence[str]:
    return ("sh", "-c", script, "sh")


_ON_PLATFORMS: Mapping[str, Sequence[str]] = {
    "exit": _shell('exit "$1"'),
    "copy": ("cat",),
    "count": ("wc", "-c"),
    "both": _shell("echo out; echo err >&2"),
    "flood": _shell('head -c "$1" /dev/zero'),
    "variable": ("printenv",),
    "directory": ("pwd",),
    "user": ("id", "-u"),
    "size": ("stty", "size"),
    "follow-size": _shell("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"),
    "stay": _shell("echo $$; while :; do sleep 0.05; done"),
    "stay-at-a-hang-up": _shell("trap '' HUP; echo $$; while :; do sleep 0.05; done"),
    "end-politely": _shell("trap 'echo polite; exit 7' TERM; echo $$; while :; do sleep 0.05; done"),
    "state": _shell('cat "/proc/$1/stat" 2>/dev/null || echo gone'),
    "leave-output-open": _shell("sleep 600 & echo left"),
    "serve": ("python3", "-S", "-c", _SERVE),
    "greet": ("python3", "-S", "-c", _GREET),
}


def program(name: str, *arguments: object) -> tuple[str, ...]:
    """Return the argv of a program on a platform with a shell."""
    return (*_ON_PLATFORMS[name], *map(str, arguments))


async def _say(process: MemoryProcess, text: object) -> None:
    await process.output.write(f"{text}\n".encode())


async def _leave(process: MemoryProcess) -> int:
    return int(process.command.argv[1])


async def _copy(process: MemoryProcess) -> int:
    while part := await process.input.read():
        await process.output.write(part)
    return 0


async def _count(process: MemoryProcess) -> int:
    total = 0
    while part := await process.input.read():
        total += len(part)
    await _say(process, total)
    return 0


async def _both(process: MemoryProcess) -> int:
    await _say(process, "out")
    await process.error_output.write(b"err\n")
    return 0


async def _flood(process: MemoryProcess) -> int:
    await process.output.write(bytes(int(process.command.argv[1])))
    return 0


async def _variable(process: MemoryProcess) -> int:
    environment = {"HOME": process.directory, "TERM": "xterm-256color", **process.command.environment}
    await _say(process, environment[process.command.argv[1]])
    return 0


async def _directory(process: MemoryProcess) -> int:
    await _say(process, process.directory)
    return 0


async def _user(process: MemoryProcess) -> int:
    await _say(process, 1000)
    return 0


async def _say_size(process: MemoryProcess) -> None:
    if process.size is not None:
        await _say(process, f"{process.size.rows} {process.size.columns}")


async def _size(process: MemoryProcess) -> int:
    await _say_size(process)
    return 0


async def _follow_size(process: MemoryProcess) -> int:
    changed = asyncio.Event()
    process.handlers[SIGWINCH] = changed.set
    await _say(process, "ready")
    while True:
        await changed.wait()
        changed.clear()
        await _say_size(process)


async def _stay(process: MemoryProcess) -> int:
    await _say(process, process.pid)
    await asyncio.get_running_loop().create_future()
    return 0


async def _end_politely(process: MemoryProcess) -> int:
    asked = asyncio.Event()
    process.handlers[SIGTERM] = asked.set
    await _say(process, process.pid)
    await asked.wait()
    await _say(process, "polite")
    return 7


async def _state(process: MemoryProcess) -> int:
    pid = int(process.command.argv[1])
    await _say(process, f"{pid} (sh) S" if pid in process.processes else "gone")
    return 0


async def _leave_output_open(process: MemoryProcess) -> int:
    process.keeps_output_open = True
    await _say(process, "left")
    return 0


async def _serve(process: MemoryProcess) -> int:
    async def answer(stream: ByteStream) -> None:
        data = bytearray()
        while part := await stream.read():
            data += part
        await stream.write(process.command.argv[2].encode() + data)

    process.ports[int(process.command.argv[1])] = answer
    return await _listen(process, int(process.command.argv[1]))


async def _greet(process: MemoryProcess) -> int:
    heard = asyncio.Event()

    async def answer(stream: ByteStream) -> None:
        await stream.write(b"hello")
        await stream.close()
        data = bytearray()
        while part := await stream.read():
            data += part
        await _say(process, data.decode())
        heard.set()

    port = int(process.command.argv[1])
    process.ports[port] = answer
    await _say(process, "ready")
    await heard.wait()
    del process.ports[port]
    return 0


async def _listen(process: MemoryProcess, port: int) -> int:
    await _say(process, "ready")
    try:
        await asyncio.get_running_loop().create_future()
        return 0
    finally:
        del process.ports[port]


MEMORY_PROGRAMS: Mapping[str, Program] = {
    "exit": _leave,
    "copy": _copy,
    "count": _count,
    "both": _both,
    "flood": _flood,
    "variable": _variable,
    "directory": _directory,
    "user": _user,
    "size": _size,
    "follow-size": _follow_size,
    "stay": _stay,
    "stay-at-a-hang-up": _stay,
    "end-politely": _end_politely,
    "state": _state,
    "leave-output-open": _leave_output_open,
    "serve": _serve,
    "greet": _greet,
}
"""The same for memory, where a program is named by itself."""
