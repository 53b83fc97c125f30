"""The stores of people and keys that the contract is proved on, and a way to make what they hold older."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from tests.conftest import ON_15, Worlds
from tests.support.access import Age
from tests.support.stores import PostgresWorld

from codehub.adapters.memory.access import MemoryAccess
from codehub.ports.access import AccessStore

_TIMES = {
    "sessions": ("last_seen_at", "expires_at"),
    "api_tokens": ("last_used_at",),
    "login_failures": ("last_at",),
}


@dataclass(frozen=True)
class AccessWorld:
    access: AccessStore
    age: Age


@pytest.fixture(params=["memory", "postgres-18", ON_15])
async def access_world(request: pytest.FixtureRequest, worlds: Worlds) -> AccessWorld:
    if request.param == "memory":
        return _in_memory()
    on_postgres = await worlds(request.param)
    await on_postgres.clean()
    return AccessWorld(on_postgres.access, lambda by: _age(on_postgres, by))


@pytest.fixture
def access(access_world: AccessWorld) -> AccessStore:
    return access_world.access


@pytest.fixture
def age(access_world: AccessWorld) -> Age:
    return access_world.age


def _in_memory() -> AccessWorld:
    past = timedelta(0)

    def now() -> datetime:
        return datetime.now(UTC) + past

    async def age(by: timedelta) -> None:
        nonlocal past
        past += by

    return AccessWorld(MemoryAccess({}, now=now), age)


async def _age(world: PostgresWorld, by: timedelta) -> None:
    for table, columns in _TIMES.items():
        older = ", ".join(f"{column} = {column} - $1::interval" for column in columns)
        await world.admin.execute(f"UPDATE {table} SET {older}", by)
