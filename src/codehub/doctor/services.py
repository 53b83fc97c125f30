"""The services around codehub, each asked itself: Docker and Redis for their versions, the object store for the bucket."""

import asyncio
import http.client
import json
import os
import socket
from urllib.parse import urlsplit

from codehub.adapters.docker.http import DEFAULT_URL, mark_of
from codehub.core.workspace import InstanceBackend
from codehub.doctor.database import count_docker_homes
from codehub.doctor.findings import Finding, Verdict
from codehub.settings import Settings, is_web_address

_ANSWER_S_MAX = 3.0
_BUCKET_S_MAX = 10.0
_DOCKER_API_MIN = (1, 41)  # Docker 20.10


def examine_docker(settings: Settings) -> Finding:
    need = Verdict.BROKEN if settings.instance_backend is InstanceBackend.LOCAL_DOCKER else Verdict.OPTIONAL
    do = "install and start Docker, or set DOCKER_HOST"
    if need is Verdict.OPTIONAL:
        do += "; needed only with CODEHUB_INSTANCE_BACKEND=local-docker"
    host = os.environ.get("DOCKER_HOST") or DEFAULT_URL
    if not _is_engine(host):
        wrong = f"DOCKER_HOST {host!r} is no unix:// or tcp:// address"
        return Finding("docker", need, wrong, "correct DOCKER_HOST")
    try:
        told = json.loads(_asked(_Engine(host), "/version"))
        version = str(told["Version"])
        api = tuple(int(part) for part in str(told["ApiVersion"]).split("."))
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or error
        return Finding("docker", need, f"{host} does not answer ({why})", do)
    except (ValueError, KeyError, TypeError):
        return Finding("docker", need, f"{host} answers, but not as Docker does", do)
    if api < _DOCKER_API_MIN:
        return Finding("docker", need, f"Docker {version} at {host} is too old", "use Docker 20.10 or later")
    if need is Verdict.BROKEN and (mark := _missing_mark(settings, host)) is not None:
        found = f"Docker {version} at {host}: the volume {mark} is missing, by which codehub knows where homes are"
        do = "correct DOCKER_HOST or mount the engine's disk; if it is the right engine: codehub adopt-engine"
        return Finding("docker", need, found, do)
    return Finding("docker", Verdict.OK, f"Docker {version} at {host}")


def _missing_mark(settings: Settings, host: str) -> str | None:
    """Return the mark that the engine should have, if it has not. While nothing lies on it, the next start makes it."""
    known = count_docker_homes(settings)
    if known is None or not known.homes:
        return None
    mark = mark_of(known.installation)
    try:
        listed = json.loads(_asked(_Engine(host), "/volumes"))["Volumes"] or []
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    return None if mark in {each["Name"] for each in listed} else mark


def _is_engine(host: str) -> bool:
    try:
        url = urlsplit(host)
        port = url.port
    except ValueError:
        return False
    return url.scheme == "unix" or (url.hostname is not None and port != 0)


class _Engine(http.client.HTTPConnection):
    """HTTP to an engine, over its socket or by TCP."""

    def __init__(self, host: str) -> None:
        self._url = urlsplit(host)
        super().__init__(self._url.hostname or "docker", self._url.port or 2375, timeout=_ANSWER_S_MAX)

    def connect(self) -> None:
        if self._url.scheme != "unix":
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_ANSWER_S_MAX)
        self.sock.connect(self._url.path)


def _asked(engine: http.client.HTTPConnection, path: str) -> bytes:
    try:
        engine.request("GET", path)
        return engine.getresponse().read()
    finally:
        engine.close()


def examine_redis(settings: Settings) -> Finding:
    if settings.redis_url is None:
        return Finding("redis", Verdict.OPTIONAL, "not configured", "nothing: PostgreSQL carries the hints")
    from redis import Redis, RedisError  # noqa: PLC0415  # it takes a while to import

    text = settings.redis_url.get_secret_value()
    url = urlsplit(text)
    where = url.path if url.scheme == "unix" else f"{url.hostname or 'localhost'}:{url.port or 6379}"
    client = Redis.from_url(text, socket_timeout=_ANSWER_S_MAX, socket_connect_timeout=_ANSWER_S_MAX)
    try:
        version = client.info("server")["redis_version"]
    except (RedisError, OSError, ValueError) as error:
        do = "start Redis, correct CODEHUB_REDIS_URL, or unset it: hints then go through PostgreSQL"
        return Finding("redis", Verdict.BROKEN, f"{where} can't be used ({_first_line(error)})", do)
    finally:
        client.close()
    return Finding("redis", Verdict.OK, f"Redis {version} at {where}")


def examine_s3(settings: Settings) -> Finding:
    bucket = urlsplit(settings.archives).netloc
    missing = [name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if not os.environ.get(name)]
    if missing:
        found = f"s3 bucket {bucket}: {' and '.join(missing)} not set"
        return Finding("archives", Verdict.BROKEN, found, "set the usual AWS_… variables")
    given = os.environ.get("AWS_ENDPOINT_URL")
    if given and not is_web_address(given):
        wrong = f"AWS_ENDPOINT_URL {given!r} is no http:// or https:// address"
        return Finding("archives", Verdict.BROKEN, wrong, "correct AWS_ENDPOINT_URL")
    endpoint = urlsplit(given or "")
    if endpoint.hostname is not None:
        address = (endpoint.hostname, endpoint.port or (443 if endpoint.scheme == "https" else 80))
        try:
            socket.create_connection(address, _ANSWER_S_MAX).close()
        except OSError as error:
            found = f"{address[0]}:{address[1]} does not answer ({error})"
            return Finding(
                "archives", Verdict.BROKEN, found, "start the object store, or correct AWS_ENDPOINT_URL"
            )
    return asyncio.run(_examine_bucket(settings.archives, bucket))


async def _examine_bucket(archives: str, bucket: str) -> Finding:
    from codehub.adapters.objectstore.store import MARK, Objects  # noqa: PLC0415  # whoever needs no S3 waits for none
    from codehub.ports.backends import ActionFailed, BackendUnreachable  # noqa: PLC0415

    do = "correct CODEHUB_ARCHIVE_URL or the AWS_… variables, or make the bucket"
    try:
        async with asyncio.timeout(_BUCKET_S_MAX):
            mark = await Objects(archives, installation="").get(MARK)
    except TimeoutError:
        return Finding(
            "archives", Verdict.BROKEN, f"s3 bucket {bucket}: no answer in {_BUCKET_S_MAX:g} s", do
        )
    except (ActionFailed, BackendUnreachable) as error:
        return Finding("archives", Verdict.BROKEN, f"s3 bucket {bucket}: {_first_line(error)}", do)
    whose = (
        "new to codehub" if mark is None else f"of installation {mark.decode(errors='replace').strip()[:36]}"
    )
    return Finding("archives", Verdict.OK, f"s3 bucket {bucket}, {whose}")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
