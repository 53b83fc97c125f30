"""Back-up and restore as docs/operators.md has them: the data directory, copied while codehub is stopped, is the whole installation."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.command import Command
from tests.support.light_ide import light_code_server
from tests.support.patience import PATIENCE_S
from tests.support.postgres import DEBIAN_15, NO_DEBIAN_15, running_server
from tests.support.program import Running, codehub, running

PASSWORD = "correct horse"


@pytest.fixture
def light_ide(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with light_code_server() as place:
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        yield


def back_up(data: Path, copy: Path) -> None:
    options = ("--numeric-owner", "--xattrs", "--acls", "--sparse", "--one-file-system")
    subprocess.run(["tar", *options, "-C", data, "-cf", copy, "."], check=True)


def restore(copy: Path, data: Path) -> None:
    data.mkdir(mode=0o700)
    subprocess.run(["tar", "--numeric-owner", "--xattrs", "--acls", "-C", data, "-xpf", copy], check=True)


def remove(data: Path) -> None:
    subprocess.run(["rm", "-rf", "--one-file-system", data], check=True)


async def signed_in(server: Running, home: Path) -> tuple[Command, dict[str, str]]:
    command = Command(home)
    login = ("login", server.address, "--username", "admin", "--password-stdin")
    assert (await command(*login, stdin=f"{PASSWORD}\n")).code == 0
    return command, {"Authorization": f"Bearer {(await command('token', 'create', 'x')).out.strip()}"}


async def inside(server: Running, workspace_id: str, headers: dict[str, str], line: str) -> str:
    """Run a line in the workspace, as its terminal would."""
    async with httpx.AsyncClient(timeout=PATIENCE_S, headers=headers) as client:
        url = f"{server.address}/w/{workspace_id}/run"
        return (await client.post(url, content=line.encode())).text.strip()


async def test_a_copy_of_the_data_directory_is_the_whole_installation(
    light_ide: None, tmp_path: Path
) -> None:
    del light_ide
    data, copy = tmp_path / "data", tmp_path / "copy.tar"
    ids = {}
    with running(data, initial_admin_password=PASSWORD) as server:
        command, headers = await signed_in(server, tmp_path / "one")
        for name in ("awake", "archived"):
            made = await command("ws", "create", name, "--wait", "--json")
            ids[name] = made.lines[-1]["id"]
            line = f"echo kept by {name} >~/note; chmod 640 ~/note; ln -s note ~/link"
            await inside(server, ids[name], headers, line)
        assert (await command("ws", "archive", "archived", "--wait")).code == 0
        assert server.stop() == 0
    back_up(data, copy)
    remove(data)
    restored = tmp_path / "restored"
    restore(copy, restored)
    with running(restored) as server:
        command, headers = await signed_in(server, tmp_path / "two")
        for name, workspace_id in ids.items():
            assert (await command("ws", "start", name, "--wait", "--timeout", "110s")).code == 0
            told = await inside(server, workspace_id, headers, "cat ~/link; stat -c %a ~/note")
            assert told == f"kept by {name}\n640"


@pytest.mark.skipif(not DEBIAN_15.exists(), reason=NO_DEBIAN_15)
async def test_a_dump_and_the_files_are_the_whole_installation_on_another_server(
    light_ide: None, tmp_path: Path
) -> None:
    """The scaled way: PostgreSQL's own dump, restored into a server that has never seen codehub."""
    del light_ide
    data, copy, dump = tmp_path / "data", tmp_path / "copy.tar", tmp_path / "dump"
    async with running_server("postgres-15") as old, old.empty() as database:
        url = f"postgresql://admin@/{database}?host={old.directory}"
        with running(data, initial_admin_password=PASSWORD, database_url=url) as server:
            command, headers = await signed_in(server, tmp_path / "one")
            made = (await command("ws", "create", "demo", "--wait", "--json")).lines[-1]["id"]
            await inside(server, made, headers, "echo kept >~/note")
            assert (await command("ws", "archive", "demo", "--wait")).code == 0
            assert server.stop() == 0
        postgres("pg_dump", "-Fc", "-f", str(dump), url)
    back_up(data, copy)
    remove(data)
    restore(copy, data)
    async with running_server("postgres-15", is_prepared=False) as new:
        async with new.empty() as scratch:
            assert (
                codehub(
                    "migrate", database_url=f"postgresql://admin@/{scratch}?host={new.directory}"
                ).returncode
                == 0
            )
        async with new.empty() as database:
            url = f"postgresql://admin@/{database}?host={new.directory}"
            postgres("pg_restore", "-d", url, "--exit-on-error", str(dump))
            with running(data, database_url=url) as server:
                command, headers = await signed_in(server, tmp_path / "two")
                assert (await command("ws", "start", "demo", "--wait", "--timeout", "110s")).code == 0
                assert await inside(server, made, headers, "cat ~/note") == "kept"


def postgres(program: str, *arguments: str) -> None:
    subprocess.run([DEBIAN_15 / program, *arguments], check=True)
