"""A command in a local instance has exactly the rights of its IDE, and a port is never this machine's."""

import json
import socket
from pathlib import Path

import pytest
from tests.support.instances import LocalWorld

from codehub.adapters.local.instance_access import LocalInstanceAccess
from codehub.ports.instance_access import ByteSource, Command, ExitStatus, RelayRefused, TerminalSize

_RIGHTS = (
    "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|CoreDumping)' /proc/self/status; readlink "
    "/proc/self/ns/*; cat /proc/self/cgroup; grep -E 'processes|files' /proc/self/limits; ls -1 / /dev; umask"
)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def output_of(world: LocalWorld, workspace_id: object, script: str, **fields: object) -> str:
    command = Command(("sh", "-c", script), **fields)  # type: ignore[arg-type]
    access = LocalInstanceAccess(world.instances)
    async with access.exec(workspace_id, command) as session:  # type: ignore[arg-type]
        await session.input.close()
        return await _text(session.output) + await _text(session.error_output)


async def _text(source: ByteSource) -> str:
    data = b""
    while part := await source.read():
        data += part
    return data.decode()


@pytest.mark.parametrize("terminal", [None, TerminalSize()], ids=["pipes", "a terminal"])
async def test_a_command_has_the_rights_of_the_ide(world: LocalWorld, terminal: TerminalSize | None) -> None:
    workspace_id = await world.run()
    by_command = await output_of(world, workspace_id, _RIGHTS, terminal=terminal)
    assert by_command.split() == (await world.inside(workspace_id, _RIGHTS)).split()


async def test_a_command_sees_no_other_workspace_and_nothing_of_codehub(
    sandboxed: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEHUB_DATABASE_URL", "postgres://secret")
    workspace_id, other = await sandboxed.run(), await sandboxed.run()
    (sandboxed.home(other) / "secret").write_text("the other's")
    for path in (sandboxed.home(other), sandboxed.data_dir, "/etc/shadow", "/sys/fs/cgroup"):
        assert "No such file" in await output_of(sandboxed, workspace_id, f"ls {path}"), path
    assert "secret" not in await output_of(sandboxed, workspace_id, "env; cat /proc/[0-9]*/environ 2>&1")
    assert (
        await output_of(sandboxed, workspace_id, "cd /proc/self/fd; echo *") == "0 1 2 3\n"
    )  # 3 is the directory's
    assert str(other) not in await output_of(sandboxed, workspace_id, "cat /proc/[0-9]*/cmdline")


async def test_a_command_gives_itself_no_other_marks_nor_a_library_that_root_would_load(
    world: LocalWorld,
) -> None:
    workspace_id = await world.run()
    changes = {"CODEHUB_WORKSPACE": "another", "LD_PRELOAD": "/tmp/none.so", "GREETING": "hello"}
    output = await output_of(world, workspace_id, "env", environment=changes)
    assert f"CODEHUB_WORKSPACE={workspace_id}\n" in output
    assert "GREETING=hello\n" in output


async def test_a_code_above_128_is_no_signal(world: LocalWorld) -> None:
    workspace_id = await world.run()
    command = Command(("sh", "-c", "exit 137"))
    async with LocalInstanceAccess(world.instances).exec(workspace_id, command) as session:
        assert await session.wait() == ExitStatus(137)


async def test_a_command_reaches_nothing_on_this_machine_s_loopback(sandboxed: LocalWorld) -> None:
    if sandboxed.instances.shares_network:
        pytest.skip("workspaces share this machine's network here")
    workspace_id = await sandboxed.run()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = json.dumps(server.getsockname())
        script = f"import socket; socket.create_connection(tuple({address}), 5)"
        assert "refused" in await output_of(sandboxed, workspace_id, f"python3 -S -c '{script}'")


async def test_no_port_of_this_machine_is_reached(plain: LocalWorld) -> None:
    workspace_id = await plain.run()
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(RelayRefused):
        async with LocalInstanceAccess(plain.instances).relay(workspace_id, server.getsockname()[1]):
            pass


async def test_no_descriptor_of_ours_is_left_open(world: LocalWorld) -> None:
    workspace_id = await world.run()
    await output_of(world, workspace_id, "true")
    before = open_descriptors()
    for terminal in (None, TerminalSize()):
        await output_of(world, workspace_id, "echo hello", terminal=terminal)
    assert open_descriptors() == before
