"""What every platform promises of a way into an instance:
commands and ports. No test knows which platform it is on.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from signal import SIGKILL, SIGTERM, SIGUSR1
from uuid import UUID

import pytest
from tests.contracts.platforms import PLATFORMS
from tests.support.access_worlds import AccessWorld, local_access_world, memory_access_world
from tests.support.docker import Docker
from tests.support.docker_access import docker_access_world
from tests.support.instances import become_healthy, new_spec
from tests.support.kubernetes import Kubernetes
from tests.support.kubernetes_access import KubernetesAccessWorld, kubernetes_access_world
from tests.support.patience import PATIENCE_S, until, within

from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.instance_access import (
    ByteSource,
    Command,
    CommandSession,
    ExitStatus,
    NoSuchCommand,
    NothingListens,
    NotRunning,
    TerminalSize,
)

TEN_MB = 10 << 20
PORT = 4321


@pytest.fixture(scope="module")
async def in_cluster(
    kubernetes: Kubernetes, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Callable[[], Awaitable[AccessWorld]]]:
    """Lends one world of the cluster to all tests: an instance takes seconds there."""
    async with AsyncExitStack() as stack:
        opened: list[AccessWorld] = []

        async def lend() -> AccessWorld:
            if not opened:
                made = kubernetes_access_world(kubernetes(), tmp_path_factory.mktemp("cluster"))
                opened.append(await stack.enter_async_context(made))
            return opened[0]

        yield lend


@pytest.fixture(params=PLATFORMS)
async def platform(
    request: pytest.FixtureRequest, docker: Docker, in_cluster: Callable[[], Awaitable[AccessWorld]]
) -> AsyncIterator[AccessWorld]:
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            yield memory_access_world()
        elif request.param == "docker":
            yield await stack.enter_async_context(docker_access_world(await docker()))
        elif request.param == "kubernetes":
            yield await in_cluster()
        else:
            sandbox = request.param == "local"
            yield await stack.enter_async_context(local_access_world(sandbox=sandbox))


@pytest.fixture
async def running(platform: AccessWorld) -> UUID:
    """One in which nothing runs but its IDE."""
    if isinstance(platform, KubernetesAccessWorld) and (idle := await platform.idle()) is not None:
        return idle
    return await run(platform)


@pytest.fixture
def with_loopback(platform: AccessWorld) -> AccessWorld:
    if not platform.has_loopback:
        pytest.skip("an instance has no loopback of its own here")
    return platform


async def run(platform: AccessWorld) -> UUID:
    spec = new_spec()
    await platform.instances.start(spec, await platform.make_volume(spec))
    await become_healthy(platform.instances, spec.workspace_id)
    if isinstance(platform, KubernetesAccessWorld):
        platform.keep(spec.workspace_id)
    return spec.workspace_id


async def read_all(source: ByteSource) -> bytes:
    data = bytearray()
    while part := await source.read():
        data += part
    return bytes(data)


async def read_line(source: ByteSource) -> str:
    data = b""
    while not data.endswith(b"\n"):
        part = await source.read()
        assert part, data
        data += part
    return data.decode().strip()


async def finish(session: CommandSession, data: bytes = b"") -> tuple[ExitStatus, bytes, bytes]:
    """Give it all of its input, and return how it ended and what it said."""

    async def give() -> None:
        await session.input.write(data)
        await session.input.close()

    async with asyncio.timeout(PATIENCE_S):
        _, output, errors = await asyncio.gather(
            give(), read_all(session.output), read_all(session.error_output)
        )
        return await session.wait(), output, errors


async def result(
    platform: AccessWorld, workspace_id: UUID, *call: object, **fields: object
) -> tuple[ExitStatus, bytes, bytes]:
    command = Command(platform.program(*call), **fields)  # type: ignore[arg-type]
    async with platform.access.exec(workspace_id, command) as session:
        return await finish(session)


async def is_gone(platform: AccessWorld, workspace_id: UUID, pid: str) -> bool:
    _, output, _ = await result(platform, workspace_id, "state", pid)
    return output == b"gone\n"


@pytest.mark.parametrize("code", [0, 1, 3, 77])
async def test_a_command_ends_with_its_own_code(platform: AccessWorld, running: UUID, code: int) -> None:
    assert await result(platform, running, "exit", code) == (ExitStatus(code), b"", b"")


async def test_its_error_output_is_apart(platform: AccessWorld, running: UUID) -> None:
    assert await result(platform, running, "both") == (ExitStatus(0), b"out\n", b"err\n")


async def test_ten_megabytes_go_both_ways_without_loss(platform: AccessWorld, running: UUID) -> None:
    data = b"".join(sha256(str(number).encode()).digest() for number in range(TEN_MB // 32))
    async with platform.access.exec(running, Command(platform.program("copy"))) as session:
        status, output, _ = await finish(session, data)
    assert status == ExitStatus(0)
    assert sha256(output).digest() == sha256(data).digest()


async def test_the_end_of_the_input_is_read(platform: AccessWorld, running: UUID) -> None:
    async with platform.access.exec(running, Command(platform.program("count"))) as session:
        status, output, _ = await finish(session, b"x" * 100_000)
        await session.input.close()
        with pytest.raises(BrokenPipeError):
            await session.input.write(b"more")
    assert (status, int(output)) == (ExitStatus(0), 100_000)


async def test_what_nobody_reads_holds_the_command_up(platform: AccessWorld, running: UUID) -> None:
    size = 32 << 20
    async with platform.access.exec(running, Command(platform.program("flood", size))) as session:
        waiting = asyncio.ensure_future(session.wait())
        for _ in range(3):  # that much time at least
            await result(platform, running, "exit", 0)
        assert not waiting.done()
        assert len(await read_all(session.output)) == size
        assert await waiting == ExitStatus(0)


async def test_it_is_given_variables_beside_those_of_the_ide(platform: AccessWorld, running: UUID) -> None:
    given = {"GREETING": "hello  'world' $HOME\né"}
    _, output, _ = await result(platform, running, "variable", "GREETING", environment=given)
    assert output.decode() == given["GREETING"] + "\n"
    _, output, _ = await result(platform, running, "variable", "HOME")
    _, home, _ = await result(platform, running, "directory")
    assert output == home


async def test_it_begins_in_the_home_or_where_it_is_told(platform: AccessWorld, running: UUID) -> None:
    _, output, _ = await result(platform, running, "directory", directory="/")
    assert output == b"/\n"
    with pytest.raises(NoSuchCommand):
        await result(platform, running, "directory", directory="/nowhere")


async def test_it_is_the_workspace_s_user_and_never_root(platform: AccessWorld, running: UUID) -> None:
    _, output, _ = await result(platform, running, "user")
    assert output.decode() == f"{platform.uid_of(running)}\n"


@pytest.mark.parametrize("argv", [("no-such-command",), ("/no/such/command", "x"), ("",), ("a\0b",), ()])
async def test_a_command_that_does_not_exist_is_refused(
    platform: AccessWorld, running: UUID, argv: tuple[str, ...]
) -> None:
    with pytest.raises(NoSuchCommand):
        async with platform.access.exec(running, Command(argv)):
            pass


async def test_nothing_runs_where_no_instance_does(platform: AccessWorld) -> None:
    command = Command(platform.program("exit", 0))
    with pytest.raises(NotRunning):
        async with platform.access.exec(SystemIdentity().new_id(), command):
            pass
    workspace_id = await run(platform)
    await platform.instances.delete(workspace_id)
    with pytest.raises(NotRunning):
        async with platform.access.exec(workspace_id, command):
            pass


async def test_a_terminal_has_a_size_and_gets_another(platform: AccessWorld, running: UUID) -> None:
    terminal = TerminalSize(columns=100, rows=30)
    status, output, errors = await result(platform, running, "size", terminal=terminal)
    assert (status, output.split(), errors) == (ExitStatus(0), [b"30", b"100"], b"")
    command = Command(platform.program("follow-size"), terminal=terminal)
    async with asyncio.timeout(PATIENCE_S), platform.access.exec(running, command) as session:
        assert await read_line(session.output) == "ready"
        await session.resize(TerminalSize(columns=132, rows=50))
        assert await read_line(session.output) == "50 132"


async def test_on_a_terminal_all_output_is_one(platform: AccessWorld, running: UUID) -> None:
    status, output, errors = await result(platform, running, "both", terminal=TerminalSize())
    assert (status, output.split(), errors) == (ExitStatus(0), [b"out", b"err"], b"")
    _, output, _ = await result(platform, running, "variable", "TERM", terminal=TerminalSize())
    assert output.strip() == b"xterm-256color"


async def test_a_signal_that_kills_is_told_from_a_code(platform: AccessWorld, running: UUID) -> None:
    for number in (SIGKILL, SIGTERM, SIGUSR1):
        async with platform.access.exec(running, Command(platform.program("stay"))) as session:
            await read_line(session.output)
            await session.send_signal(number)
            status, _, _ = await finish(session)
            assert status == ExitStatus(128 + number, number)
            await session.send_signal(number)  # nobody is there any more


@pytest.mark.parametrize("terminal", [None, TerminalSize()], ids=["pipes", "a terminal"])
async def test_a_signal_is_the_command_s_to_handle(
    platform: AccessWorld, running: UUID, terminal: TerminalSize | None
) -> None:
    command = Command(platform.program("end-politely"), terminal=terminal)
    async with asyncio.timeout(PATIENCE_S), platform.access.exec(running, command) as session:
        await read_line(session.output)
        await session.send_signal(SIGTERM)
        assert (await read_all(session.output)).strip().endswith(b"polite")  # a shell may say more
        assert await session.wait() == ExitStatus(7)


@pytest.mark.parametrize("program", ["stay", "stay-at-a-hang-up"])
async def test_a_command_ends_when_its_caller_goes(
    platform: AccessWorld, running: UUID, program: str
) -> None:
    begun = asyncio.get_running_loop().create_future()

    async def call() -> None:
        async with platform.access.exec(running, Command(platform.program(program))) as session:
            begun.set_result(await read_line(session.output))
            await session.wait()

    calling = asyncio.ensure_future(call())
    async with asyncio.timeout(PATIENCE_S):
        pid = await begun
    assert not await is_gone(platform, running, pid)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(lambda: is_gone(platform, running, pid))


@pytest.mark.parametrize("by_itself", [False, True], ids=["it is deleted", "it dies"])
async def test_a_command_ends_with_its_instance(
    platform: AccessWorld, running: UUID, by_itself: bool
) -> None:
    async with platform.access.exec(running, Command(platform.program("stay"))) as session:
        await read_line(session.output)
        waiting = asyncio.ensure_future(session.wait())
        await (platform.die(running) if by_itself else platform.instances.delete(running))
        async with within(PATIENCE_S):
            assert await read_all(session.output) == b""
            assert (await waiting).signal == SIGKILL


async def test_many_run_at_once(platform: AccessWorld, running: UUID) -> None:
    async def echo(number: int) -> bool:
        data = str(number).encode() * 50_000
        async with platform.access.exec(running, Command(platform.program("copy"))) as session:
            return await finish(session, data) == (ExitStatus(0), data, b"")

    assert all(await asyncio.gather(*map(echo, range(12))))


async def test_an_end_is_told_though_the_output_is_held_open(platform: AccessWorld, running: UUID) -> None:
    command = Command(platform.program("leave-output-open"))
    async with asyncio.timeout(PATIENCE_S):
        async with platform.access.exec(running, command) as session:
            assert await read_line(session.output) == "left"
            assert await session.wait() == ExitStatus(0)


async def test_a_wait_that_was_given_up_can_be_repeated(platform: AccessWorld, running: UUID) -> None:
    async with platform.access.exec(running, Command(platform.program("copy"))) as session:
        waiting = asyncio.ensure_future(session.wait())
        await session.input.write(b"x")
        await session.output.read()
        waiting.cancel()
        status, _, _ = await finish(session)
        assert status == await session.wait() == ExitStatus(0)


async def test_a_port_of_its_loopback_is_reached(with_loopback: AccessWorld, running: UUID) -> None:
    server = Command(with_loopback.program("serve", PORT, "a:"))
    async with asyncio.timeout(PATIENCE_S), with_loopback.access.exec(running, server) as session:
        assert await read_line(session.output) == "ready"
        for _ in range(2):
            async with with_loopback.access.relay(running, PORT) as stream:
                await stream.write(b"hello")
                await stream.close()  # only now it answers
                assert await read_all(stream) == b"a:hello"


async def test_ten_megabytes_go_through_a_port_and_back(with_loopback: AccessWorld, running: UUID) -> None:
    data = sha256(b"x").digest() * (TEN_MB // 32)
    server = Command(with_loopback.program("serve", PORT, ""))
    async with asyncio.timeout(PATIENCE_S), with_loopback.access.exec(running, server) as session:
        assert await read_line(session.output) == "ready"
        async with with_loopback.access.relay(running, PORT) as stream:
            await stream.write(data)
            await stream.close()
            assert sha256(await read_all(stream)).digest() == sha256(data).digest()


async def test_a_server_may_end_its_side_first(with_loopback: AccessWorld, running: UUID) -> None:
    server = Command(with_loopback.program("greet", PORT))
    async with asyncio.timeout(PATIENCE_S), with_loopback.access.exec(running, server) as session:
        assert await read_line(session.output) == "ready"
        async with with_loopback.access.relay(running, PORT) as stream:
            assert await read_all(stream) == b"hello"
            await stream.write(b"thanks")
            await stream.close()
            assert await read_line(session.output) == "thanks"


async def test_a_port_on_which_nothing_listens_is_told_from_no_instance(with_loopback: AccessWorld) -> None:
    workspace_id = await run(with_loopback)
    with pytest.raises(NothingListens):
        async with with_loopback.access.relay(workspace_id, PORT):
            pass
    await with_loopback.instances.delete(workspace_id)
    with pytest.raises(NotRunning):
        async with with_loopback.access.relay(workspace_id, PORT):
            pass


async def test_the_same_port_of_two_instances_is_two(with_loopback: AccessWorld) -> None:
    workspace_ids = [await run(with_loopback), await run(with_loopback)]
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
        for number, workspace_id in enumerate(workspace_ids):
            server = Command(with_loopback.program("serve", PORT, f"{number}:"))
            session = await stack.enter_async_context(with_loopback.access.exec(workspace_id, server))
            assert await read_line(session.output) == "ready"
        for number, workspace_id in enumerate(workspace_ids):
            async with with_loopback.access.relay(workspace_id, PORT) as stream:
                await stream.close()
                assert await read_all(stream) == f"{number}:".encode()


async def test_a_stream_ends_with_its_instance(with_loopback: AccessWorld, running: UUID) -> None:
    server = Command(with_loopback.program("serve", PORT, ""))
    async with asyncio.timeout(PATIENCE_S), with_loopback.access.exec(running, server) as session:
        assert await read_line(session.output) == "ready"
        async with with_loopback.access.relay(running, PORT) as stream:
            await stream.write(b"hello")
            await with_loopback.instances.delete(running)
            assert not re.search(b"hello", await read_all(stream))
