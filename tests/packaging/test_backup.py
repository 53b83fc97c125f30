"""Back-up and restore as docs/operators.md has them: by `codehub backup` and `codehub restore`, and by
hand.
"""

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.command import Command
from tests.support.light_ide import light_code_server
from tests.support.mounts import mounted
from tests.support.patience import PATIENCE_S
from tests.support.postgres import DEBIAN_15, NEEDS_DEBIAN_15, running_server
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
            output = await inside(server, workspace_id, headers, "cat ~/link; stat -c %a ~/note")
            assert output == f"kept by {name}\n640"


@NEEDS_DEBIAN_15
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


@NEEDS_DEBIAN_15
async def test_work_that_is_newer_than_a_restored_dump_is_told_of_and_taken(
    light_ide: None, tmp_path: Path
) -> None:
    """An older dump under an installation that went on: the archive that
    only the world knows is neither removed nor passed over.
    """
    del light_ide
    dump, settings = tmp_path / "dump", {"archive_url": (tmp_path / "archives").as_uri()}
    async with running_server("postgres-15") as there, there.empty() as database, there.empty() as older:
        url, older_url = (f"postgresql://admin@/{name}?host={there.directory}" for name in (database, older))
        with running(
            tmp_path / "data", initial_admin_password=PASSWORD, database_url=url, **settings
        ) as server:
            command, headers = await signed_in(server, tmp_path / "one")
            made = (await command("ws", "create", "demo", "--wait", "--json")).lines[-1]["id"]
            await inside(server, made, headers, "echo older >~/note")
            assert (await command("ws", "archive", "demo", "--wait")).code == 0
            before = archives_in(tmp_path / "archives")
            postgres("pg_dump", "-Fc", "-f", str(dump), url)
            assert (await command("ws", "start", "demo", "--wait")).code == 0
            await inside(server, made, headers, "echo newer >~/note")
            assert (await command("ws", "archive", "demo", "--wait")).code == 0
            assert server.stop() == 0
        (newest,) = archives_in(tmp_path / "archives") - before
        postgres("pg_restore", "-d", older_url, "--exit-on-error", str(dump))
        where = {"data_dir": str(tmp_path / "data"), "database_url": older_url, **settings}
        collected = codehub("gc", "--json", gc_grace_seconds="0", **where)
        assert collected.returncode == 0, collected.stderr
        report = json.loads(collected.stdout)
        assert ([each["name"] for each in report["newer"]], report["removed"]) == ([newest], [])
        with running(tmp_path / "data", database_url=older_url, **settings) as server:
            command, headers = await signed_in(server, tmp_path / "two")
            assert (await command("ws", "start", "demo", "--wait")).code != 0
            error = (await command("ws", "show", "demo", "--json")).json["error"]
            assert (error["reason"], error["context"]["newest_archive"]) == ("DataLost", newest)
            recovered = await command("ws", "recover", "demo", "--take-newest", "--wait")
            assert recovered.code == 0, recovered.err
            assert await inside(server, made, headers, "cat ~/note") == "newer"
            assert before < archives_in(tmp_path / "archives")


def archives_in(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*.tar.zst")}


async def two_workspaces(
    server: Running, command: Command, headers: dict[str, str], names: tuple[str, ...] = ("awake", "archived")
) -> dict[str, str]:
    """Make one that goes on running, with work that no archive has, and one that is archived."""
    ids = {}
    for name in names:
        ids[name] = (await command("ws", "create", name, "--wait", "--json")).lines[-1]["id"]
        await inside(server, ids[name], headers, f"echo kept by {name} >~/note; chmod 640 ~/note")
    assert (await command("ws", "archive", "archived", "--wait")).code == 0
    return ids


async def all_there(server: Running, command: Command, headers: dict[str, str], ids: dict[str, str]) -> None:
    for name, workspace_id in ids.items():
        started = await command("ws", "start", name, "--wait", "--timeout", "110s")
        assert started.code == 0, started.err + (await command("explain", name)).out
        output = await inside(server, workspace_id, headers, "cat ~/note; stat -c %a ~/note")
        assert output == f"kept by {name}\n640"


async def test_a_back_up_of_a_running_codehub_is_the_whole_installation(
    light_ide: None, tmp_path: Path
) -> None:
    del light_ide
    data, copy, restored = tmp_path / "data", tmp_path / "copies" / "today", tmp_path / "restored"
    with running(data, initial_admin_password=PASSWORD) as server:
        command, headers = await signed_in(server, tmp_path / "one")
        ids = await two_workspaces(server, command, headers)
        made = codehub("backup", str(copy), "--json", data_dir=str(data))
        assert made.returncode == 0, made.stderr
        report = json.loads(made.stdout)
        assert (report["archives"], report["homes"], report["missing"]) == (1, ["awake"], [])
        refused = codehub("restore", str(copy), "--yes", data_dir=str(data))
        assert (refused.returncode, "a codehub runs in" in refused.stderr) == (1, True)
        assert server.stop() == 0
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in [copy, *copy.rglob("*")])
    refused = codehub("restore", str(copy), "--yes", data_dir=str(data))
    assert (refused.returncode, "is not empty" in refused.stderr) == (1, True)
    remove(data)
    done = codehub("restore", str(copy), "--yes", data_dir=str(restored))
    assert done.returncode == 0, done.stderr
    with running(restored) as server:
        command, headers = await signed_in(server, tmp_path / "two")
        await all_there(server, command, headers, ids)
        assert server.stop() == 0
    again = codehub("backup", str(copy), data_dir=str(restored))
    assert (again.returncode, "is not empty: name a new place" in again.stderr) == (1, True)


