"""The command: help, version, the doctor, and that asking for help costs nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.program import codehub

from codehub.adapters.local.installed_ides import installed_ides
from codehub.doctor import Finding, Verdict, report
from codehub.doctor.examine import examine_archives, examine_data_dir, examine_ide, examine_port
from codehub.doctor.services import examine_docker, examine_redis
from codehub.settings import load_settings


def test_help_lists_the_commands() -> None:
    helped = codehub("--help")
    assert helped.returncode == 0
    assert all(word in helped.stdout for word in ("up", "doctor", "Self-hosted"))
    assert codehub().stdout == helped.stdout


def test_the_version_is_printed() -> None:
    assert codehub("--version").stdout.startswith("codehub 0.")


def test_an_unknown_command_is_a_usage_error() -> None:
    assert codehub("fly").returncode == 2


def test_help_imports_neither_the_web_framework_nor_the_database_driver() -> None:
    heavy = "{'fastapi', 'starlette', 'uvicorn', 'asyncpg', 'pydantic', 'rich'}"
    script = f"import sys, codehub.__main__; print(sorted({heavy} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_the_doctor_says_that_a_fresh_machine_can_start(tmp_path: Path) -> None:
    process = codehub("doctor", data_dir=str(tmp_path / "data"), port="0")
    assert process.returncode == 0, process.stdout
    assert "codehub can start as configured." in process.stdout
    assert not (tmp_path / "data").exists()


def test_the_doctor_speaks_json(tmp_path: Path) -> None:
    process = codehub("doctor", "--json", data_dir=str(tmp_path), port="0")
    parts = [finding["part"] for finding in json.loads(process.stdout)]
    assert parts == [
        "python",
        "data directory",
        "disk",
        "database",
        "port",
        "origins",
        "archives",
        "backend",
        "sandbox",
        "limits",
        "ide",
        "docker",
        "redis",
    ]


def test_the_doctor_names_a_dead_database_and_exits_with_1(tmp_path: Path) -> None:
    process = codehub(
        "doctor", data_dir=str(tmp_path), port="0", database_url="postgresql://u:geheim@127.0.0.1:1/d"
    )
    assert process.returncode == 1
    assert "✗ database" in process.stdout
    assert "CODEHUB_DATABASE_URL" in process.stdout
    assert "geheim" not in process.stdout + process.stderr


def test_the_doctor_finds_what_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    settings = load_settings(
        data_dir=tmp_path / "file" / "below",
        host="203.0.113.1",
        redis_url="redis://127.0.0.1:1",
        archive_url="s3://homes/x",
        instance_backend="local-docker",
    )
    examined = (examine_data_dir, examine_port, examine_archives, examine_docker, examine_redis)
    findings = [examine(settings) for examine in examined]
    assert [finding.verdict for finding in findings] == [Verdict.BROKEN] * 5
    assert all(finding.do for finding in findings)
    assert "data directory, port, archives, docker, redis" in report(findings, as_json=False)


def test_a_missing_ide_is_an_error_only_if_a_setting_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CODEHUB_CACHE", str(tmp_path))
    assert examine_ide(load_settings(ide="code-server")).verdict is Verdict.BROKEN
    assert examine_ide(load_settings(instance_backend="k8s")).verdict is Verdict.OK


def test_the_doctor_finds_the_ide_that_codehub_would_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CODEHUB_CACHE", str(tmp_path))
    assert examine_ide(load_settings()).result.startswith("jupyterlab (")
    built = tmp_path / "code-server-4.100.3" / "bin" / "code-server"  # as `make code-server` does
    built.parent.mkdir(parents=True)
    built.touch()
    assert next(iter(installed_ides())) == "code-server"
    assert examine_ide(load_settings()).result == f"code-server ({built}), and jupyterlab"


def test_the_report_tells_what_to_do() -> None:
    text = report([Finding("ide", Verdict.OPTIONAL, "not found", "install one")], as_json=False)
    assert text.splitlines() == [
        "- ide  not found",
        "       → install one",
        "",
        "codehub can start as configured.",
    ]


@pytest.mark.parametrize("arguments", [("user", "list"), ("gc", "--dry-run"), ("migrate",)])
def test_a_command_that_only_reads_makes_no_installation(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    process = codehub(*arguments, data_dir=str(data))
    assert process.returncode == 1
    assert f"there is no codehub in {data}" in process.stderr
    assert not data.exists()


@pytest.mark.parametrize(
    "arguments",
    [("user", "list"), ("user", "disable", "bob"), ("gc",), ("migrate",), ("doctor",)],
    ids=" ".join,
)
def test_wrong_settings_are_reported_to_programs_as_json(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    wrong = {"data_dir": str(tmp_path / "data"), "port": "many", "trash_seconds": "-1"}
    for_people, for_programs = codehub(*arguments, **wrong), codehub(*arguments, "--json", **wrong)
    assert (for_people.returncode, for_people.stdout) == (2, "")
    assert [line.split(":")[:2] for line in for_people.stderr.splitlines()] == [
        ["codehub", " CODEHUB_PORT"],
        ["codehub", " CODEHUB_TRASH_SECONDS"],
    ]
    assert (for_programs.returncode, for_programs.stderr) == (2, "")
    error = json.loads(for_programs.stdout)["error"]
    assert (error["code"], len(error["details"])) == ("USAGE", 2)


@pytest.mark.parametrize("arguments", [("user", "list"), ("gc", "--dry-run"), ("migrate",)], ids=" ".join)
def test_a_failure_is_reported_to_programs_as_json(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    failed = codehub(*arguments, "--json", data_dir=str(tmp_path / "data"))
    assert (failed.returncode, failed.stderr) == (1, "")
    error = json.loads(failed.stdout)["error"]
    assert (error["code"], "there is no codehub in" in error["message"]) == ("FAILED", True)
