"""Which credentials go to which registry, from Docker's own config.json. Needs no engine, and runs with
one.
"""

import base64
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from codehub.adapters.docker.credentials import auth_header, config_file, registry_of

SECRET = base64.b64encode(b"ann:a:b").decode()


def shown(image: str, path: Path) -> dict[str, str] | None:
    header = auth_header(image, path)
    if not header:
        return None
    credentials: dict[str, str] = json.loads(base64.urlsafe_b64decode(header["X-Registry-Auth"]))
    return credentials


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("debian:bookworm", "docker.io"),
        ("codercom/code-server", "docker.io"),
        ("localhost/x", "localhost"),
        ("127.0.0.1:5000/x:1", "127.0.0.1:5000"),
        ("registry.example.org/team/x@sha256:0", "registry.example.org"),
    ],
)
def test_an_image_s_registry_is_read_as_docker_reads_it(image: str, registry: str) -> None:
    assert registry_of(image) == registry


@pytest.mark.parametrize(
    ("auths", "image", "is_shown"),
    [
        ({"r.example.org": {"auth": SECRET}}, "r.example.org/x", True),
        ({"https://r.example.org/": {"auth": SECRET}}, "r.example.org/x", True),
        ({"https://index.docker.io/v1/": {"auth": SECRET}}, "debian", True),
        ({"r.example.org": {"identitytoken": "t"}}, "r.example.org/x", True),
        ({"r.example.org": {"auth": SECRET}}, "evil.example.org/x", False),
        ({"r.example.org": {"auth": SECRET}}, "debian", False),
        ({"r.example.org": {"auth": "%%%"}}, "r.example.org/x", False),
        ({"r.example.org": {}}, "r.example.org/x", False),
    ],
)
def test_credentials_go_to_their_own_registry_alone(
    tmp_path: Path, auths: dict[str, object], image: str, is_shown: bool
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": auths}))
    credentials = shown(image, path)
    assert (credentials is not None) is is_shown
    if credentials is not None:
        assert credentials.get("identitytoken") == "t" or (
            credentials["username"],
            credentials["password"],
        ) == ("ann", "a:b")


HELPER = """#!/bin/sh
read server
case "$server" in
r.example.org) echo '{"ServerURL": "r.example.org", "Username": "bob", "Secret": "hush"}' ;;
t.example.org) echo '{"ServerURL": "t.example.org", "Username": "<token>", "Secret": "hush"}' ;;
odd.example.org) echo hush ;;
broken.example.org) echo 'the keychain is locked' >&2; exit 1 ;;
*) echo 'credentials not found in native keychain'; exit 1 ;;
esac
"""


@pytest.fixture
def keychain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/docker-credential-keychain"
    program.parent.mkdir()
    program.write_text(HELPER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.usefixtures("keychain")
@pytest.mark.parametrize(
    ("config", "image", "expected"),
    [
        ({"credsStore": "keychain"}, "r.example.org/x", ("bob", "hush")),
        ({"credsStore": "keychain"}, "t.example.org/x", "hush"),
        ({"credHelpers": {"r.example.org": "keychain"}}, "r.example.org/x", ("bob", "hush")),
        ({"credHelpers": {"r.example.org": "keychain"}}, "t.example.org/x", None),
        (
            {"credHelpers": {"r.example.org": "keychain"}, "credsStore": "absent"},
            "r.example.org/x",
            ("bob", "hush"),
        ),
        (
            {"credsStore": "keychain", "auths": {"a.example.org": {"auth": SECRET}}},
            "a.example.org/x",
            ("ann", "a:b"),
        ),
        ({"credsStore": "keychain", "auths": {"r.example.org": {}}}, "r.example.org/x", ("bob", "hush")),
        ({"credsStore": "keychain"}, "odd.example.org/x", None),
        ({"credsStore": "keychain"}, "broken.example.org/x", None),
        ({"credsStore": "absent"}, "r.example.org/x", None),
    ],
)
def test_a_credential_helper_is_asked_as_docker_asks_it(
    tmp_path: Path, config: dict[str, object], image: str, expected: tuple[str, str] | str | None
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    credentials = shown(image, path)
    if credentials is None:
        assert expected is None
    else:
        assert (
            credentials.get("identitytoken", (credentials.get("username"), credentials.get("password")))
            == expected
        )


@pytest.mark.usefixtures("keychain")
@pytest.mark.parametrize(
    ("image", "reason"),
    [("odd.example.org/x", "no JSON"), ("broken.example.org/x", "the keychain is locked"), ("debian", None)],
)
def test_a_helper_that_fails_is_told_of_without_what_it_said_as_a_secret(
    tmp_path: Path, image: str, reason: str | None
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"credsStore": "keychain"}))
    with capture_logs() as lines:
        assert shown(image, path) is None
    assert [line["reason"] for line in lines] == ([] if reason is None else [reason])
    assert "hush" not in str(lines)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "[]", "7", "{", '{"auths": null}', '{"auths": ["docker.io"]}'),
        *('{"auths": {"docker.io": "text"}}', '{"credHelpers": 7}'),
    ],
)
def test_a_config_that_is_none_shows_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    assert auth_header("debian", path) == {}


def test_the_config_is_docker_s_own(tmp_path: Path) -> None:
    assert config_file({"DOCKER_CONFIG": str(tmp_path)}) == tmp_path / "config.json"
    assert config_file({}) == Path.home() / ".docker/config.json"
