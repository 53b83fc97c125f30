"""Archives in a real S3 server: large ones in parts, cancelled ones without
a trace, through throttling and outages, and clear refusals.
"""

import asyncio
import os
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.flaky_proxy import Mood, flaky_proxy
from tests.support.s3 import S3, S3Server, running_s3, set_environment
from tests.support.storages import OnThisMachine, denied, granted, new_home, unheard
from tests.support.trees import picture

from codehub.adapters.local.tar import Tar
from codehub.adapters.objectstore.refusals import WrongStore
from codehub.adapters.objectstore.store import Objects, part_bytes_for
from codehub.adapters.objectstore.uploads import Uploads
from codehub.core.observation import Archive
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Home, Report

pytestmark = S3

# Bytes that don't compress, so that an archive has several parts of 8 MB.
LARGE = {f"d{number}/f": random.Random(number).randbytes(3_000_000) for number in range(12)}
SMALL = {"notes": b"hello\n"}

At = Callable[..., AbstractAsyncContextManager[OnThisMachine]]


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[S3Server]:
    async with running_s3() as running:
        yield running


@pytest.fixture
async def bucket(server: S3Server) -> str:
    return await server.new_bucket()


@pytest.fixture
def at(server: S3Server, bucket: str, tmp_path: Path) -> At:
    """Return how to have local homes with their archives in a prefix of the bucket."""

    @asynccontextmanager
    async def opened(*, prepared: bool = True, **environment: str) -> AsyncIterator[OnThisMachine]:
        with set_environment(server.environment(**environment)):
            objects = Objects(f"s3://{bucket}/some/prefix", installation="i")
            machine = OnThisMachine(tmp_path, objects=objects)
            if prepared:
                await machine.objects.prepare()
                await machine.local.prepare()
            yield machine

    return opened


async def filled(machine: OnThisMachine, files: dict[str, bytes]) -> tuple[Home, str]:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, files)
    return home, volume_id


async def comes_back(machine: OnThisMachine, home: Home, volume_id: str) -> str:
    """Archive it, restore it as another, and compare."""
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    other = new_home()
    await machine.provider.restore(other, key, unheard)
    assert picture(os.fsencode(machine.path(other))) == picture(os.fsencode(machine.path(home)))
    return key


async def test_an_archive_of_many_parts_comes_back(at: At, server: S3Server, bucket: str) -> None:
    async with at() as machine:
        key = await comes_back(machine, *await filled(machine, LARGE))
        (listed,) = await machine.provider.list_archives()
        assert (listed.key, listed.committed) == (key, True)
        assert listed.size > 30_000_000
        assert await server.unfinished_uploads(bucket) == []


async def test_archives_are_found_listed_and_deleted_under_their_prefix(at: At) -> None:
    async with at() as machine:
        home, volume_id = await filled(machine, SMALL)
        key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        empty = await machine.provider.create_empty_archive(home, uuid4(), granted)
        assert await machine.provider.head_archive(key) == Archive(committed=True)
        assert await machine.provider.head_archive(f"{home.workspace_id}/{uuid4()}/home.tar.zst") is None
        assert {archive.key for archive in await machine.provider.list_archives()} == {key, empty}
        for _ in range(2):
            await machine.provider.delete_archive(key)
        assert await machine.provider.head_archive(key) is None
        for _ in range(2):
            await machine.provider.purge(home)
        assert not await machine.provider.has_archives(home.workspace_id)


async def test_an_archive_whose_meta_was_cut_does_not_count_and_is_written_again(at: At) -> None:
    async with at() as machine:
        home, volume_id = await filled(machine, SMALL)
        op_id = uuid4()
        key = await machine.provider.archive(home, volume_id, op_id, unheard, granted)
        assert await machine.provider.archive(home, volume_id, op_id, unheard, denied) == key
        await machine.objects.put(f"{key}.meta", b'{"files": 1,')
        assert await machine.provider.head_archive(key) == Archive(committed=False)
        assert await machine.provider.archive(home, volume_id, op_id, unheard, granted) == key
        assert await machine.provider.head_archive(key) == Archive(committed=True)


@pytest.mark.parametrize("after", [1, 12, 25])
async def test_a_cancelled_upload_leaves_no_parts(at: At, server: S3Server, bucket: str, after: int) -> None:
    async with at() as machine:
        home, volume_id = await filled(machine, LARGE)
        heard = 0

        def stop(_amount: Amount) -> None:
            nonlocal heard
            heard += 1
            if heard == after:
                archiving.cancel()

        archiving = asyncio.ensure_future(machine.provider.archive(home, volume_id, uuid4(), stop, granted))
        with pytest.raises(asyncio.CancelledError):
            await archiving
        assert await server.unfinished_uploads(bucket) == []
        assert not await machine.provider.has_archives(home.workspace_id)
        await comes_back(machine, home, volume_id)


