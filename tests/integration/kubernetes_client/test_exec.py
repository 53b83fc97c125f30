"""Commands by WebSocket, against a server that cuts, refuses, splits and pads its frames as it is told."""

import asyncio
import json
import struct
from typing import Any

import pytest
from tests.support.kubernetes_api import Conversation, HostileApi

from codehub.adapters.kubernetes.answers import NotFound
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.exec import ExecSession, Stream, execute
from codehub.ports.backends import ActionFailed, BackendUnreachable

SUCCESS = {"status": "Success"}
LAST, BINARY, CLOSE, PING = 0x80, 0x2, 0x8, 0x9


def exited(code: int) -> dict[str, Any]:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


class Shell:
    """The server's side of a command."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk

    def accept(self, protocol: str = "v5.channel.k8s.io") -> None:
        head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self._talk.writer.write(f"{head}Sec-WebSocket-Protocol: {protocol}\r\n\r\n".encode())

    def frame(self, payload: bytes, first: int = LAST | BINARY) -> None:
        length = len(payload)
        if length < 126:
            size = bytes([length])
        elif length < 1 << 16:
            size = struct.pack(">BH", 126, length)
        else:
            size = struct.pack(">BQ", 127, length)
        self._talk.writer.write(bytes([first]) + size + payload)

    def say(self, channel: int, content: bytes) -> None:
        self.frame(bytes([channel]) + content)

    def end(self, status: dict[str, Any]) -> None:
        self.say(3, json.dumps(status).encode())
        self.frame(struct.pack(">H", 1000), LAST | CLOSE)

    async def hear(self) -> tuple[int, bytes]:
        """Return the next frame of the client: its kind and its payload."""
        first, second = await self._talk.reader.readexactly(2)
        assert second & 0x80
        length = second & 0x7F
        if length >= 126:
            kind = {126: ">H", 127: ">Q"}[length]
            (length,) = struct.unpack(kind, await self._talk.reader.readexactly(struct.calcsize(kind)))
        mask = await self._talk.reader.readexactly(4)
        payload = await self._talk.reader.readexactly(length)
        return first & 0xF, bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


async def read_all(session: ExecSession) -> dict[Stream, bytes]:
    output = {Stream.STDOUT: b"", Stream.STDERR: b""}
    while (part := await session.read()) is not None:
        output[part[0]] += part[1]
    return output


async def test_output_and_exit_code_come_by_their_channels(api: HostileApi, client: KubernetesClient) -> None:
    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        shell.say(1, b"")
        shell.say(1, b"out " * 50_000)
        shell.say(2, b"err")
        shell.end(exited(3))

    api.handlers = [run]
    async with execute(client, "a", "ide", ["sh", "-c", "x y"]) as session:
        output = await read_all(session)
    assert output == {Stream.STDOUT: b"out " * 50_000, Stream.STDERR: b"err"}
    assert session.exit_code == 3
    request = api.requests[0]
    assert request.path == "/api/v1/namespaces/spaces/pods/a/exec"
    assert request.query == {"container": "ide", "stdout": "true", "command": "sh", "stderr": "true"}
    assert request.headers["sec-websocket-protocol"] == "v5.channel.k8s.io"


async def test_input_is_given_and_ended_and_a_terminal_is_resized(
    api: HostileApi, client: KubernetesClient
) -> None:
    heard: list[tuple[int, bytes]] = []

    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        while not heard or heard[-1][1][0] != 255:
            heard.append(await shell.hear())
        shell.end(SUCCESS)

    api.handlers = [run]
    text = bytes(range(256)) * 300
    async with execute(client, "a", "ide", ["cat"], has_input=True, has_terminal=True) as session:
        await session.resize(120, 40)
        await session.write(text)
        await session.end_input()
        assert await read_all(session) == {Stream.STDOUT: b"", Stream.STDERR: b""}
    assert session.exit_code == 0
    contents = [(payload[0], payload[1:]) for _, payload in heard]
    assert json.loads(contents[0][1]) == {"Width": 120, "Height": 40}
    assert b"".join(content for channel, content in contents if channel == 0) == text
    assert contents[-1] == (255, b"\0")
    assert (api.requests[0].query["tty"], api.requests[0].query["stdin"]) == ("true", "true")
    assert "stderr" not in api.requests[0].query


async def test_a_message_may_come_in_frames_between_which_the_server_pings(
    api: HostileApi, client: KubernetesClient
) -> None:
    pongs: list[tuple[int, bytes]] = []

    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        shell.frame(b"\x01one ", BINARY)
        shell.frame(b"are you there", LAST | PING)
        pongs.append(await shell.hear())
        shell.frame(b"two", LAST)
        shell.end(SUCCESS)

    api.handlers = [run]
    async with execute(client, "a", "ide", ["x"]) as session:
        assert await session.read() == (Stream.STDOUT, b"one two")
        assert await session.read() is None
    assert pongs == [(0xA, b"are you there")]


async def test_a_reader_that_gives_up_halfway_loses_nothing(
    api: HostileApi, client: KubernetesClient
) -> None:
    go_on = asyncio.Event()

    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        talk.writer.write(bytes([LAST | BINARY, 4, 1]) + b"a")
        await go_on.wait()
        talk.writer.write(b"bc")
        shell.end(SUCCESS)

    api.handlers = [run]
    async with execute(client, "a", "ide", ["x"]) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await session.read()
        go_on.set()
        assert await session.read() == (Stream.STDOUT, b"abc")


@pytest.mark.parametrize("how", ["cut", "close", "garbage"])
async def test_a_line_that_is_cut_is_no_end_of_the_command(
    api: HostileApi, client: KubernetesClient, how: str
) -> None:
    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        shell.say(1, b"half")
        await talk.writer.drain()
        if how == "close":
            shell.frame(b"", LAST | CLOSE)
        elif how == "garbage":
            talk.writer.write(b"\x82\xff" + b"\xff" * 20)
        else:
            talk.writer.close()

    api.handlers = [run]
    async with execute(client, "a", "ide", ["x"]) as session:
        assert await session.read() == (Stream.STDOUT, b"half")
        with pytest.raises(BackendUnreachable, match="KubernetesUnreachable"):
            await session.read()


async def test_a_command_that_can_t_be_run_says_why(api: HostileApi, client: KubernetesClient) -> None:
    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        shell.end({"status": "Failure", "reason": "InternalError", "message": "no such file: x"})

    api.handlers = [run]
    async with execute(client, "a", "ide", ["x"]) as session:
        with pytest.raises(ActionFailed, match="no such file: x"):
            await session.read()


async def test_a_refusal_before_the_upgrade_is_what_it_means(
    api: HostileApi, client: KubernetesClient
) -> None:
    async def refuse(talk: Conversation) -> None:
        talk.refuse(404, "NotFound", 'pods "a" not found')

    api.handlers = [refuse]
    with pytest.raises(NotFound, match='pods "a" not found'):
        async with execute(client, "a", "ide", ["x"]):
            pass


async def test_a_token_that_has_rotated_is_read_again_for_a_command(
    api: HostileApi, client: KubernetesClient
) -> None:
    async def refuse(talk: Conversation) -> None:
        talk.refuse(401, "Unauthorized")

    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        shell.end(SUCCESS)

    api.handlers = [refuse, run]
    async with execute(client, "a", "ide", ["x"]) as session:
        assert await session.read() is None


async def test_a_server_of_an_older_protocol_is_refused(api: HostileApi, client: KubernetesClient) -> None:
    async def run(talk: Conversation) -> None:
        Shell(talk).accept("v4.channel.k8s.io")

    api.handlers = [run]
    with pytest.raises(BackendUnreachable, match=r"speaks v4\.channel\.k8s\.io"):
        async with execute(client, "a", "ide", ["x"]):
            pass


async def test_an_error_of_the_caller_is_not_taken_for_an_outage(
    api: HostileApi, client: KubernetesClient
) -> None:
    async def run(talk: Conversation) -> None:
        Shell(talk).accept()

    api.handlers = [run]
    with pytest.raises(ValueError, match="the caller's own"):
        async with execute(client, "a", "ide", ["x"]):
            raise ValueError("the caller's own")
