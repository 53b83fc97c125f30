"""Pools and single connections in a role. In: where the server is and which of the two writers asks.

Refuses to run as the login itself.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import asyncpg

from codehub.adapters.postgres.lineage import Lineage
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

# Every other error is the database's answer to the statement.
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
    lineage: Lineage | None = None,
) -> "Pool":
    """Open a pool. `lineage` is told of each of its connections.

    With size_min == size_max all connections stay open, and are warmed up before the first request.
    """
    is_permanent = size_min == size_max

    async def prepare(connection: "Connection") -> None:
        if lineage is not None:
            await lineage.note(connection)
        if is_permanent:
            await _warm_up(connection)

    with_role = {
        **connect_args,
        "server_settings": _settings(connect_args, role),
        # A statement without an answer in time is cancelled, which may take as long again; connecting is
        # limited, too.
        "command_timeout": None if answer_s_max is None else answer_s_max / 2,
        "timeout": _CONNECT_S_MAX if answer_s_max is None else answer_s_max,
    }
    async with report_outages():
        return await asyncpg.create_pool(
            min_size=size_min,
            max_size=size_max,
            max_inactive_connection_lifetime=0 if is_permanent else _IDLE_S_MAX,
            max_cached_statement_lifetime=0 if is_permanent else _IDLE_S_MAX,
            init=prepare,
            reset=_skip_reset,
            **with_role,
        )


async def _skip_reset(_connection: object) -> None:
    """Do nothing: transactions are rolled back already, and a reset would cost a round trip each time."""


async def _warm_up(connection: "Executor") -> None:
    """Read the tables once, as requests will: the server loads its catalog and the driver the types, which
    takes 20 ms.
    """
    await connection.fetch(*statements()["acquaint"]())


async def connect(connect_args: ConnectArgs, role: Role) -> "Connection":
    async with report_outages():
        return await asyncpg.connect(**{**connect_args, "server_settings": _settings(connect_args, role)})


@asynccontextmanager
async def report_outages() -> AsyncIterator[None]:
    """Raise StoreUnavailable if the database was not reached; an error that it answered is left as it is."""
    try:
        yield
    except _UNREACHABLE as error:
        if isinstance(
            error, ValueError
        ):  # a wrong setting or argument, which asyncpg calls an InterfaceError too
            raise
        raise StoreUnavailable(f"{type(error).__name__}: {error}") from error


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def repeat_on_new_schema(
    work: Callable[Parameters, Coroutine[Any, Any, Result]],
) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
    """Do a transaction once more that met a table which was expanded since its statements were prepared.

    Outside a transaction the driver does so itself.
    """

    @wraps(work)
    async def work_or_repeat(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            return await work(*arguments, **options)
        except asyncpg.InvalidCachedStatementError:
            return await work(*arguments, **options)

    return work_or_repeat


@asynccontextmanager
async def translate_errors() -> AsyncIterator[None]:
    """Turn the driver's exceptions into the port's."""
    async with report_outages():
        try:
            yield
        except asyncpg.UniqueViolationError as error:
            if error.constraint_name == "idx_workspaces_name":
                raise NameTaken from error
            raise Contradiction(str(error)) from error
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError) as error:
            raise Contradiction(str(error)) from error


def _settings(connect_args: ConnectArgs, role: Role) -> dict[str, str]:
    # JIT pays off on minutes of analysis; here a wrong estimate would make a millisecond's query compile for
    # a second.
    own_settings = {"role": role.value, "application_name": role.value.replace("_", "-"), "jit": "off"}
    return {**connect_args.get("server_settings", {}), **own_settings}
