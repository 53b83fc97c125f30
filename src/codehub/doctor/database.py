"""Checks the database: the configured server's version, or the embedded one without starting it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

from codehub.adapters.postgres.embedded import EmbeddedPostgresError, check_embedded, find_running
from codehub.adapters.postgres.migrate import SERVER_VERSION_MIN
from codehub.doctor.findings import Finding, Verdict
from codehub.doctor.language import say
from codehub.settings import Settings

_ANSWER_S_MAX = 3.0


def examine_database(settings: Settings) -> Finding:
    if settings.database_url is not None:
        return asyncio.run(_examine_server(settings.database_url.get_secret_value()))
    try:
        running = find_running(settings.data_dir)
        if running is not None:
            running.close()
            return Finding("database", Verdict.OK, say("database.runs", pid=running.pid))
        version = check_embedded(settings.data_dir)
    except EmbeddedPostgresError as error:
        return Finding("database", Verdict.BROKEN, str(error))
    return Finding("database", Verdict.OK, say("database.rests", version=version))


@dataclass(frozen=True, slots=True)
class DockerHomes:
    """The installation of a database, and its number of homes on Docker."""

    installation: str
    homes: int


_COUNT_HOMES = """
SELECT (SELECT id FROM installation) AS installation, count(*) AS homes FROM workspaces
WHERE instance_backend = 'local-docker' AND storage_backend <> 'local-dir'
    AND (home_ctx ->> 'volume_id' IS NOT NULL OR (home_ctx ->> 'dirty')::boolean)
"""


def count_docker_homes(settings: Settings) -> DockerHomes | None:
    """Query the database, if it runs and has codehub's schema."""
    if settings.database_url is not None:
        return asyncio.run(_count_homes({"dsn": settings.database_url.get_secret_value()}))
    try:
        running = find_running(settings.data_dir)
    except EmbeddedPostgresError:
        return None
    if running is None:
        return None
    with running:
        return asyncio.run(_count_homes(running.connect_args))


async def _count_homes(connect_args: Mapping[str, Any]) -> DockerHomes | None:
    try:
        connection = await asyncpg.connect(**connect_args, timeout=_ANSWER_S_MAX)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None
    try:
        row = await connection.fetchrow(_COUNT_HOMES)
        return DockerHomes(str(row["installation"]), row["homes"])
    except asyncpg.PostgresError:
        return None
    finally:
        await connection.close()


async def _examine_server(url: str) -> Finding:
    do = say("database.do")
    try:
        connection = await asyncpg.connect(url, timeout=_ANSWER_S_MAX)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        reason = str(error) or type(error).__name__
        return Finding("database", Verdict.BROKEN, say("database.unreachable", error=reason), do)
    try:
        version = connection.get_server_version()
    finally:
        await connection.close()
    if version.major < SERVER_VERSION_MIN:
        return Finding(
            "database",
            Verdict.BROKEN,
            say("database.server", version=version.major),
            say("database.old.do", version=SERVER_VERSION_MIN),
        )
    return Finding("database", Verdict.OK, say("database.server", version=f"{version.major}.{version.minor}"))
