"""What a person in a workspace can see and do: their own home, a system to read, and nobody else's."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.instances import LocalWorld, local_world, new_spec, server_profile

SCRATCH = ("/tmp/mine", "/var/tmp/mine", "/dev/shm/mine")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a workspace a user of its own")


async def test_other_homes_and_the_data_directory_are_invisible(sandboxed: LocalWorld) -> None:
    workspace_id, other = await sandboxed.run(), await sandboxed.run()
    (sandboxed.home(other) / "secret").write_text("the other's")
    (sandboxed.data_dir / "key").write_text("codehub's")
    for path in (sandboxed.home(other), sandboxed.data_dir, sandboxed.data_dir / "key", Path("/etc/shadow")):
        assert "No such file" in await sandboxed.inside(workspace_id, f"ls {path}"), path
    assert (await sandboxed.inside(workspace_id, "ls /home")).split() == ["coder"]
    assert "secret" not in await sandboxed.inside(
        workspace_id, "ls -R /home /root /run /tmp /var /work 2>/dev/null"
    )


async def test_the_home_is_at_home_and_what_is_written_there_stays(sandboxed: LocalWorld) -> None:
    spec = new_spec()
    workspace_id = await sandboxed.run(spec)
    assert (await sandboxed.inside(workspace_id, "pwd; echo $HOME; echo hello > kept; ls -A")).split() == [
        "/home/coder",
        "/home/coder",
        "kept",
    ]
    await sandboxed.instances.delete(workspace_id)
    assert (sandboxed.home(workspace_id) / "kept").read_text() == "hello\n"


async def test_processes_outside_are_invisible_and_unreachable(sandboxed: LocalWorld) -> None:
    workspace_id, other = await sandboxed.run(), await sandboxed.run()
    pids = (await sandboxed.inside(workspace_id, "cd /proc; echo [0-9]*")).split()
    assert len(pids) < 8
    assert "ide_server" in await sandboxed.inside(workspace_id, "cat /proc/2/cmdline")
    assert str(other) not in await sandboxed.inside(workspace_id, "cat /proc/[0-9]*/cmdline")
    assert str(os.getpid()) not in pids
    assert "Permission denied" in await sandboxed.inside(workspace_id, "ls /proc/1/root/ /proc/1/fd")


async def test_the_system_can_be_read_and_not_written(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    for path in ("/x", "/usr/x", "/etc/x", "/run/x", "/home/x", "/root/x", "/etc/passwd"):
        output = await sandboxed.inside(workspace_id, f"echo hello >> {path}")
        assert "Read-only" in output or "denied" in output or "No such file" in output, path
    assert "coder" in await sandboxed.inside(workspace_id, "whoami; getent passwd $(id -u)")


async def test_tmp_is_its_own(sandboxed: LocalWorld) -> None:
    workspace_id, other = await sandboxed.run(), await sandboxed.run()
    await sandboxed.inside(
        workspace_id, "echo hello > /tmp/mine; echo hello > /var/tmp/mine; echo hello > /dev/shm/mine"
    )
    for path in SCRATCH:
        assert await sandboxed.inside(workspace_id, f"cat {path}") == "hello\n"
        assert "No such file" in await sandboxed.inside(other, f"cat {path}")
    assert not any(map(os.path.lexists, SCRATCH))


@AS_ROOT
async def test_each_workspace_has_a_user_of_its_own_and_keeps_it(world: LocalWorld) -> None:
    spec = new_spec()
    workspace_id, other = await world.run(spec), await world.run()
    uids = [int(await world.inside(each, "id -u")) for each in (workspace_id, other)]
    assert len({*uids, 0}) == 3
    assert [world.home(each).stat().st_uid for each in (workspace_id, other)] == uids
    await world.instances.delete(workspace_id)
    await world.instances.start(spec, f"volume of {workspace_id}")
    assert world.instances.uid_of(workspace_id) == uids[0]
    assert await world.inside(other, "id -g; id -G") == f"{uids[1]}\n{uids[1]}\n"


async def test_there_is_no_way_to_more_rights(world: LocalWorld) -> None:
    workspace_id = await world.run()
    status = await world.inside(workspace_id, "cat /proc/self/status")
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status
    assert "CapPrm:\t0000000000000000" in status


@AS_ROOT
async def test_capabilities_can_never_come_back(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    assert "CapBnd:\t0000000000000000" in await sandboxed.inside(workspace_id, "cat /proc/self/status")
    assert "CapEff:\t0000000000000000" in await sandboxed.inside(workspace_id, "cat /proc/1/status")


async def test_the_environment_is_made_for_it_and_nothing_of_codehub_is_in_it(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "CODEHUB_DATABASE_URL": "postgres://secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "PGPASSWORD": "secret",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    workspace_id = await world.run()
    entries = (
        await world.inside(workspace_id, "cat /proc/$PPID/environ; env -0; cat /proc/*/environ")
    ).split("\0")
    if world.instances.warnings == ():
        assert not any("secret" in entry for entry in entries)
    names = {
        entry.partition("=")[0] for entry in (await world.inside(workspace_id, "env -0")).split("\0") if entry
    }
    allowed = {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "CODEHUB_INSTALL", "CODEHUB_WORKSPACE"}
    assert names <= allowed | {
        "XDG_RUNTIME_DIR",
        "JUPYTER_RUNTIME_DIR",
        "CODE_SERVER_SESSION_SOCKET",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
        "LC_CTYPE",
    }


async def test_no_open_file_of_codehub_is_passed_on(sandboxed: LocalWorld) -> None:
    fd = os.open(sandboxed.data_dir, os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        workspace_id = await sandboxed.run()
    finally:
        os.close(fd)
    targets = (await sandboxed.inside(workspace_id, "readlink /proc/2/fd/*")).split()
    assert not [target for target in targets if "data" in target and not target.endswith("/log")], targets


@AS_ROOT
async def test_python_and_the_ide_may_lie_where_only_root_can_go(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    profiles = {"http": server_profile(closed / "ide", python=Path(sys.executable))}
    async with local_world(ides=profiles) as world:
        base = world.data_dir.parent
        base.chmod(0o700)
        if world.instances.warnings:
            pytest.skip("there is no sandbox here")
        workspace_id = await world.run()
        assert f"uid={world.instances.uid_of(workspace_id)}(coder)" in await world.inside(workspace_id, "id")
        assert "secret" not in await world.inside(workspace_id, f"ls -R {tmp_path} {base} /root")
    shutil.rmtree(closed)


async def test_a_link_in_place_of_the_socket_is_not_followed(sandboxed: LocalWorld) -> None:
    workspace_id, other = await sandboxed.run(), await sandboxed.run()
    victim = sandboxed.instances.run_directory.of(other).runtime / "ide.sock"
    output = await sandboxed.inside(
        workspace_id, f"cd /run/codehub && rm ide.sock && ln -s {victim} ide.sock; readlink *"
    )
    assert output == f"{victim}\n"
    assert await sandboxed.instances.resolve_upstream(workspace_id) is None
    seen = await sandboxed.instances.status(workspace_id)
    assert seen is not None
    assert (seen.running, seen.healthy) == (True, False)
