"""The services around codehub, each asked itself: Docker and Redis for their versions, the object store for the bucket."""

import asyncio
import json
import os
import socket
from typing import Any
from urllib.parse import urlsplit

from codehub.adapters.docker.address import DEFAULT_URL, engine_upstream, mark_of
from codehub.adapters.http import HttpPool
from codehub.core.workspace import InstanceBackend
from codehub.doctor.database import count_docker_homes
from codehub.doctor.findings import Finding, Verdict
from codehub.ports.instances import Upstream
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
    try:
        upstream = engine_upstream(host)
    except OSError as error:
        return Finding("docker", need, f"DOCKER_HOST {error}", "correct DOCKER_HOST")
    try:
        about = asyncio.run(_ask(upstream, "/version"))
        version = str(about["Version"])
        api = tuple(int(part) for part in str(about["ApiVersion"]).split("."))
    except TimeoutError:
        return Finding("docker", need, f"{host} does not answer (not in {_ANSWER_S_MAX:g} s)", do)
    except OSError as error:
        why = str(error) if error.errno is None else os.strerror(error.errno)
        return Finding("docker", need, f"{host} does not answer ({why})", do)
    except (ValueError, KeyError, TypeError):
        return Finding("docker", need, f"{host} answers, but not as Docker does", do)
    if api < _DOCKER_API_MIN:
        return Finding("docker", need, f"Docker {version} at {host} is too old", "use Docker 20.10 or later")
    if need is Verdict.BROKEN and (mark := _missing_mark(settings, upstream)) is not None:
        missing = f"Docker {version} at {host}: the volume {mark} is missing, by which codehub knows where homes are"
        do = "correct DOCKER_HOST or mount the engine's disk; if it is the right engine: codehub adopt-engine"
        return Finding("docker", need, missing, do)
    return Finding("docker", Verdict.OK, f"Docker {version} at {host}")


def _missing_mark(settings: Settings, upstream: Upstream) -> str | None:
    """Return the mark that the engine should have, if it has not. While nothing lies on it, the next start makes it."""
    known = count_docker_homes(settings)
    if known is None or not known.homes:
        return None
    mark = mark_of(known.installation)
    try:
        listed = asyncio.run(_ask(upstream, "/volumes"))["Volumes"] or []
    except (OSError, ValueError, KeyError):
        return None
    return None if mark in {each["Name"] for each in listed} else mark


async def _ask(upstream: Upstream, path: str) -> Any:
    """Ask an engine as codehub does."""
    pool = HttpPool(upstream, host="docker")
    try:
        async with asyncio.timeout(_ANSWER_S_MAX):
            return json.loads((await pool.ask("GET", path)).body)
    finally:
        pool.close()


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
        unset = f"s3 bucket {bucket}: {' and '.join(missing)} not set"
        return Finding("archives", Verdict.BROKEN, unset, "set the usual AWS_… variables")
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
            silent = f"{address[0]}:{address[1]} does not answer ({error})"
            return Finding(
                "archives", Verdict.BROKEN, silent, "start the object store, or correct AWS_ENDPOINT_URL"
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
