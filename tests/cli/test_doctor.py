"""What the doctor says of a machine where codehub runs already, and of a file in the place of a directory."""

from pathlib import Path

from tests.support.program import codehub, running

from codehub.doctor.examine import examine_archives, examine_data_dir
from codehub.settings import load_settings


def test_the_doctor_says_that_codehub_runs_already(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server:
        for port in (server.address.rpartition(":")[2], "0"):
            found = codehub("doctor", data_dir=str(data), port=port)
            assert found.returncode == 0, found.stdout
            assert f"codehub runs there (pid {server.process.pid})" in found.stdout
            assert found.stdout.endswith("\ncodehub runs already.\n")


def test_the_doctor_says_of_a_file_that_it_is_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    settings = load_settings(data_dir=file)
    for examine in (examine_data_dir, examine_archives):
        assert examine(settings).found == f"{file} is a file, not a directory"