@pytest.mark.parametrize("where", ["inside", "outside"])
async def test_a_back_up_comes_back_with_homes_in_a_directory_of_their_own(
    light_ide: None, tmp_path: Path, where: str
) -> None:
    del light_ide

    def places(name: str) -> tuple[Path, Path]:
        data = tmp_path / name
        return data, data / "homes" if where == "inside" else tmp_path / f"homes of {name}"

    (data, homes), (restored, new_homes) = places("data"), places("restored")
    copy = tmp_path / "copy"
    with running(data, initial_admin_password=PASSWORD, homes_dir=str(homes)) as server:
        command, headers = await signed_in(server, tmp_path / "one")
        ids = await two_workspaces(server, command, headers)
        made = codehub("backup", str(copy), "--json", data_dir=str(data), homes_dir=str(homes))
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["homes"] == ["awake"]
        assert server.stop() == 0
    theirs = tmp_path / "theirs"
    (theirs / "users" / "somebody").mkdir(parents=True)
    for mark, message in ((None, "no codehub's mark"), ("another", "another installation's")):
        if mark is not None:
            (theirs / "users" / ".codehub-installation").write_text(mark)
        refused = codehub("restore", str(copy), "--yes", data_dir=str(restored), homes_dir=str(theirs))
        assert (refused.returncode, message in refused.stderr) == (1, True), refused.stderr
    remove(data)
    if where == "outside":
        remove(homes)
    done = codehub("restore", str(copy), "--yes", data_dir=str(restored), homes_dir=str(new_homes))
    assert done.returncode == 0, done.stderr
    with running(restored, homes_dir=str(new_homes)) as server:
        command, headers = await signed_in(server, tmp_path / "two")
        await all_there(server, command, headers, ids)
        assert (new_homes / "users").is_dir()
        assert server.stop() == 0


@NEEDS_DEBIAN_15
async def test_a_back_up_comes_back_on_a_server_that_has_never_seen_codehub(
    light_ide: None, tmp_path: Path
) -> None:
    """The scaled way, on the oldest server that codehub takes:
    the programs that dump and load are of a later one.
    """
    del light_ide
    copy, settings = tmp_path / "copy", {"archive_url": (tmp_path / "archives").as_uri()}
    async with running_server("postgres-15") as old, old.empty() as database:
        url = f"postgresql://admin@/{database}?host={old.directory}"
        with running(
            tmp_path / "data", initial_admin_password=PASSWORD, database_url=url, **settings
        ) as server:
            command, headers = await signed_in(server, tmp_path / "one")
            ids = await two_workspaces(server, command, headers)
            made = codehub("backup", str(copy), data_dir=str(tmp_path / "data"), database_url=url, **settings)
            assert made.returncode == 0, made.stderr
            refused = codehub("restore", str(copy), "--yes", database_url=url, **settings)
            assert (refused.returncode, "is not empty" in refused.stderr) == (1, True)
            assert server.stop() == 0
    remove(tmp_path / "data")
    remove(tmp_path / "archives")
    async with running_server("postgres-15", is_prepared=False) as new, new.empty() as database:
        url = f"postgresql://admin@/{database}?host={new.directory}"
        where = {"data_dir": str(tmp_path / "data"), "database_url": url, **settings}
        done = codehub("restore", str(copy), "--yes", **where)
        assert done.returncode == 0, done.stderr
        with running(tmp_path / "data", database_url=url, **settings) as server:
            command, headers = await signed_in(server, tmp_path / "two")
            await all_there(server, command, headers, ids)


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A back-up of a codehub that nobody has used yet."""
    place = tmp_path_factory.mktemp("backed-up")
    with running(place / "data", initial_admin_password=PASSWORD, ide="jupyterlab") as server:
        assert server.stop() == 0
    made = codehub("backup", str(place / "copy"), data_dir=str(place / "data"))
    assert made.returncode == 0, made.stderr
    return place / "copy"


def cut(copy: Path) -> None:
    os.truncate(copy / "database.dump", 1000)


def killed(copy: Path) -> None:
    (copy / "codehub-backup.json").unlink()


def of_another(copy: Path) -> None:
    (copy / "archives" / "codehub-installation").write_text("another")


def of_the_future(copy: Path) -> None:
    manifest = json.loads((copy / "codehub-backup.json").read_text())
    (copy / "codehub-backup.json").write_text(json.dumps(manifest | {"format": 2}))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (cut, "database.dump of the back-up is damaged"),
        (killed, "there is no complete back-up in"),
        (of_another, "belongs to another installation"),
        (of_the_future, "use a later codehub"),
    ],
)
def test_what_is_no_whole_back_up_is_not_restored_and_leaves_nothing(
    backed_up: Path, tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", backed_up, copy], check=True)
    harm(copy)
    refused = codehub("restore", str(copy), "--yes", data_dir=str(tmp_path / "data"))
    assert refused.returncode == 1
    assert message in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_back_up_is_restored_into_a_directory_that_is_a_disk_of_its_own(
    backed_up: Path, tmp_path: Path
) -> None:
    with mounted(tmp_path / "data", size="512m") as data:
        done = codehub("restore", str(backed_up), "--yes", data_dir=str(data))
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in data.iterdir()) == ["archives", "postgres", "run", "users"]
        assert "admin" in codehub("user", "list", data_dir=str(data)).stdout


def test_nothing_is_restored_where_nobody_can_be_asked(backed_up: Path, tmp_path: Path) -> None:
    refused = codehub("restore", str(backed_up), data_dir=str(tmp_path / "data"))
    assert refused.returncode == 2
    assert "This back-up has:" in refused.stderr
    assert not any(tmp_path.iterdir())


def postgres(program: str, *arguments: str) -> None:
    subprocess.run([DEBIAN_15 / program, *arguments], check=True)
