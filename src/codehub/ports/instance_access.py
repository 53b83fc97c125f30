"""A way into a running instance: a command goes in and its streams
come out, or a port of its own loopback becomes a stream. What listens there can be seen.

Nothing that runs this way has more rights than the workspace's IDE.
Everything is held open by the block that opened it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from signal import Signals
from typing import NamedTuple, Protocol
from uuid import UUID

from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

SHELL_SIGNAL_BASE = 128


class NotRunning(ActionFailed):
    """The instance does not run, so there is nothing to enter."""

    def __init__(self) -> None:
        super().__init__(Message(Code.INSTANCE_NOT_RUNNING))


class NoSuchCommand(ActionFailed):
    """The command is no program there, or its directory is none."""


class NothingListens(ActionFailed):
    """The instance runs, and nothing listens on this port of its loopback."""

    def __init__(self, port: int) -> None:
        super().__init__(Message(Code.NOTHING_LISTENS, {"port": port}))


class RelayRefused(ActionFailed):
    """The instance has no loopback of its own: this port would be the machine's."""

    def __init__(self) -> None:
        super().__init__(Message(Code.NO_LOOPBACK))


@dataclass(frozen=True, slots=True)
class TerminalSize:
    columns: int = 80
    rows: int = 24


@dataclass(frozen=True, slots=True)
class Command:
    """What is to run, as the workspace's user."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment that the instance's IDE has."""
    directory: str | None = None
    """Where it begins. None: the home."""
    terminal: TerminalSize | None = None
    """None: pipes, with its error output apart."""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise NoSuchCommand(Message(Code.COMMAND_UNUSABLE))
        texts = (*self.argv, *self.environment, *self.environment.values(), self.directory or "")
        if any("\0" in text for text in texts) or any(not name or "=" in name for name in self.environment):
            raise NoSuchCommand(Message(Code.COMMAND_UNUSABLE))


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a command ended: by itself with this code, or by a signal."""

    code: int
    """As a shell has it: 128 and the signal's number, if it was killed."""
    signal: int | None = None

    @classmethod
    def killed(cls, number: int) -> "ExitStatus":
        return cls(SHELL_SIGNAL_BASE + number, number)

    @classmethod
    def from_shell(cls, code: int) -> "ExitStatus":
        """Return what a platform means that tells a signal by the code alone."""
        number = code - SHELL_SIGNAL_BASE
        return cls(code, number if 0 < number < max(Signals) + 1 else None)


class Listener(NamedTuple):
    """A port of an instance's loopback that something listens on."""

    port: int
    process: str | None
    """What the process there calls itself; None if that can't be seen."""


class ByteSource(Protocol):
    async def read(self) -> bytes:
        """Return what has arrived, waiting for the first of it; b""
        at the end. What nobody reads holds up the sender.
        """


class ByteSink(Protocol):
    async def write(self, data: bytes) -> None:
        """Return when most of it is on its way. Raises BrokenPipeError if nobody reads it any more."""

    async def close(self) -> None:
        """End it: the other side reads an end. Once is enough, and more is no error."""


class ByteStream(ByteSource, ByteSink, Protocol):
    """Both ways; `close` ends the one and leaves the other open."""


class CommandSession(Protocol):
    """One command that runs. On a terminal its error output is in
    the output, and closing the input ends nothing.

    Output and error output are to be read side by side: what is left
    unread of one may hold up the other, and the command.
    """

    @property
    def input(self) -> ByteSink: ...

    @property
    def output(self) -> ByteSource: ...

    @property
    def error_output(self) -> ByteSource: ...

    async def resize(self, size: TerminalSize) -> None:
        """Give its terminal another size; without a terminal, or after its end, nothing happens."""

    async def send_signal(self, number: Signals) -> None:
        """Signal its process group; after its end nothing happens."""

    async def wait(self) -> ExitStatus:
        """Return how it ended, whatever still holds its output open.

        A command that ends with its instance was killed. Raises BackendUnreachable if nobody can say.
        """


class InstanceAccess(Protocol):
    def exec(self, workspace_id: UUID, command: Command) -> AbstractAsyncContextManager[CommandSession]:
        """Run a command in the running instance. At the end of the
        block it is hung up on, and killed soon after.

        What it has put into the background, in a process group of its
        own, stays. Raises NotRunning or NoSuchCommand.
        """

    def relay(self, workspace_id: UUID, port: int) -> AbstractAsyncContextManager[ByteStream]:
        """Connect to a TCP port of the instance's own loopback.
        Raises NotRunning, NothingListens or RelayRefused.

        The IDE's own port is none of these: who may come that way is decided elsewhere.
        """

    async def listening(self, workspace_id: UUID) -> Sequence[Listener]:
        """Return what can be reached by `relay`, in order, but for the IDE itself.

        Raises NotRunning, or RelayRefused where the loopback is not the instance's own.
        """
