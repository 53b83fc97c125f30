"""A request goes in, the program that enters a running instance is started,
and its session of a command, or its sockets, come out.

Everything that the program is given is closed on our side; all that is ours is closed by `leave`.
"""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from signal import Signals

from codehub.adapters.byte_streams import DescriptorSink, DescriptorSource, NoBytes
from codehub.adapters.command_script import REPORT_BYTES_MAX, check_report
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed
from codehub.ports.instance_access import (
    ByteSink,
    ByteSource,
    Command,
    ExitStatus,
    NotRunning,
    TerminalSize,
)

_ENTER = Path(__file__).with_name("enter_instance.py")
_LEAVING_S_MAX = 3.0


class EnterProgram:
    """The program that enters: it runs one command, or sends sockets."""

    def __init__(self, request: dict[str, object], instance: int, groups: Sequence[int]) -> None:
        has_pipes = request["argv"] is not None and request["size"] is None
        self._control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        report, their_report = os.pipe()
        pipes = [os.pipe() for _ in range(3)] if has_pipes else []
        request_fd = os.memfd_create("request")
        request |= {"instance": instance, "report": their_report, "groups": list(groups)}
        try:
            os.write(request_fd, json.dumps(request).encode())
            os.lseek(request_fd, 0, os.SEEK_SET)
            child = subprocess.Popen(  # noqa: S603  # the command is ours
                [sys.executable, "-I", "-S", str(_ENTER), str(their_control.fileno()), str(request_fd)],
                cwd="/",
                stdin=pipes[0][0] if pipes else subprocess.DEVNULL,
                stdout=pipes[1][1] if pipes else subprocess.DEVNULL,
                stderr=pipes[2][1] if pipes else subprocess.DEVNULL,
                env={},
                start_new_session=True,
                pass_fds=(their_control.fileno(), request_fd, their_report, instance, *groups),
            )
        except OSError as error:
            self._control.close()
            for fd in (report, *(ours for ours in _our_ends(pipes))):
                os.close(fd)
            raise ActionFailed(Message(Code.NOT_ENTERED, {"text": str(error)})) from error
        finally:
            their_control.close()
            for fd in (their_report, request_fd, *(end for pair in pipes for end in pair)):
                if fd not in _our_ends(pipes):
                    os.close(fd)
        self._child = child
        self._report = DescriptorSource(report)
        self._control.setblocking(False)
        self._terminal: int | None = None
        self._streams: Sequence[DescriptorSource | DescriptorSink] = ()
        self.input: ByteSink
        self.output: ByteSource
        self.error_output: ByteSource
        if pipes:
            self._set_streams(*_our_ends(pipes))
        self._status: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._pidfd = os.pidfd_open(child.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    async def begin(self, command: Command) -> None:
        """Return when the command runs. Raises NoSuchCommand or NotRunning."""
        if command.terminal is not None:
            fds = await self._receive_fds()
            if fds:
                self._terminal = fds[0]
                self._set_streams(os.dup(fds[0]), fds[0])
        report = b""
        while len(report) < REPORT_BYTES_MAX and (part := await self._report.read()):
            report += part
        self._check(command, report)
        asyncio.get_running_loop().add_reader(self._control, self._on_status)

    async def sockets(self) -> tuple[socket.socket, socket.socket]:
        fds = await self._receive_fds()
        if len(fds) != 2:  # noqa: PLR2004  # IPv4 and IPv6
            text = (await self._report.read()).decode(errors="replace")
            raise ActionFailed(Message(Code.NOT_ENTERED, {"text": text}))
        return socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1])

    async def resize(self, size: TerminalSize) -> None:
        if self._terminal is not None:
            with suppress(OSError):
                ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *rows_first(size), 0, 0))

    async def send_signal(self, number: Signals) -> None:
        with suppress(OSError):  # it has ended
            await asyncio.get_running_loop().sock_sendall(self._control, bytes([number]))

    async def wait(self) -> ExitStatus:
        return await asyncio.shield(self._status)

    async def leave(self) -> None:
        """Have it ended, and wait for that a while: nobody waits longer for what the kernel can't end."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._control)
        self._control.close()
        for stream in (self._report, *self._streams):
            stream.release()
        self._terminal = None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _LEAVING_S_MAX)

    def _set_streams(self, input_fd: int, output_fd: int, error_fd: int | None = None) -> None:
        sink = DescriptorSink(input_fd, is_terminal=error_fd is None)
        source = DescriptorSource(output_fd)
        self.input, self.output, self.error_output = sink, source, NoBytes()
        self._streams = [sink, source]
        if error_fd is not None:
            self.error_output = error_source = DescriptorSource(error_fd)
            self._streams = [sink, source, error_source]

    def _check(self, command: Command, report: bytes) -> None:
        if report.startswith(b"!"):
            message = report[1:].decode(errors="replace").strip()
            raise ActionFailed(Message(Code.NOT_ENTERED, {"text": message}))
        if check_report(command, report) is None:
            raise NotRunning

    async def _receive_fds(self) -> list[int]:
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()
        loop.add_reader(self._control, lambda: None if arrived.done() else arrived.set_result(None))
        try:
            await arrived
        finally:
            loop.remove_reader(self._control)
        _, fds, _, _ = socket.recv_fds(self._control, 1, 2)
        return fds

    def _on_status(self) -> None:
        try:
            message = self._control.recv(2)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        asyncio.get_running_loop().remove_reader(self._control)
        if self._status.done():
            return
        if len(message) < 2:  # noqa: PLR2004  # the helper was killed, and the command with it
            self._status.set_result(ExitStatus.killed(Signals.SIGKILL))
        elif message[0]:
            self._status.set_result(ExitStatus(message[1]))
        else:
            self._status.set_result(ExitStatus.killed(message[1]))

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._child.wait()
        self._ended.set()


def _our_ends(pipes: Sequence[tuple[int, int]]) -> Sequence[int]:
    return (pipes[0][1], pipes[1][0], pipes[2][0]) if pipes else ()


def rows_first(size: TerminalSize) -> tuple[int, int]:
    return size.rows, size.columns
