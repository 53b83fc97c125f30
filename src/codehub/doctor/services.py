"""The services around codehub, each asked itself: Docker and Redis
for their versions, the object store for the bucket.
"""

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
from codehub.doctor.language import say
from codehub.ports.instances import Upstream
from codehub.setting_urls import is_web_address
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text

_ANSWER_S_MAX = 3.0
_BUCKET_S_MAX = 10.0
_DOCKER_API_MIN = (1, 41)  # Docker 20.10


def examine_docker(settings: Settings) -> Finding:
    need = Verdict.BROKEN if settings.instance_backend is InstanceBackend.LOCAL_DOCKER else Verdict.OPTIONAL
    do = say("docker.do.optional" if need is Verdict.OPTIONAL else "docker.do")
    host = os.environ.get("DOCKER_HOST") or DEFAULT_URL
    try:
        upstream = engine_upstream(host)
    except OSError as error:
        return Finding("docker", need, say("docker.wrong_host", error=error), say("docker.wrong_host.do"))
    try:
        about = asyncio.run(_ask(upstream, "/version"))
        version = str(about["Version"])
        api = tuple(int(part) for part in str(about["ApiVersion"]).split("."))
    except TimeoutError:
        return Finding("docker", need, say("docker.late", host=host, seconds=_ANSWER_S_MAX), do)
    except OSError as error:
        why = str(error) if error.errno is None else os.strerror(error.errno)
        return Finding("docker", need, say("docker.silent", host=host, error=why), do)
    except (ValueError, KeyError, TypeError):
        return Finding("docker", need, say("docker.other", host=host), do)
    if api < _DOCKER_API_MIN:
        old = say("docker.old", version=version, host=host)
        return Finding("docker", need, old, say("docker.old.do"))
    if need is Verdict.BROKEN and (mark := _missing_mark(settings, upstream)) is not None:
        missing = say("docker.no_mark", version=version, host=host, mark=mark)
        return Finding("docker", need, missing, say("docker.no_mark.do"))
    return Finding("docker", Verdict.OK, say("docker.ok", version=version, host=host))


def _missing_mark(settings: Settings, upstream: Upstream) -> str | None:
    """Return the mark that the engine should have, if it has not.
    While nothing lies on it, the next start makes it.
    """
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
        return Finding("redis", Verdict.OPTIONAL, say("redis.unset"), say("redis.unset.do"))
    from redis import Redis, RedisError  # noqa: PLC0415  # it takes a while to import

    text = settings.redis_url.get_secret_value()
    url = urlsplit(text)
    where = url.path if url.scheme == "unix" else f"{url.hostname or 'localhost'}:{url.port or 6379}"
    client = Redis.from_url(text, socket_timeout=_ANSWER_S_MAX, socket_connect_timeout=_ANSWER_S_MAX)
    try:
        version = client.info("server")["redis_version"]
    except (RedisError, OSError, ValueError) as error:
        do = say("redis.unusable.do")
        unusable = say("redis.unusable", place=where, error=_first_line(error))
        return Finding("redis", Verdict.BROKEN, unusable, do)
    finally:
        client.close()
    return Finding("redis", Verdict.OK, say("redis.ok", version=version, place=where))


def examine_s3(settings: Settings) -> Finding:
    bucket = urlsplit(settings.archives).netloc
    missing = [name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if not os.environ.get(name)]
    if missing:
        unset = say("s3.unset", bucket=bucket, names=say("s3.and").join(missing))
        return Finding("archives", Verdict.BROKEN, unset, say("s3.unset.do"))
    given = os.environ.get("AWS_ENDPOINT_URL")
    if given and not is_web_address(given):
        wrong = say("s3.wrong_endpoint", endpoint=given)
        return Finding("archives", Verdict.BROKEN, wrong, say("s3.wrong_endpoint.do"))
    endpoint = urlsplit(given or "")
    if endpoint.hostname is not None:
        address = (endpoint.hostname, endpoint.port or (443 if endpoint.scheme == "https" else 80))
        try:
            socket.create_connection(address, _ANSWER_S_MAX).close()
        except OSError as error:
            silent = say("s3.silent", host=address[0], port=address[1], error=error)
            return Finding("archives", Verdict.BROKEN, silent, say("s3.silent.do"))
    return asyncio.run(_examine_bucket(settings.archives, bucket))


async def _examine_bucket(archives: str, bucket: str) -> Finding:
    from codehub.adapters.objectstore.store import MARK, Objects  # noqa: PLC0415  # whoever needs no S3 waits for none
    from codehub.ports.backends import ActionFailed, BackendUnreachable  # noqa: PLC0415

    do = say("s3.do")
    try:
        async with asyncio.timeout(_BUCKET_S_MAX):
            mark = await Objects(archives, installation="").get(MARK)
    except TimeoutError:
        late = say("s3.late", bucket=bucket, seconds=_BUCKET_S_MAX)
        return Finding("archives", Verdict.BROKEN, late, do)
    except (ActionFailed, BackendUnreachable) as error:
        reason = failure_text(error, terminal_language()).splitlines()[0]
        refused = say("s3.refused", bucket=bucket, reason=reason)
        return Finding("archives", Verdict.BROKEN, refused, do)
    if mark is None:
        return Finding("archives", Verdict.OK, say("s3.new", bucket=bucket))
    installation = mark.decode(errors="replace").strip()[:36]
    return Finding("archives", Verdict.OK, say("s3.ok", bucket=bucket, installation=installation))


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
