"""Which credentials go to which registry, from Docker's own config.json. Needs no engine, and runs with one."""

import base64
import json
from pathlib import Path

import pytest

from codehub.adapters.docker.credentials import auth_header, config_file, registry_of

pytestmark = pytest.mark.docker
SECRET = base64.b64encode(b"ann:a:b").decode()


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
    header = auth_header(image, path)
    assert bool(header) is is_shown
    if is_shown:
        told = json.loads(base64.urlsafe_b64decode(header["X-Registry-Auth"]))
        assert told.get("identitytoken") == "t" or (told["username"], told["password"]) == ("ann", "a:b")


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"auths": null}'])
def test_a_config_that_is_none_shows_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    assert auth_header("debian", path) == {}


def test_the_config_is_docker_s_own(tmp_path: Path) -> None:
    assert config_file({"DOCKER_CONFIG": str(tmp_path)}) == tmp_path / "config.json"
    assert config_file({}) == Path.home() / ".docker/config.json"
