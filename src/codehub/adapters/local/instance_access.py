"""A command or a port goes in, a way into a local instance comes out: into
the namespaces of its sandbox, with the rights of its IDE.

Without a sandbox the command has the workspace's user and groups, as its
IDE has. Refuses a port where the loopback is this machine's.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from uuid import UUID

from codehub.adapters.byte_streams import ConnectionStream
from codehub.adapters.command_script import environment_of, shell_argv
from codehub.adapters.local.enter_program import EnterProgram, rows_first
from codehub.adapters.local.instances import LocalInstances
from codehub.adapters.local.launch import Launcher
from codehub.adapters.local.listening import look
from codehub.adapters.local.processes import processes_max
from codehub.adapters.local.records import Paths, Record
from codehub.adapters.processes import Process
from codehub.adapters.threads import in_thread
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import (
    ByteStream,
    Command,
    CommandSession,
    Listener,
    NothingListens,
    NotRunning,
    RelayRefused,
)

_NAMESPACES = {
    "user": 0x10000000,
    "mnt": 0x20000,
    "pid": 0x20000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
    "net": 0x40000000,
}
_OF_THE_NETWORK = frozenset({"user", "net"})
_CONNECTING_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Entrance:
    """A running instance, held by a descriptor of its first process: no other can take that one's place."""

    workspace_id: UUID
    paths: Paths
    record: Record
    main: Process
    first: Process
    """The first of its sandbox, or its main process where there is none."""
    pidfd: int
    foreign: frozenset[str]
    """The kinds of namespaces that it does not share with us."""

    def flags(self, wanted: frozenset[str]) -> int:
        return sum(_NAMESPACES[name] for name in self.foreign & wanted)


class LocalInstanceAccess:
    """The InstanceAccess of the local-process backend. On the event loop of its instances, which are open."""

    def __init__(self, instances: LocalInstances) -> None:
        self._instances = instances

    @asynccontextmanager
    async def exec(self, workspace_id: UUID, command: Command) -> AsyncIterator[CommandSession]:
        with self._entrance(workspace_id) as entrance:
            helper = self._start(entrance, command)
        try:
            await helper.begin(command)
            yield helper
        finally:
            await helper.leave()

    def _start(self, entrance: Entrance, command: Command) -> EnterProgram:
        launcher = self._launcher()
        ide = self._instances.ides.get(entrance.record.ide)
        if ide is None:
            raise ActionFailed(
                Message(
                    Code.IDE_NOT_INSTALLED,
                    {"ide": entrance.record.ide, "installed": list(self._instances.ides)},
                )
            )
        home = launcher.home_inside(entrance.record)
        uid = launcher.accounts.uid_of(entrance.workspace_id)
        is_limited = entrance.record.sandboxed or uid is not None
        limit = processes_max(entrance.main.pid) if is_limited else None
        with launcher.limits.open_groups(entrance.workspace_id) as groups:
            return EnterProgram(
                {
                    "namespaces": entrance.flags(frozenset(_NAMESPACES)),
                    "uid": uid,
                    "gives_up": is_limited,
                    "processes": limit,
                    "calls": entrance.paths.calls.read_bytes().hex() if entrance.record.sandboxed else "",
                    "argv": shell_argv(command, home, reports_to_output=False),
                    "environment": {
                        **launcher.environment(entrance.workspace_id, entrance.record, ide),
                        **environment_of(command),
                        **launcher.marks(entrance.workspace_id),
                    },
                    "size": None if command.terminal is None else rows_first(command.terminal),
                },
                entrance.pidfd,
                groups,
            )

    @asynccontextmanager
    async def relay(self, workspace_id: UUID, port: int) -> AsyncIterator[ByteStream]:
        with self._entrance(workspace_id) as entrance:
            if "net" not in entrance.foreign:
                raise RelayRefused
            helper = EnterProgram(
                {"namespaces": entrance.flags(_OF_THE_NETWORK), "argv": None}, entrance.pidfd, ()
            )
        try:
            by_ipv4, by_ipv6 = await helper.sockets()
        finally:
            await helper.leave()
        connection = await _connect(by_ipv4, by_ipv6, port)
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            yield ConnectionStream(reader, writer)
        finally:
            writer.transport.abort()

    async def listening(self, workspace_id: UUID) -> Sequence[Listener]:
        with self._entrance(workspace_id) as entrance:
            if "net" not in entrance.foreign:
                raise RelayRefused
            listeners = await in_thread(look, entrance.first.pid)
            if not entrance.first.alive():  # somebody else's were looked at
                raise NotRunning
            return listeners

    @contextmanager
    def _entrance(self, workspace_id: UUID) -> Iterator[Entrance]:
        """Yield the way in. Raises NotRunning."""
        self._instances.run_directory.check()
        paths = self._instances.run_directory.of(workspace_id)
        record = paths.read()
        main = None if record is None else paths.main(record)
        first = paths.init() if record is not None and record.sandboxed else main
        pidfd = -1 if first is None else _open_process(first)
        if record is None or main is None or first is None or pidfd < 0:
            raise NotRunning
        try:
            with _raise_if_ended():
                # A sandbox has all of them, so that one which ends now can't pass for one without.
                foreign = _foreign_namespaces(first.pid) if record.sandboxed else frozenset[str]()
                if not first.alive():
                    raise NotRunning
                yield Entrance(workspace_id, paths, record, main, first, pidfd, foreign)
        finally:
            os.close(pidfd)

    def _launcher(self) -> Launcher:
        if self._instances.launcher is None:
            raise BackendUnreachable(Message(Code.NO_ANSWER))
        return self._instances.launcher


def _open_process(process: Process) -> int:
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return -1
    if process.alive():
        return fd
    os.close(fd)
    return -1


def _foreign_namespaces(pid: int) -> frozenset[str]:
    return frozenset(
        name
        for name in _NAMESPACES
        if not os.path.samestat(os.stat(f"/proc/{pid}/ns/{name}"), os.stat(f"/proc/self/ns/{name}"))  # noqa: PTH116
    )


@contextmanager
def _raise_if_ended() -> Iterator[None]:
    """Raise NotRunning for what is not there any more."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError):
        raise NotRunning from None


async def _connect(by_ipv4: socket.socket, by_ipv6: socket.socket, port: int) -> socket.socket:
    """Connect to this port of the loopback that these sockets have, and close the one that is not needed."""
    loop = asyncio.get_running_loop()
    for connection, address in ((by_ipv4, "127.0.0.1"), (by_ipv6, "::1")):
        connection.setblocking(False)
        try:
            async with asyncio.timeout(_CONNECTING_S_MAX):
                await loop.sock_connect(connection, (address, port))
        except OSError:
            connection.close()
        except BaseException:
            by_ipv4.close()
            by_ipv6.close()
            raise
        else:
            if connection is by_ipv4:
                by_ipv6.close()
            return connection
    raise NothingListens(port)
