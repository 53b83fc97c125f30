"""`codehub up` from outside: what it says, what it serves, and that nothing of it is left."""

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.patience import block_until, ends_within
from tests.support.program import Running, codehub, processes_in, running

from codehub.adapters.postgres.embedded.address import find_postmaster


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up") / "data"


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Running]:
    with running(data_dir) as process:
        yield process


def test_the_program_prints_its_address_and_that_it_is_ready(server: Running, data_dir: Path) -> None:
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


def test_readyz_says_that_everything_answers_and_is_marked(server: Running) -> None:
    checks = {"database": "ok", "controller": "ok", "local-dir": "ok", "disk": "ok"}
    assert server.until_ready().json() == {"ready": True, "checks": checks}


def test_the_doctor_knows_whose_port_it_is(server: Running, data_dir: Path) -> None:
    process = codehub("doctor", data_dir=str(data_dir), port=server.address.rpartition(":")[2])
    assert process.returncode == 0, process.stdout
    assert f"{server.address} is this codehub's (pid {server.process.pid})" in process.stdout


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


def test_who_listens_everywhere_without_a_name_is_warned_and_told_an_address_that_works(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "data", host="0.0.0.0") as server:
        assert server.address.startswith("http://127.0.0.1:")
        assert server.get("/healthz").status_code == 200
        warnings = (tmp_path / "stderr").read_text()
    assert "CODEHUB_HOST=0.0.0.0" in warnings
    assert "set CODEHUB_PUBLIC_BASE_URL" in warnings


def test_an_ide_that_is_not_there_is_refused_by_its_setting(tmp_path: Path) -> None:
    process = codehub("up", data_dir=str(tmp_path / "data"), port="0", ide="http")
    assert process.returncode == 1
    (message,) = [line for line in process.stderr.splitlines() if line.startswith("codehub: ")]
    assert message.startswith("codehub: CODEHUB_IDE=http is not on this machine: there is ")
    assert "jupyterlab. Install it" in message


@pytest.mark.parametrize("command", ["up", "migrate"])
@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://ann:geheim@127.0.0.1:1/codehub", "127.0.0.1:1 ("),
        ("postgresql://ann:geheim@127.0.0.1:1,127.0.0.1:2/codehub", "the address that is set ("),
        ("postgresql://ann:geheim@127.0.0.1:1/codehub?sslmode=dance", "127.0.0.1:1. "),
    ],
)
def test_a_database_that_does_not_answer_is_named_with_its_setting_and_without_its_password(
    tmp_path: Path, command: str, url: str, place: str
) -> None:
    process = codehub(command, data_dir=str(tmp_path / "data"), port="0", database_url=url)
    assert process.returncode == 1
    last = process.stderr.splitlines()[-1]
    assert last.startswith(f"codehub: CODEHUB_DATABASE_URL: there is no way into the database at {place}"), (
        last
    )
    assert "gehe" not in process.stderr


def test_nobody_else_reads_the_archives(server: Running, data_dir: Path) -> None:
    del server
    assert stat.S_IMODE((data_dir / "archives").stat().st_mode) == 0o700


def test_garbage_is_collected_beside_a_running_codehub(server: Running, data_dir: Path) -> None:
    process = codehub("gc", "--dry-run", data_dir=str(data_dir))
    assert (process.returncode, process.stdout) == (0, "There is no garbage.\n")
    in_korean = codehub("gc", "--dry-run", data_dir=str(data_dir), lang="ko")
    assert in_korean.stdout == "정리할 것이 없습니다.\n"
    as_json = codehub("gc", "--json", data_dir=str(data_dir))
    assert '"removed": []' in as_json.stdout
    assert server.process.poll() is None


def test_the_doctor_finds_the_running_database(server: Running, data_dir: Path) -> None:
    process = codehub("doctor", data_dir=str(data_dir), port="0")
    assert process.returncode == 0, process.stdout
    assert "embedded PostgreSQL, running" in process.stdout
    assert server.process.poll() is None


def test_when_the_database_dies_readiness_says_why_and_comes_back_by_itself(
    server: Running, data_dir: Path
) -> None:
    killed = find_postmaster(data_dir / "postgres/data")
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)

    def is_back() -> bool:
        answer = server.get("/readyz")
        if answer.status_code == 200 and find_postmaster(data_dir / "postgres/data") not in (None, killed):
            return True
        assert answer.status_code in (200, 503)
        # The database at first; once it is back, a controller that nobody has heard of for long.
        assert (answer.status_code == 200) is all(word == "ok" for word in answer.json()["checks"].values())
        return False

    block_until(is_back)
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
    with running(data) as second:
        second.until_ready()
