"""`codehub user` beside a running codehub, and the first admin."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from tests.support.patience import PATIENCE_S
from tests.support.program import Running, codehub, environment, running
from tests.support.workspaces import NOW

from codehub.cli.people import format_users as listed_people
from codehub.core.access import Role, User
from codehub.error_codes import exit_of

API = "/api/v1"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("users") / "data"


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Running]:
    with running(data_dir, initial_admin_password="first password") as process:
        yield process


def user(data_dir: Path, *arguments: str, password: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "codehub", "user", *arguments],
        env=environment(data_dir=str(data_dir)),
        input=password,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=PATIENCE_S,
        check=False,
    )


def login(server: Running, name: str, password: str) -> int:
    body = {"username": name, "password": password}
    return httpx.post(f"{server.address}{API}/login", json=body, timeout=PATIENCE_S).status_code


def test_the_first_start_makes_admin_with_the_given_password_and_does_not_show_it(server: Running) -> None:
    assert "user: admin" in server.lines
    assert not any(line.startswith("password:") for line in server.lines)
    assert login(server, "admin", "first password") == 200


def test_users_are_added_listed_disabled_and_given_passwords(server: Running, data_dir: Path) -> None:
    added = user(data_dir, "add", "bob", "--password-stdin", password="a long password\n")
    assert (added.returncode, added.stdout) == (0, "added member bob\n"), added.stderr
    assert login(server, "bob", "a long password") == 200
    assert user(data_dir, "passwd", "BOB", "--password-stdin", password="another password\n").returncode == 0
    assert login(server, "bob", "a long password") == 401
    assert login(server, "bob", "another password") == 200
    assert user(data_dir, "disable", "bob").returncode == 0
    assert login(server, "bob", "another password") == 401
    people = [
        person
        for person in json.loads(user(data_dir, "list", "--json").stdout)
        if person["username"] in ("admin", "bob")
    ]
    assert [(person["username"], person["role"], person["disabled"]) for person in people] == [
        ("admin", "admin", False),
        ("bob", "member", True),
    ]


def test_keys_are_listed_and_ended(server: Running, data_dir: Path) -> None:
    user(data_dir, "add", "carol", "--password-stdin", password="a long password\n")
    assert user(data_dir, "keys", "carol").stdout == "carol is signed in nowhere and has no tokens.\n"
    with httpx.Client(base_url=server.address, timeout=PATIENCE_S) as browser:
        browser.post(f"{API}/login", json={"username": "carol", "password": "a long password"})
        browser.post(f"{API}/tokens", json={"name": "ci", "scope": "read"})
        (session, token) = json.loads(user(data_dir, "keys", "CAROL", "--json").stdout)
        assert (session["kind"], token["kind"], token["name"], token["scope"]) == (
            "session",
            "token",
            "ci",
            "read",
        )
        text = user(data_dir, "keys", "carol", "--end").stdout
        assert text.splitlines()[0].split() == ["KEY", "NAME", "SCOPE", "LAST", "USED", "EXPIRES"]
        assert text.endswith("\nAll of them have ended.\n")
        assert browser.get(f"{API}/session").status_code == 401
    assert json.loads(user(data_dir, "keys", "carol", "--json").stdout) == []
    user(data_dir, "disable", "carol")
    assert user(data_dir, "keys", "nobody").returncode == 4


def test_users_are_listed_as_a_table() -> None:
    admin = User(UUID(int=1), "admin", Role.ADMIN, disabled=False, created_at=NOW)
    bob = replace(admin, username="bob", role=Role.MEMBER, disabled=True)
    assert listed_people([admin, bob], as_json=False) == "admin  admin\nbob    member  disabled"
    assert listed_people([], as_json=False) == "There is nobody yet."


@pytest.mark.parametrize(
    ("arguments", "password", "code", "message"),
    [
        (("add", "ADMIN", "--password-stdin"), "a long password\n", 5, "there is a user ADMIN already"),
        (("add", "me", "--password-stdin"), "a long password\n", 2, "can't be a name"),
        (("add", "eve", "--password-stdin"), "short\n", 2, "at least 8 characters"),
        (("add", "eve", "--password-stdin"), "x" * 1025, 2, "at most 1024 characters"),
        (("add", "eve", "--password-stdin"), "a long password\udcff\n", 2, "not text in UTF-8"),
        (("passwd", "admin", "--password-stdin"), "x" * 1025, 2, "at most 1024 characters"),
        (("disable", "\udcff"), "", 4, "there is no user"),
        (("passwd", "eve", "--password-stdin"), "a long password\n", 4, "there is no user eve"),
        (("disable", "admin"), "", 5, "the last admin"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_impossible_request_is_refused_in_one_line(
    server: Running, data_dir: Path, arguments: tuple[str, ...], password: str, code: int, message: str
) -> None:
    refusal = user(data_dir, *arguments, password=password)
    assert (refusal.returncode, refusal.stdout) == (code, "")
    assert message in refusal.stderr
    assert refusal.stderr.count("\n") == 1
    for_programs = user(data_dir, *arguments, "--json", password=password)
    assert (for_programs.returncode, for_programs.stderr) == (code, "")
    error = json.loads(for_programs.stdout)["error"]
    assert (exit_of(error["code"]), message in error["message"]) == (code, True)
    assert server.process.poll() is None


def test_a_password_that_is_made_is_shown_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as first:
        (password,) = [
            line.removeprefix("password: ") for line in first.lines if line.startswith("password:")
        ]
        assert len(password) >= 20
        assert login(first, "admin", password) == 200
        order = [line.split(":")[0] for line in first.lines]
        assert order == ["address", "user", "password", "data", "backend", "ide", "ready"]
    assert password not in (tmp_path / "stderr").read_text()
    with running(data) as second:
        assert not any(line.startswith("password:") for line in second.lines)
        assert login(second, "admin", password) == 200


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("geheim", "at least 8 characters"),
        ("geheim" * 200, "at most 1024 characters"),
        ("geheimnis\udcff", "not text in UTF-8"),
    ],
    ids=ascii,
)
def test_an_initial_password_that_is_not_allowed_is_refused_and_not_repeated(
    tmp_path: Path, password: str, message: str
) -> None:
    refusal = codehub("up", data_dir=str(tmp_path / "data"), port="0", initial_admin_password=password)
    assert refusal.returncode == 2
    assert "CODEHUB_INITIAL_ADMIN_PASSWORD" in refusal.stderr
    assert message in refusal.stderr
    assert "geheim" not in refusal.stderr
