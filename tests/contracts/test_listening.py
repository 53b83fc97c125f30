"""What every platform promises of looking at what listens in an instance.

No test knows which platform it is on.
"""

import asyncio
import re
import socket
from contextlib import AsyncExitStack
from uuid import UUID

import pytest
from tests.contracts.test_instance_access import (
    PORT,
    in_cluster,
    platform,
    read_line,
    run,
    running,
    with_loopback,
)
from tests.support.access_worlds import AccessWorld
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.listeners import listeners
from codehub.ports.instance_access import Command, Listener, NotRunning, RelayRefused

__all__ = ["in_cluster", "platform", "running", "with_loopback"]


async def ports_of(world: AccessWorld, workspace_id: UUID) -> list[int]:
    return [listener.port for listener in await world.access.listening(workspace_id)]


async def test_what_listens_is_seen_with_its_process_and_no_more_when_it_ends(
    with_loopback: AccessWorld, running: UUID
) -> None:
    assert await ports_of(with_loopback, running) == []
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
        for port in (PORT + 1, PORT):
            server = Command(with_loopback.program("serve", port, ""))
            session = await stack.enter_async_context(with_loopback.access.exec(running, server))
            assert await read_line(session.output) == "ready"
        listed = await with_loopback.access.listening(running)
        assert [listener.port for listener in listed] == [PORT, PORT + 1]
        assert all(re.fullmatch("serve|python3.*", listener.process or "") for listener in listed), listed

    async def is_gone() -> bool:
        return await ports_of(with_loopback, running) == []

    await until(is_gone)


async def test_the_ide_itself_is_not_listed(with_loopback: AccessWorld, running: UUID) -> None:
    assert await with_loopback.access.listening(running) == []


async def test_each_instance_has_ports_of_its_own(with_loopback: AccessWorld) -> None:
    first, second = [await run(with_loopback), await run(with_loopback)]
    server = Command(with_loopback.program("serve", PORT, ""))
    async with asyncio.timeout(PATIENCE_S), with_loopback.access.exec(first, server) as session:
        assert await read_line(session.output) == "ready"
        assert await ports_of(with_loopback, first) == [PORT]
        assert await ports_of(with_loopback, second) == []


async def test_nothing_listens_where_nothing_runs(with_loopback: AccessWorld) -> None:
    workspace_id = await run(with_loopback)
    await with_loopback.instances.delete(workspace_id)
    with pytest.raises(NotRunning):
        await with_loopback.access.listening(workspace_id)


async def test_the_machines_own_ports_are_never_listed(platform: AccessWorld, running: UUID) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        if platform.has_loopback:
            assert ours.getsockname()[1] not in await ports_of(platform, running)
        else:
            with pytest.raises(RelayRefused):
                await platform.access.listening(running)


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
REST = "00000000:00000000 00:00000000 00000000"
NOWHERE, NOWHERE_6 = "00000000:0000", f"{0:032}:0000"
TABLE = "\n".join(
    (
        HEAD,
        f"   0: 0100007F:0BB8 {NOWHERE} 0A {REST}  1000 0 11 1 x 100 0 0 10 0",
        f"   1: 00000000:1F90 {NOWHERE} 0A {REST}  1000 0 12 1 x 100 0 0 10 0",
        f"   2: 0B00007F:9C40 {NOWHERE} 0A {REST}     0 0 13 1 x 100 0 0 10 0",
        f"   3: 0100007F:0BB9 0100007F:0BB8 01 {REST}  1000 0 14 1 x 100 0 0 10 0",
        f"   4: 00000000000000000000000001000000:1389 {NOWHERE_6} 0A {REST}  1000 0 15 1 x 100 0 0 10 0",
        f"   5: 00000000000000000000000000000000:138A {NOWHERE_6} 0A {REST}  1000 0 16 1 x 100 0 0 10 0",
        f"   6: 0000000000000000FFFF00000100007F:138B {NOWHERE_6} 0A {REST}  1000 0 17 1 x 100 0 0 10 0",
        f"   7: 0100A8C0:138C {NOWHERE} 0A {REST}  1000 0 18 1 x 100 0 0 10 0",
        f"   8: 00000000000000000000000000000000:0BB8 {NOWHERE_6} 0A {REST}  1000 0 19 1 x 100 0 0 10 0",
    )
)


def test_listeners_of_the_loopback_and_of_every_address_count() -> None:
    names = {"11": "vite", "12": "code-server", "15": "", "16": "a\x1b[31mb", "19": "another"}
    assert listeners(TABLE.splitlines(), names, ide_port=8080) == [
        Listener(3000, "vite"),
        Listener(5001, None),
        Listener(5002, "a[31mb"),
        Listener(5003, None),
    ]


@pytest.mark.parametrize(
    "line", ["", "x", "0: :: 0A", "0: 0100007F:ZZZZ 0 0A 0 0 0 0 0 0", "\0" * 100, "0A " * 50]
)
def test_what_is_no_table_says_nothing(line: str) -> None:
    assert listeners([line], {}) == []
