"""Pools and single connections in a role. In: where the server is and which of the two writers asks. Refuses to run as the login itself."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg

from codehub.adapters.postgres.sql import statements
from codehub.ports.store import Contradiction, NameTaken, StoreUnavailable

if TYPE_CHECKING:  # asyncpg's classes are generic in its stubs only
    from asyncpg.pool import PoolConnectionProxy

    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    # What connects and what a pool lends: both run statements.
    Executor: TypeAlias = Connection | PoolConnectionProxy[asyncpg.Record]

# What `asyncpg.connect` takes: {"dsn": …}, or host, port, user, password, database.
ConnectArgs = Mapping[str, Any]

# Beyond these, an answer came from the database: it was reached, and what it says is about the statement.
_UNREACHABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutting down, starting up, terminated by an administrator
    asyncpg.InsufficientResourcesError,  # too many connections, disk full
    asyncpg.ObjectNotInPrerequisiteStateError,  # the database takes no connections now
    asyncpg.InvalidCatalogNameError,  # it is gone: being restored, perhaps
    asyncpg.ReadOnlySQLTransactionError,  # a standby, after a failover
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InternalClientError,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)


_IDLE_S_MAX = 300
_CONNECT_S_MAX = 60.0


class Role(StrEnum):
    OWNER = "codehub_owner"
    API = "codehub_api"
    CONTROLLER = "codehub_controller"


async def open_pool(
    connect_args: ConnectArgs,
    role: Role,
    *,
    size_min: int = 1,
    size_max: int = 10,
    answer_s_max: float | None = None,
) -> "Pool":
    """Open a pool. One whose least is its most stays open for good: a crowd of requests finds every connection there, and acquainted."""
    stays = size_min == size_max
    with_role = {
        **connect_args,
        "server_settings": _settings(connect_args, role),
        # One that is not answered in time is called off, which is given as long again; and so has connecting an end.
        "command_timeout": None if answer_s_max is None else answer_s_max / 2,
        "timeout": _CONNECT_S_MAX if answer_s_max is None else answer_s_max,
    }
    async with reaching():
        return await asyncpg.create_pool(
            min_size=size_min,
            max_size=size_max,
            max_inactive_connection_lifetime=0 if stays else _IDLE_S_MAX,
            max_cached_statement_lifetime=0 if stays else _IDLE_S_MAX,
            init=_acquainted if stays else None,
            reset=_as_it_is,
            **with_role,
        )


async def _as_it_is(_connection: object) -> None:
    """Open transactions were rolled back; else nobody leaves anything in a session, and asking for that took a round trip each time."""


async def _acquainted(connection: "Executor") -> None:
    """Ask for the tables once, as requests will: the server reads its catalog and the driver learns the types, which takes 20 ms each time."""
    await connection.fetch(*statements()["acquaint"]())


async def connect(connect_args: ConnectArgs, role: Role) -> "Connection":
    async with reaching():
        return await asyncpg.connect(**{**connect_args, "server_settings": _settings(connect_args, role)})


@asynccontextmanager
async def reaching() -> AsyncIterator[None]:
    """Say StoreUnavailable where the database was not reached; what it answered stays what it is."""
    try:
        yield
    except _UNREACHABLE as error:
        if isinstance(
            error, ValueError
        ):  # a wrong setting or argument, which asyncpg calls an InterfaceError too
            raise
        raise StoreUnavailable(f"{type(error).__name__}: {error}") from error


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn the driver's exceptions into the port's."""
    async with reaching():
        try:
            yield
        except asyncpg.UniqueViolationError as error:
            if error.constraint_name == "idx_workspaces_name":
                raise NameTaken from error
            raise Contradiction(str(error)) from error
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError) as error:
            raise Contradiction(str(error)) from error


def _settings(connect_args: ConnectArgs, role: Role) -> dict[str, str]:
    # JIT pays off on minutes of analysis; here a wrong estimate would make a millisecond's query compile for a second.
    ours = {"role": role.value, "application_name": role.value.replace("_", "-"), "jit": "off"}
    return {**connect_args.get("server_settings", {}), **ours}
