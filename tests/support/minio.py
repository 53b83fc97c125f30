"""A MinIO for a command: `python -m tests.support.minio COMMAND…` runs it with
CODEHUB_TEST_S3 and credentials that lead to one of our own.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

_USER, _PASSWORD = "codehub-test", "secret-of-tests"


def main(command: list[str]) -> int:
    script = Path(__file__).parents[2] / "scripts" / "minio"
    program = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="codehub-minio-", dir="/var/tmp") as place:
        endpoint = f"http://127.0.0.1:{free_port()}"
        secrets = {"MINIO_ROOT_USER": _USER, "MINIO_ROOT_PASSWORD": _PASSWORD}
        quiet = {"MINIO_BROWSER": "off", "MINIO_UPDATE": "off"}
        log = Path(place) / "minio.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [program, "server", "--address", endpoint.removeprefix("http://"), f"{place}/data"],
                env={**os.environ, **secrets, **quiet, "HOME": place},
                stdout=output,
                stderr=output,
            )
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not _answers(endpoint):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            ours = {
                "CODEHUB_TEST_S3": endpoint,
                "AWS_ACCESS_KEY_ID": _USER,
                "AWS_SECRET_ACCESS_KEY": _PASSWORD,
            }
            return subprocess.run(command, env={**os.environ, **ours}, check=False).returncode
        finally:
            server.terminate()
            server.wait()


def _answers(endpoint: str) -> bool:
    try:
        return httpx.get(f"{endpoint}/minio/health/ready").is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
