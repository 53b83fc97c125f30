"""A running server goes in; returns when it accepts connections, and raises what is wrong when it
never will.
"""

import asyncpg

from codehub.adapters.postgres.embedded.address import DATABASE, Address
from codehub.adapters.postgres.embedded.cluster import Layout
from codehub.adapters.postgres.embedded.errors import EmbeddedPostgresError, TryAgain, explain_failed_start
from codehub.adapters.postgres.embedded.server import Server
from codehub.ports.system import Clock

_PAUSE_S = 0.03
_TIMEOUT_S = 5.0
_SILENCE_S = 15.0
_RECOVERY_S = 300.0  # replaying a gigabyte of log on a slow disk


async def until_accepting(server: Server, address: Address, *, layout: Layout, clock: Clock) -> None:
    """Wait for the server while it is alive and says that it is coming or going; without a word, only a
    little.
    """
    began_at = answered_at = clock.monotonic()
    while True:
        try:
            await _ensure_database(address)
        except (asyncpg.CannotConnectNowError, FileNotFoundError, ConnectionRefusedError) as error:
            problem, answered_at = str(error), clock.monotonic()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            # The last but one is what asyncpg says when the server dies between two messages.
            problem = str(error) or "it does not answer"
        else:
            return
        if not server.alive():
            raise _death_reason(server, layout)
        now = clock.monotonic()
        if now - began_at > _RECOVERY_S or now - answered_at > _SILENCE_S:
            raise _silence_reason(server, layout, problem)
        await clock.sleep(_PAUSE_S)


async def _ensure_database(address: Address) -> None:
    """Connect to our database, and make it when it is missing.

    Returning proves that the server accepts connections.
    """
    try:
        connection = await asyncpg.connect(**address.connect_args, timeout=_TIMEOUT_S)
    except asyncpg.InvalidCatalogNameError:
        connection = await asyncpg.connect(
            **{**address.connect_args, "database": "postgres"}, timeout=_TIMEOUT_S
        )
        try:
            await connection.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            await connection.close(timeout=_TIMEOUT_S)
    else:
        await connection.close(timeout=_TIMEOUT_S)


def _death_reason(server: Server, layout: Layout) -> Exception:
    if server.adopted:
        return TryAgain(f"the server that was found (pid {server.pid}) has ended")
    return explain_failed_start(server.output(), code=server.exit_code, data=layout.data, log=layout.log)


def _silence_reason(server: Server, layout: Layout, problem: str) -> Exception:
    if server.adopted:
        return TryAgain(f"the server that was found (pid {server.pid}) accepts no connections: {problem}")
    return EmbeddedPostgresError(
        f"the database in {layout.data} accepts no connections ({problem}): read {layout.log}, then start "
        "codehub again"
    )
