"""What was remembered by transactions counts no more once a connection is to another history of the
database.
"""

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import asyncpg
import pytest
from tests.support.stores import PostgresWorld

from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.lineage import Lineage
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.ports.store import HistoryChanged


def connection(timeline: object) -> Any:
    """A new connection, to a server that tells this."""
    is_refusal = isinstance(timeline, Exception)
    answer = AsyncMock(side_effect=timeline) if is_refusal else AsyncMock(return_value=timeline)
    return SimpleNamespace(fetchval=answer)


async def test_a_history_is_another_when_a_new_connection_is_to_another_timeline() -> None:
    lineage, numbers = Lineage(), []
    hidden = asyncpg.InsufficientPrivilegeError("no")
    for timeline in ("00000001", "00000001", "00000002", hidden, "00000002", "00000003"):
        await lineage.note(connection(timeline))
        numbers.append(lineage.number)
    assert numbers == [0, 0, 1, 1, 1, 2]


async def test_each_connection_of_a_pool_tells_its_timeline(postgres: PostgresWorld) -> None:
    lineage = Lineage()
    await lineage.note(connection("of another server"))
    pool = await open_pool(postgres.connect_args, Role.CONTROLLER, lineage=lineage)
    await pool.close()
    assert lineage.number == 1


async def test_a_look_after_a_fail_over_says_that_the_history_has_changed(postgres: PostgresWorld) -> None:
    lineage = Lineage()
    store = PostgresControllerStore(postgres.controller_pool, MemoryHints(), lineage)
    row = await postgres.create()
    first = await store.changes(None)
    assert [each.id for each in first.workspaces] == [row.id]
    assert not (await store.changes(first.cursor)).workspaces
    lineage.number += 1
    with pytest.raises(HistoryChanged):
        await store.changes(first.cursor)
    assert [each.id for each in (await store.changes(None)).workspaces] == [row.id]
