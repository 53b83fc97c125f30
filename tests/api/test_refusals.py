"""What codehub can't start with is told in one line, with the setting's name and what to do."""

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.program import codehub

from codehub.app.archives import UnmarkedStores, archive_store
from codehub.app.docker import open_docker_platform
from codehub.app.errors import CannotStart
from codehub.app.process import make_system
from codehub.settings import Settings, load_settings

if TYPE_CHECKING:
    from codehub.app.database import Stores

STORES = cast("Stores", SimpleNamespace(installation="018f0000-0000-7000-8000-000000000000"))


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("CODEHUB_", "AWS_")) and name != "CODEHUB_CACHE":
            monkeypatch.delenv(name)


def docker(settings: Settings) -> AbstractAsyncContextManager[object]:
    return open_docker_platform(
        settings, STORES, make_system(), UnmarkedStores(archives=True, homes=frozenset())
    )


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("unix:///nowhere/docker.sock", "No such file or directory"),
        ("tcp://127.0.0.1:1", "[Errno 111]"),
        ("tcp://[::1", "is no unix:// or tcp:// address"),
    ],
)
async def test_a_docker_engine_that_does_not_answer_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, why: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(CannotStart) as refusal:
        async with docker(load_settings(data_dir=tmp_path, instance_backend="local-docker")):
            pass
    message = str(refusal.value)
    assert message.startswith(f"The Docker engine {host} can't be asked: ")
    assert why in message
    assert message.endswith(
        "Start Docker, or correct DOCKER_HOST; CODEHUB_INSTANCE_BACKEND=local-process does without it"
    )


@pytest.mark.parametrize("setting", ["CODEHUB_ARCHIVE_URL", "CODEHUB_DATA_DIR"])
async def test_an_archive_store_that_can_not_be_written_is_named_with_its_setting(
    tmp_path: Path, setting: str
) -> None:
    (tmp_path / "archives").touch()
    location = {"archive_url": f"file://{tmp_path}/archives"} if setting == "CODEHUB_ARCHIVE_URL" else {}
    with pytest.raises(CannotStart) as refusal:
        await archive_store(load_settings(data_dir=tmp_path, **location), STORES, is_new=True)
    assert str(refusal.value).startswith(f"The archive store file://{tmp_path}/archives can't be used: ")
    assert str(refusal.value).endswith(f"Give codehub access to it, or correct {setting}")


@pytest.mark.parametrize("endpoint", ["http://localhost:many", "minio:9000", "http://[::1", "http://"])
async def test_an_invalid_endpoint_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(CannotStart) as refusal:
        await archive_store(load_settings(archive_url="s3://homes"), STORES, is_new=True)
    message = f"AWS_ENDPOINT_URL {endpoint!r} is no http:// or https:// address: correct it"
    assert str(refusal.value) == message


@pytest.mark.parametrize("option", ["dance=1", "socket_timeout=soon"])
def test_an_option_that_redis_does_not_know_is_named_with_its_setting(tmp_path: Path, option: str) -> None:
    url = f"redis://:geheim@127.0.0.1:1/0?{option}"
    process = codehub("up", data_dir=str(tmp_path / "data"), port="0", redis_url=url)
    assert process.returncode == 1
    (message,) = [line for line in process.stderr.splitlines() if line.startswith("codehub: ")]
    assert message.startswith("codehub: CODEHUB_REDIS_URL: ")
    assert option.partition("=")[0] in message
    assert "geheim" not in process.stderr
