"""What is kept on disk: it is believed only where it is whole, and it does not grow."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.instances import LocalWorld, new_spec
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.local import accounts, output
from codehub.adapters.local.accounts import Accounts
from codehub.adapters.local.installed_ides import IdePaths, installed_ides
from codehub.adapters.local.sandbox import blocked_directory
from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import UnixUpstream

ROOT = Path(__file__).parents[3]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")


@pytest.mark.parametrize("marker", [None, "another's"])
async def test_a_directory_that_is_not_ours_is_blindness_and_not_emptiness(
    sandboxed: LocalWorld, marker: str | None
) -> None:
    spec = new_spec()
    await sandboxed.run(spec)
    path = sandboxed.data_dir / "run" / "instances" / "installation"
    kept = path.read_text()
    path.unlink() if marker is None else path.write_text(marker)
    with pytest.raises(BackendUnreachable):
        await sandboxed.instances.list_all()
    with pytest.raises(BackendUnreachable):
        await sandboxed.instances.status(spec.workspace_id)
    with pytest.raises(BackendUnreachable):
        await sandboxed.instances.start(spec, f"volume of {spec.workspace_id}")
    with pytest.raises(BackendUnreachable):
        await sandboxed.instances.delete(spec.workspace_id)
    path.write_text(kept)
    assert list(await sandboxed.instances.list_all()) == [spec.workspace_id]


async def test_an_ide_that_is_not_installed_is_refused_with_what_there_is(sandboxed: LocalWorld) -> None:
    spec = new_spec(ide="code-server")
    with pytest.raises(ActionFailed, match="IdeNotInstalled ide=code-server installed=http"):
        await sandboxed.instances.start(spec, await sandboxed.make_volume(spec))


async def test_a_data_directory_with_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    base = tmp_path / ("long" * 20)
    (base / "data").mkdir(parents=True)
    world = LocalWorld(base)
    await world.instances.open()
    try:
        workspace_id = await world.run()
        upstream = await world.instances.resolve_upstream(workspace_id)
        assert isinstance(upstream, UnixUpstream)
        assert len(str(upstream.path)) <= 107
        assert await world.inside(workspace_id, "echo hello") == "hello\n"
    finally:
        await world.instances.stop_all(grace_s=0.5)
        await world.instances.close()
        shutil.rmtree(base)


async def test_the_log_is_followed_until_its_instance_is_deleted(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    heard: list[bytes] = []

    async def listen() -> None:
        async for piece in sandboxed.instances.logs(workspace_id, follow=True):
            heard.append(piece)  # noqa: PERF401  # each is wanted when it comes

    listening = asyncio.create_task(listen())
    await sandboxed.post(workspace_id, "/say", "a line of my own\n")

    async def arrived() -> bool:
        return b"a line of my own\n" in b"".join(heard)

    await until(arrived)
    await sandboxed.instances.delete(workspace_id)
    async with asyncio.timeout(PATIENCE_S):
        await listening


async def test_the_log_does_not_grow_without_end(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    path = sandboxed.instances.run_directory.of(workspace_id).log

    async def is_too_long() -> bool:
        return path.stat().st_size > output.SIZE_MAX

    await sandboxed.post(workspace_id, "/say", "a line\n" * 1_000_000 + "the last\n")
    await until(is_too_long)
    await sandboxed.instances.list_all()
    assert path.stat().st_size < output.SIZE_MAX
    await sandboxed.post(workspace_id, "/say", "the next\n")
    log = b"".join([line async for line in sandboxed.instances.logs(workspace_id, tail=1_000)])
    assert b"the last\n" in log
    assert b"the next\n" in log
    assert b"\0" not in log


def test_no_two_workspaces_and_no_two_installations_get_one_uid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    ids = [SystemIdentity().new_id() for _ in range(50)]
    accounts, other = Accounts(tmp_path / "one", "one"), Accounts(tmp_path / "other", "other")
    first = [accounts.uid_of(each) for each in ids]
    assert len({*first, *(other.uid_of(each) for each in ids)}) == 100
    assert [Accounts(tmp_path / "one", "one").uid_of(each) for each in ids] == first


def test_a_line_that_a_crash_cut_short_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    workspace_id, other = SystemIdentity().new_id(), SystemIdentity().new_id()
    path = tmp_path / "uids"
    first = Accounts(path, "x").uid_of(workspace_id)
    with path.open("ab") as file:
        file.write(str(other)[:10].encode())
    second = Accounts(path, "x").uid_of(other)
    assert first is not None
    assert second == first + 1
    assert path.read_text() == f"{workspace_id}\n{other}\n"


def test_in_a_container_with_few_uids_the_upper_half_is_used() -> None:
    assert accounts.first_uid("x", 65_535) == 32_767


def test_code_server_is_preferred_where_it_is_installed(tmp_path: Path) -> None:
    entry = tmp_path / "lib" / "code-server-4.100.3" / "bin" / "code-server"
    entry.parent.mkdir(parents=True)
    entry.write_text("#!/bin/sh\n")
    (tmp_path / "code-server").symlink_to(entry)
    ides = installed_ides({"code-server": tmp_path / "code-server"})
    assert next(iter(ides)) == "code-server"
    ide = ides["code-server"]
    assert ide.visible == (entry.parent.parent,)
    workspace_id = UUID(int=1)
    argv = ide.argv(IdePaths(workspace_id, "/home/coder", "/run/codehub/ide.sock", "/run/codehub"))
    assert argv[0] == str(entry)
    assert list(argv[-3:]) == ["--socket", "/run/codehub/ide.sock", "/home/coder"]
    assert ide.profile.health_path == "/healthz"
    assert not ide.profile.keeps_prefix


def test_code_server_from_npm_sees_its_modules_and_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tmp_path / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    entry.parent.mkdir(parents=True)
    entry.write_text("")
    node = tmp_path / "node" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(node.parent))
    ide = installed_ides({"code-server": entry})["code-server"]
    assert set(ide.visible) == {tmp_path / "node_modules", node.parent}
    assert list(ide.argv(IdePaths(UUID(int=1), "h", "s", None))[:2]) == [str(node), str(entry)]


def test_jupyterlab_is_told_to_trust_the_proxy_and_nobody_else() -> None:
    ide = installed_ides().get("jupyterlab")
    if ide is None:
        pytest.skip("JupyterLab is not installed")
    arguments = ide.argv(IdePaths(UUID(int=1), "/home/coder", "/run/codehub/ide.sock", "/run/codehub"))
    assert arguments[0] == sys.executable
    assert f"--ServerApp.base_url=/w/{UUID(int=1)}/" in arguments
    assert "--KernelManager.transport=ipc" in arguments
    assert not any("xsrf" in word or "allow_origin" in word for word in arguments)
    assert ide.profile.keeps_prefix


@AS_ROOT
def test_without_root_the_sandbox_is_made_by_the_person_who_runs_codehub() -> None:
    """The other half of the machines: no uid to give, so a user namespace keeps workspaces apart."""
    python = Path("/usr/bin/python3")
    if not python.exists() or blocked_directory(ROOT, 65_000) is not None:
        pytest.skip("there is no Python that another user could run codehub with")
    base = Path(tempfile.gettempdir()) / f"codehub-person-{os.getpid()}"
    (base / "data").mkdir(parents=True)
    for path in (base, base / "data"):
        os.chown(path, 65_000, 65_000)
    packages = next((ROOT / ".venv" / "lib").glob("python3*/site-packages"))
    command = ["/usr/bin/setpriv", "--reuid=65000", "--regid=65000", "--clear-groups", str(python)]
    workspace_id = SystemIdentity().new_id()
    arguments = ["-m", "tests.support.local_supervisor", str(base), "person", str(workspace_id), "report"]
    asked = f"id -u\nls /home\ncat /proc/self/status\nls {base}\n"
    try:
        done = subprocess.run(
            [*command, *arguments],
            input=asked.encode(),
            cwd=ROOT,
            env={
                "PYTHONPATH": f"{ROOT}:{ROOT}/src:{packages}",
                "PATH": "/usr/bin:/bin",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        output = done.stdout.decode()
        assert done.returncode == 0, done.stderr.decode()
        if "ISOLATED" in output:
            pytest.skip("users can't make sandboxes here")
        assert "65000\ncoder\n" in output
        assert "NoNewPrivs:\t1" in output
        assert "\ndata\n" not in output
        assert "\nide\n" in output, "the server's own directory is visible, the data beside it is not"
        assert not any((base / "data" / "run" / "instances").glob("*-*"))
    finally:
        shutil.rmtree(base)
