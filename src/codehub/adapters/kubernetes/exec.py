"""A command goes into a container, its streams and its exit code come
out, by WebSocket. A cut line is an outage, never an end.

Needs Kubernetes 1.30 or later: before v5 of the protocol the command's input can't be ended.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import IntEnum
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from codehub.adapters.kubernetes.access import Credentials
from codehub.adapters.kubernetes.answers import failure
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.websocket import NotUpgraded, WebSocket, connect
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

_PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STATUS, _RESIZE, _CLOSE = 0, 3, 4, 255
_PART_BYTES = 1 << 16


class Stream(IntEnum):
    """Where output came from. With a terminal all of it is STDOUT."""

    STDOUT = 1
    STDERR = 2


class ExecSession:
    """A command that runs. Leaving the session hangs up; the command is not told to end."""

    def __init__(self, client: KubernetesClient, socket: WebSocket) -> None:
        self._client = client
        self._socket = socket
        self._exit_code: int | None = None

    @property
    def exit_code(self) -> int:
        """The command's, once `read` has returned None."""
        assert self._exit_code is not None
        return self._exit_code

    async def read(self) -> tuple[Stream, bytes] | None:
        """Return the next output; None when the command has ended.
        Raises ActionFailed for a command that can't be run.
        """
        with self._client.api.report_outages():
            while (message := await self._socket.receive()) is not None:
                channel, content = message[0] if message else _CLOSE, message[1:]
                if channel == _STATUS:
                    self._exit_code = _exit_code(json.loads(content))
                    return None
                if channel in (Stream.STDOUT, Stream.STDERR) and content:
                    return Stream(channel), content
            raise ConnectionError("it closed before the command had ended")

    async def write(self, content: bytes) -> None:
        """Give the command input, as fast as it takes it."""
        view = memoryview(content)
        for start in range(0, len(view), _PART_BYTES):
            await self._send(_STDIN, view[start : start + _PART_BYTES])

    async def end_input(self) -> None:
        await self._send(_CLOSE, bytes([_STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal's size."""
        await self._send(_RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def hang_up(self) -> None:
        """End the connection: whoever writes to it is told."""
        self._socket.abort()

    async def _send(self, channel: int, content: bytes | memoryview) -> None:
        with self._client.api.report_outages():
            await self._socket.send(bytes([channel]) + content)


@asynccontextmanager
async def execute(
    client: KubernetesClient,
    pod: str,
    container: str,
    command: Sequence[str],
    *,
    has_input: bool = False,
    has_terminal: bool = False,
) -> AsyncIterator[ExecSession]:
    """Run a command in a container and yield its session. A terminal brings input and output together."""
    query = [("container", container), ("stdout", "true"), *(("command", part) for part in command)]
    query += [("stdin", "true")] if has_input else []
    query += [("tty", "true")] if has_terminal else [("stderr", "true")]
    target = f"{client.api.target(PODS.path(client.namespace, pod, 'exec'))}?{urlencode(query)}"
    async with AsyncExitStack() as stack:
        with client.api.report_outages():
            socket = await _connect(client, target, stack)
        yield ExecSession(client, socket)


async def _connect(client: KubernetesClient, target: str, stack: AsyncExitStack) -> WebSocket:
    access = client.api.access

    async def connect_as(credentials: Credentials) -> WebSocket:
        opening = connect(
            access.upstream,
            credentials.tls,
            target,
            host=access.host,
            protocol=_PROTOCOL,
            headers=credentials.headers(),
            within_s=client.api.answer_s_max,
        )
        return await stack.enter_async_context(opening)

    credentials = await access.credentials()
    try:
        try:
            return await connect_as(credentials)
        except NotUpgraded as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            return await connect_as(await access.renew(credentials))
    except NotUpgraded as error:
        raise failure(access.server, error.status, error.body) from None


def _exit_code(status: Any) -> int:
    if status["status"] == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    for cause in causes:
        if status.get("reason") == "NonZeroExitCode" and cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ActionFailed(Message(Code.KUBERNETES_COMMAND, {"text": str(status.get("message"))}))
