"""What the doctor says of a machine where codehub runs already, and of wrong settings and paths."""

import errno
import os
import sys
from pathlib import Path

import pytest
from tests.support.program import codehub, running

from codehub.doctor.bounds import examine_groups, examine_room
from codehub.doctor.examine import (
    examine_archives,
    examine_backend,
    examine_data_dir,
    examine_homes_dir,
    examine_sandbox,
)
from codehub.doctor.findings import Verdict, report
from codehub.doctor.kubernetes import examine_cluster
from codehub.doctor.services import examine_docker, examine_s3
from codehub.settings import Settings, load_settings
from codehub.text import text
from codehub.text.terminal import columns


def test_the_doctor_says_that_codehub_runs_already(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server:
        for port in (server.address.rpartition(":")[2], "0"):
            process = codehub("doctor", data_dir=str(data), port=port)
            assert process.returncode == 0, process.stdout
            assert f"codehub runs there (pid {server.process.pid})" in process.stdout
            assert process.stdout.endswith("\ncodehub runs already.\n")


def test_the_doctor_says_that_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    settings = load_settings(data_dir=file)
    for examine in (examine_data_dir, examine_archives):
        assert examine(settings).result == f"{file} is a file, not a directory"


def test_the_doctor_says_that_a_directory_can_not_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root nothing is closed, so the machine's answer is given here."""
    closed, stat = tmp_path / "closed" / "data", os.stat

    def refused(path: str | Path, **options: bool) -> os.stat_result:
        if Path(path).is_relative_to(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refused)
    settings = load_settings(data_dir=closed)
    assert examine_data_dir(settings).result == f"{closed} can't be looked at (Permission denied)"
    assert examine_archives(settings).result == f"{closed}/archives can't be looked at (Permission denied)"


@pytest.mark.parametrize("address", ["tcp://[::1", "tcp://localhost:many", "tcp://", "localhost"])
def test_the_doctor_names_an_invalid_address_of_docker(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    finding = examine_docker(load_settings(instance_backend="local-docker"))
    assert (finding.verdict, finding.do) == (Verdict.BROKEN, "correct DOCKER_HOST")
    assert finding.result == f"DOCKER_HOST {address!r} is no unix:// or tcp:// address"


@pytest.mark.parametrize("address", ["http://[::1", "http://localhost:many", "minio:9000", "http://"])
def test_the_doctor_names_an_invalid_address_of_an_archive_store(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    finding = examine_s3(load_settings(archive_url="s3://homes"))
    assert (finding.verdict, finding.do) == (Verdict.BROKEN, "correct AWS_ENDPOINT_URL")
    assert finding.result == f"AWS_ENDPOINT_URL {address!r} is no http:// or https:// address"


def test_the_doctor_names_the_backends() -> None:
    finding = examine_backend(load_settings(instance_backend="k8s"))
    assert (finding.verdict, finding.result) == (Verdict.OK, "k8s, homes: k8s-pvc")


def cluster_settings(**changes: object) -> Settings:
    usual = {"instance_backend": "k8s", "archive_url": "s3://homes", "helper_image": "codehub"}
    return load_settings(**(usual | changes))


def test_the_doctor_says_what_jobs_of_a_cluster_lack(tmp_path: Path) -> None:
    for settings, name in (
        (load_settings(instance_backend="k8s", helper_image="codehub"), "CODEHUB_ARCHIVE_URL"),
        (cluster_settings(archive_url=tmp_path.as_uri()), "CODEHUB_K8S_ARCHIVE_CLAIM"),
        (load_settings(instance_backend="k8s", archive_url="s3://homes"), "CODEHUB_HELPER_IMAGE"),
    ):
        (finding,) = examine_cluster(settings)
        assert (finding.verdict, name in str(finding.do)) == (Verdict.BROKEN, True)


def test_the_doctor_names_the_field_of_a_patch_that_can_not_be(tmp_path: Path) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text("spec: {hostNetwork: true}")
    (finding,) = examine_cluster(cluster_settings(k8s_pod_patch=patch))
    assert finding.verdict is Verdict.BROKEN
    assert finding.result.startswith("spec.hostNetwork can't be set")


def test_the_doctor_says_where_it_looked_for_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    (finding,) = examine_cluster(cluster_settings())
    assert (finding.verdict, str(tmp_path / "nowhere") in finding.result) == (Verdict.BROKEN, True)


def test_the_doctor_says_whether_workspaces_have_networks_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examining = sys.modules["codehub.doctor.examine"]  # by its name the package has the function
    monkeypatch.setattr(examining, "find_gateway", lambda: None)
    (tmp_path / "bwrap").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = examine_sandbox(load_settings())
    assert "this machine's network is shared: neither pasta" in finding.result
    assert "apt-get install passt" in str(finding.do)


def test_the_doctor_says_what_bounds_workspaces_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(data_dir=tmp_path, limit_memory_mb_total=512, limit_pids_total=300)
    assert examine_room(settings, tmp_path, tmp_path).verdict is Verdict.OK
    full = examine_room(load_settings(data_dir=tmp_path, disk_floor_mb=1 << 30), tmp_path, tmp_path)
    assert (full.verdict, "no workspace starts below" in full.result) == (Verdict.OPTIONAL, True)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "only root can make control groups" in examine_groups(settings).result
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("codehub.doctor.bounds.ROOT", tmp_path / "nowhere")
    assert "no control groups can be made" in examine_groups(settings).result
    monkeypatch.setattr("codehub.doctor.bounds.ROOT", tmp_path)
    for name in ("memory", "pids"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("codehub.doctor.bounds.is_unified", lambda: False)
    assert examine_groups(settings).result == "all workspaces together: 512 MB, 300 processes"


def test_the_doctor_looks_at_a_directory_of_homes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert examine_homes_dir(tmp_path / "new").verdict is Verdict.OK
    wrong = examine_homes_dir(tmp_path / "file" / "homes")
    assert (wrong.verdict, wrong.result) == (
        Verdict.BROKEN,
        f"{tmp_path / 'file'} is a file, not a directory",
    )
    assert "CODEHUB_HOMES_DIR" in str(wrong.do)


def test_the_doctor_speaks_the_language_of_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEHUB_LANG", "ko")
    settings = load_settings(data_dir=tmp_path, disk_floor_mb=10**9)
    finding = examine_room(settings, tmp_path, tmp_path)
    assert finding.do == text("ko", "doctor.disk.short.do")
    lines = report([finding], as_json=False).splitlines()
    assert text("ko", "doctor.part.disk") in lines[0]
    assert lines[-1] == text("ko", "doctor.can_start")
    assert columns(lines[0].partition(finding.result)[0]) == columns(lines[1].partition("→")[0])
