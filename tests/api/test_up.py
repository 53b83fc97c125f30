"""`codehub up` from outside: what it says, what it serves, and that nothing of it is left."""

import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S, ends_within
from tests.support.program import Running, codehub, processes_in, running

from codehub.adapters.postgres.embedded.address import find_postmaster


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up") / "data"


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Running]:
    with running(data_dir) as process:
        yield process


def test_it_says_where_it_is_and_that_it_is_ready(server: Running, data_dir: Path) -> None:
    password = server.lines[2]
    assert password.startswith("password: ")
    assert server.lines == (
        f"address: {server.address}",
        "user: admin",
        password,
        f"data: {data_dir}",
        "backend: local-process",
        "ide: jupyterlab",
        "ready",
    )
    assert server.address.startswith("http://127.0.0.1:")


def test_healthz_says_that_the_process_answers(server: Running) -> None:
    answer = server.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_readyz_says_that_the_database_answers(server: Running) -> None:
    assert server.until_ready().json() == {"ready": True, "checks": {"database": "ok", "controller": "ok"}}


def test_the_doctor_knows_whose_port_it_is(server: Running, data_dir: Path) -> None:
    found = codehub("doctor", data_dir=str(data_dir), port=server.address.rpartition(":")[2])
    assert found.returncode == 0, found.stdout
    assert f"{server.address} is this codehub's (pid {server.process.pid})" in found.stdout


def test_a_second_start_in_the_same_directory_says_so(server: Running, data_dir: Path) -> None:
    second = codehub("up", data_dir=str(data_dir), port="0")
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert str(server.process.pid) in second.stderr
    server.until_ready()


def test_a_taken_port_says_so_before_anything_is_started(server: Running, tmp_path: Path) -> None:
    port = server.address.rpartition(":")[2]
    second = codehub("up", data_dir=str(tmp_path / "data"), port=port)
    assert second.returncode == 1
    assert "CODEHUB_PORT" in second.stderr
    assert not (tmp_path / "data").exists()


def test_nobody_else_reads_the_archives(server: Running, data_dir: Path) -> None:
    del server
    assert stat.S_IMODE((data_dir / "archives").stat().st_mode) == 0o700


def test_garbage_is_collected_beside_a_running_codehub(server: Running, data_dir: Path) -> None:
    told = codehub("gc", "--dry-run", data_dir=str(data_dir))
    assert (told.returncode, told.stdout) == (0, "There is no garbage.\n")
    as_json = codehub("gc", "--json", data_dir=str(data_dir))
    assert '"removed": []' in as_json.stdout
    assert server.process.poll() is None


def test_the_doctor_finds_the_running_database(server: Running, data_dir: Path) -> None:
    found = codehub("doctor", data_dir=str(data_dir), port="0")
    assert found.returncode == 0, found.stdout
    assert "embedded PostgreSQL, running" in found.stdout
    assert server.process.poll() is None


def test_when_the_database_dies_readiness_says_why_and_comes_back_by_itself(
    server: Running, data_dir: Path
) -> None:
    killed = find_postmaster(data_dir / "postgres/data")
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = server.get("/readyz")
        if answer.status_code == 200 and find_postmaster(data_dir / "postgres/data") not in (None, killed):
            break
        assert answer.status_code in (200, 503)
        # The database at first; once it is back, a controller that nobody has heard of for long.
        assert (answer.status_code == 200) is all(word == "ok" for word in answer.json()["checks"].values())
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert server.get("/healthz").status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    with running(data) as process:
        assert processes_in(data)
        process.process.send_signal(number)
        assert ends_within(process.process, 10)
        assert process.process.returncode == 0
    assert processes_in(data) == []
    with running(data) as again:
        again.until_ready()
