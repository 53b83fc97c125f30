"""Images of the names that compose.yaml has, made from Debian's packages where no registry is in reach.

PostgreSQL and Redis are the real ones, of Debian's versions; MinIO's part is played by SeaweedFS.
"""

from pathlib import Path

from tests.support.docker import BASE, TestEngine
from tests.support.s3 import WEED

ROOT = Path(__file__).parents[2]
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_APT = "apt-get update && apt-get install -y --no-install-recommends"
_POSTGRES = """#!/bin/sh
set -e
if [ ! -e "$PGDATA/PG_VERSION" ]; then
    mkdir -p "$PGDATA" && chown -R postgres "$PGDATA"
    printf %s "$POSTGRES_PASSWORD" >/tmp/password
    chown postgres /tmp/password
    setpriv --reuid=postgres --regid=postgres --clear-groups \
        initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile=/tmp/password -A scram-sha-256
    rm /tmp/password
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    setpriv --reuid=postgres --regid=postgres --clear-groups sh -c \
        "echo 'CREATE DATABASE \"$POSTGRES_DB\"' | postgres --single -D $PGDATA postgres"
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups \
    postgres -D "$PGDATA" -c listen_addresses='*' -k /tmp
"""
_MINIO = """#!/bin/sh
umask 077
printf '{"identities":[{"name":"root","credentials":[{"accessKey":"%s","secretKey":"%s"}],%s}]}' \
    "$MINIO_ROOT_USER" "$MINIO_ROOT_PASSWORD" \
    '"actions":["Admin","Read","Write","List","Tagging"]' >/tmp/s3.json
weed -logtostderr=true server -dir /data -ip=127.0.0.1 -ip.bind=0.0.0.0 -master.telemetry=false \
    -volume.max=100 -master.volumePreallocate=false -master.volumeSizeLimitMB=1024 \
    -s3 -s3.config=/tmp/s3.json -s3.port=9000 &
until echo "s3.bucket.create -name codehub" | weed shell -master=127.0.0.1:9333 >/tmp/shell 2>&1 \
    && ! grep -qi error /tmp/shell; do sleep 0.5; done
touch /tmp/live
wait
"""


def make_standins(engine: TestEngine) -> None:
    """Make them all, once."""
    with_network = {"networkmode": "host"}
    certificates = {"ca-certificates.crt": _CERTIFICATES.read_bytes()}
    trusting = "COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt"
    postgres = (
        f"FROM {BASE}\nRUN {_APT} postgresql-15\nENV PGDATA=/var/lib/postgresql/data "
        "PATH=/usr/lib/postgresql/15/bin:$PATH"
    )
    dockerfiles: dict[str, tuple[str, dict[str, bytes]]] = {
        "python:3.12.11-slim-bookworm": (
            (
                f"FROM {BASE}\nRUN {_APT} python3-venv\n{trusting}\nENV "
                "PIP_CERT=/etc/ssl/certs/ca-certificates.crt"
            ),
            certificates,
        ),
        "postgres:17.5-bookworm": (
            f'{postgres}\nCOPY entry /entry\nENTRYPOINT ["/entry"]',
            {"entry": _POSTGRES.encode()},
        ),
        "redis:7.4.4-bookworm": (f"FROM {BASE}\nRUN {_APT} redis-server redis-tools", {}),
        "minio/minio:RELEASE.2025-04-22T22-12-26Z": (
            f"FROM {BASE}\nCOPY weed minio curl /usr/local/bin/",
            {"weed": WEED.read_bytes(), "minio": _MINIO.encode(), "curl": b"#!/bin/sh\ntest -e /tmp/live\n"},
        ),
    }
    for name, (dockerfile, files) in dockerfiles.items():
        engine.build(name, dockerfile, files, **with_network)


def make_codehub(engine: TestEngine) -> None:
    """Make the image of codehub itself, from its own Dockerfile and what that is shown."""
    names = ("requirements/run.txt", "pyproject.toml", "README.md", "LICENSE")
    shown = [ROOT / name for name in names]
    shown += [
        path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    files = {str(path.relative_to(ROOT)): path.read_bytes() for path in shown}
    engine.build("codehub:0.1.0", (ROOT / "Dockerfile").read_text(), files, networkmode="host")