@pytest.mark.parametrize("status", [503, 500, 429])
async def test_throttling_and_errors_of_the_server_are_tried_again(
    at: At, server: S3Server, status: int
) -> None:
    asked = 0

    def moody(_head: bytes) -> int | None:
        nonlocal asked
        asked += 1
        return status if asked % 3 == 0 else None

    async with flaky(server, moody) as address, at(AWS_ENDPOINT_URL=address) as machine:
        await comes_back(machine, *await filled(machine, LARGE))
        assert asked // 3 > 3


async def test_an_outage_is_an_outage_and_over_when_it_is_over(
    at: At, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.adapters.objectstore.store.RETRIES", {"max_retries": 1})
    is_away = False

    def moody(_head: bytes) -> int | None:
        return 503 if is_away else None

    async with flaky(server, moody) as address, at(AWS_ENDPOINT_URL=address) as machine:
        home, volume_id = await filled(machine, SMALL)
        key = await comes_back(machine, home, volume_id)
        is_away = True
        for call in (
            machine.provider.list_archives(),
            machine.provider.head_archive(key),
            machine.provider.has_archives(home.workspace_id),
            machine.provider.archive(home, volume_id, uuid4(), unheard, granted),
            machine.provider.restore(new_home(), key, unheard),
            machine.provider.delete_archive(key),
        ):
            with pytest.raises(BackendUnreachable) as failed:
                await call
            assert not isinstance(failed.value, WrongStore)
        is_away = False
        assert await machine.provider.head_archive(key) == Archive(committed=True)


@pytest.mark.parametrize(
    ("status", "is_for_good"),
    [(400, True), (405, True), (413, True), (501, True), (408, False), (409, False), (412, False)],
)
async def test_what_the_server_refuses_for_good_is_a_failure_in_its_words_and_the_rest_an_outage(
    at: At, server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, status: int, *, is_for_good: bool
) -> None:
    monkeypatch.setattr("codehub.adapters.objectstore.store.RETRIES", {"max_retries": 0})

    def refuses_parts(head: bytes) -> int | None:
        return status if b"partNumber=" in head.partition(b"\r\n")[0] else None

    async with flaky(server, refuses_parts) as address, at(AWS_ENDPOINT_URL=address) as machine:
        home, volume_id = await filled(machine, SMALL)
        with pytest.raises(ActionFailed if is_for_good else BackendUnreachable) as failed:
            await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        assert f"status code: {status}" in str(failed.value)
        assert "</Code></Error>" in str(failed.value)
        assert await server.unfinished_uploads(bucket) == []


@pytest.mark.parametrize("code", ["RequestTimeout", "IncompleteBody", "ExpiredToken"])
def test_a_400_that_only_says_later_or_who_are_you_is_an_outage(code: str) -> None:
    message = f"Server returned non-2xx status code: 400 Bad Request: <Error><Code>{code}</Code></Error>"
    with pytest.raises(BackendUnreachable), Objects("s3://bucket", installation="i").report_failures():
        raise OSError(message)


async def test_a_home_of_more_parts_than_the_server_takes_has_larger_ones(
    at: At, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.adapters.objectstore.store.PARTS_MAX", 4)
    asked = set()

    def takes_four_parts(head: bytes) -> int | None:
        part_number = re.search(rb"partNumber=(\d+)", head)
        asked.add(int(part_number[1]) if part_number else 0)
        return 400 if part_number and int(part_number[1]) > 4 else None

    async with flaky(server, takes_four_parts) as address, at(AWS_ENDPOINT_URL=address) as machine:
        await comes_back(machine, *await filled(machine, LARGE))
        assert max(asked) == 4


async def test_a_home_that_is_much_larger_than_it_was_taken_for_is_written_again_in_larger_parts(
    at: At, server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.adapters.objectstore.store.PARTS_MAX", 2)

    def takes_two_parts(head: bytes) -> int | None:
        part_number = re.search(rb"partNumber=(\d+)", head)
        return 400 if part_number and int(part_number[1]) > 2 else None

    async with flaky(server, takes_two_parts) as address, at(AWS_ENDPOINT_URL=address) as machine:
        pack = Tar.pack

        def understate(tar: Tar, home: Path, report: Report) -> AsyncGenerator[bytes, None]:
            return pack(tar, home, lambda amount: report(replace(amount, total=1)))

        monkeypatch.setattr(Tar, "pack", understate)
        await comes_back(machine, *await filled(machine, LARGE))
        assert await server.unfinished_uploads(bucket) == []


@pytest.mark.parametrize(
    ("size", "part_bytes"),
    [(0, 8 << 20), (60 * 10**9, 8 << 20), (10**12, 125 * 10**6), (5 * 10**12, 625 * 10**6)],
)
def test_parts_grow_with_what_is_to_be_stored(size: int, part_bytes: int) -> None:
    assert part_bytes_for(size) == part_bytes
    assert part_bytes_for(size) * 10_000 >= size


@pytest.mark.parametrize("message", ["<Code>XMinioStorageFull</Code>", "507 Insufficient Storage"])
def test_a_full_server_is_a_failure_that_somebody_has_to_hear_of(message: str) -> None:
    with (
        pytest.raises(ActionFailed, match="ArchivesFull"),
        Objects("s3://bucket", installation="i").report_failures(),
    ):
        raise OSError(message)


@pytest.mark.parametrize(
    "wrong", [{"AWS_ACCESS_KEY_ID": "nobody"}, {"AWS_SECRET_ACCESS_KEY": "guessed"}], ids=["key", "secret"]
)
async def test_wrong_credentials_are_told_as_such(at: At, wrong: dict[str, str]) -> None:
    async with at(prepared=False, **wrong) as machine:
        for call in (machine.objects.prepare(), machine.objects.check()):
            with pytest.raises(WrongStore, match="StoreCredentials"):
                await call


async def test_a_missing_bucket_is_told_as_such_and_not_made(server: S3Server) -> None:
    with set_environment(server.environment()):
        objects = Objects("s3://codehub-no-such-bucket/x", installation="i")
        for call in (objects.prepare(), objects.check()):
            with pytest.raises(WrongStore, match="StoreWithoutBucket url=s3://codehub-no-such-bucket/x"):
                await call


async def test_a_bucket_without_our_mark_is_an_outage_and_not_an_empty_one(at: At) -> None:
    async with at(prepared=False) as machine:
        with pytest.raises(BackendUnreachable, match="StoreUnmarked"):
            await machine.provider.list_archives()
        await machine.objects.prepare()
        assert await machine.provider.list_archives() == []


async def test_a_bucket_of_another_installation_is_not_touched(at: At, bucket: str) -> None:
    async with at():
        other = Objects(f"s3://{bucket}/some/prefix", installation="another")
        with pytest.raises(BackendUnreachable, match="OtherInstallation"):
            await other.prepare()


def flaky(server: S3Server, mood: Mood) -> AbstractAsyncContextManager[str]:
    return flaky_proxy(server.endpoint, mood)


async def test_unfinished_uploads_of_ours_are_aborted_when_nothing_came_for_long_enough_and_no_others(
    at: At, server: S3Server, bucket: str
) -> None:
    async with at() as machine:
        ours = f"{uuid4()}/{uuid4()}/home.tar.zst"
        begun = {
            name: await server.begin_upload(bucket, name)
            for name in (f"some/prefix/{ours}", f"other/prefix/{ours}", "some/prefix/of-somebody-else", ours)
        }
        now = datetime.now(UTC)
        assert await machine.provider.list_leftovers() == [
            f"some/prefix/{ours} (unfinished upload {begun[f'some/prefix/{ours}']})"
        ]
        assert await machine.provider.remove_leftovers(now - timedelta(hours=2)) == 0
        assert len(await server.unfinished_uploads(bucket)) == 4
        assert await machine.provider.remove_leftovers(now + timedelta(hours=2)) == 1
        assert await machine.provider.list_leftovers() == []
        del begun[f"some/prefix/{ours}"]
        assert sorted(await server.unfinished_uploads(bucket)) == sorted(begun.values())


async def test_a_purge_aborts_the_uploads_of_its_workspace(at: At, server: S3Server, bucket: str) -> None:
    async with at() as machine:
        home, other = new_home(), new_home()
        for each in (home, other):
            await server.begin_upload(bucket, f"some/prefix/{each.workspace_id}/{uuid4()}/home.tar.zst")
        await machine.provider.purge(home)
        (left,) = await machine.provider.list_leftovers()
        assert str(other.workspace_id) in left


async def test_without_credentials_to_ask_with_unfinished_uploads_are_left_to_the_bucket() -> None:
    assert Uploads.of("bucket", {"AWS_REGION": "eu-central-1"}) is None
