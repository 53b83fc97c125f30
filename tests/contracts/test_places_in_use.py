"""What tells a new place from one whose mark is missing: where anything of a workspace lies."""

import pytest
from tests.support.stores import PostgresWorld

from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.app.archives import UnmarkedStores, find_unmarked
from codehub.core.workspace import HomeCtx, Status, StorageBackend
from codehub.ports.store import PlacesInUse

DIR, VOLUME = StorageBackend.LOCAL_DIR, StorageBackend.DOCKER_VOLUME


async def places_in_use(postgres: PostgresWorld) -> PlacesInUse:
    return await PostgresApiStore(postgres.api_pool, postgres.hints).places_in_use()


@pytest.mark.parametrize(
    ("home", "used"),
    [
        (HomeCtx(), frozenset()),
        (HomeCtx(volume_id="v1"), {DIR}),
        (HomeCtx(dirty=True), {DIR}),
    ],
)
async def test_a_home_may_lie_where_a_volume_is_known_or_was_being_made(
    postgres: PostgresWorld, home: HomeCtx, used: set[StorageBackend]
) -> None:
    await postgres.create(storage_backend=VOLUME)
    await postgres.place(postgres.spec(storage_backend=DIR), Status(home_ctx=home))
    assert await places_in_use(postgres) == PlacesInUse(has_archives=False, homes=frozenset(used))


async def test_one_archive_of_anybody_s_says_that_there_are_archives(postgres: PostgresWorld) -> None:
    assert await places_in_use(postgres) == PlacesInUse(has_archives=False, homes=frozenset())
    row = await postgres.create()
    key = f"{row.id}/{row.id}/home.tar.zst"
    await postgres.admin.execute("UPDATE workspaces SET archive_key = $2 WHERE id = $1", row.id, key)
    used = await places_in_use(postgres)
    assert used.has_archives
    assert find_unmarked(used) == UnmarkedStores(archives=False, homes=frozenset(StorageBackend))
