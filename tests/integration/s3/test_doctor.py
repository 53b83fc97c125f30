"""The doctor asks the services themselves: a real S3 server, a real
Redis, and engines that answer well, badly and not at all.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.redis import REDIS, running_redis
from tests.support.s3 import S3, S3Server, running_s3, set_environment

from codehub.doctor import services
from codehub.doctor.findings import Finding, Verdict
from codehub.doctor.services import examine_docker, examine_redis, examine_s3
from codehub.settings import load_settings


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers at all answers in time, however slow the machine is."""
    for name in ("_ANSWER_S_MAX", "_BUCKET_S_MAX"):
        monkeypatch.setattr(services, name, 60.0)


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[S3Server]:
    async with running_s3() as running:
        yield running


async def examined(server: S3Server, bucket: str, **changes: str) -> Finding:
    with set_environment(server.environment(**changes)):
        return await asyncio.to_thread(examine_s3, load_settings(archive_url=f"s3://{bucket}/homes"))


@S3
async def test_a_bucket_that_is_there_is_fine_and_one_that_is_not_is_named(server: S3Server) -> None:
    bucket = await server.new_bucket()
    assert await examined(server, bucket) == Finding(
        "archives", Verdict.OK, f"s3 bucket {bucket}, new to codehub"
    )
    missing = await examined(server, "codehub-nowhere")
    assert missing.verdict is Verdict.BROKEN
    assert "There is no bucket" in missing.result
    refused = await examined(server, bucket, AWS_SECRET_ACCESS_KEY="wrong")
    assert refused.verdict is Verdict.BROKEN
    assert "wrong" not in refused.result + str(refused.do)
    away = await examined(server, bucket, AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert "127.0.0.1:1 does not answer" in away.result


@REDIS
async def test_redis_tells_its_version_or_why_it_can_not_be_used() -> None:
    async with running_redis() as redis:
        fine = await asyncio.to_thread(examine_redis, load_settings(redis_url=redis.url))
        assert fine.verdict is Verdict.OK
        assert fine.result.startswith("Redis ")
        await redis.stop()
        gone = await asyncio.to_thread(examine_redis, load_settings(redis_url=redis.url))
        assert gone.verdict is Verdict.BROKEN


@pytest.mark.parametrize(
    ("body", "verdict", "text"),
    [
        ('{"Version": "20.10.24", "ApiVersion": "1.41"}', Verdict.OK, "Docker 20.10.24 at unix://"),
        ('{"Version": "19.03", "ApiVersion": "1.40"}', Verdict.BROKEN, "is too old"),
        ("<html>", Verdict.BROKEN, "not as Docker does"),
        ('{"Version": "27", "ApiVersion": "new"}', Verdict.BROKEN, "not as Docker does"),
        ("{}", Verdict.BROKEN, "not as Docker does"),
    ],
)
async def test_docker_tells_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, verdict: Verdict, text: str
) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/sock")
    async with await asyncio.start_unix_server(handle, tmp_path / "sock"):
        finding = await asyncio.to_thread(examine_docker, load_settings(instance_backend="local-docker"))
    assert finding.verdict is verdict
    assert text in finding.result
