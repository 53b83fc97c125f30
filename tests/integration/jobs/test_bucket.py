"""Archive and restore by a Job, with archives in a real S3 server: the
program runs as a process of another user, and holds grants alone.
"""

import asyncio
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from tests.support.flaky_proxy import flaky_proxy
from tests.support.home_job import JOBS, Claim, children, own
from tests.support.job_bucket import GIB, PREFIX, At, comes_back, new_key, write
from tests.support.s3 import S3, S3Server
from tests.support.storages import unheard

from codehub.adapters.objectstore.store import Objects
from codehub.core.errors import ErrorReason
from codehub.core.observation import Archive
from codehub.ports.archives import Hear, JobGrants
from codehub.ports.backends import ActionFailed, BackendUnreachable, EngineFailed

pytestmark = [S3, JOBS, pytest.mark.s3]


async def test_a_home_of_many_parts_comes_back_and_leaves_no_parts(
    at: At, server: S3Server, bucket: str, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    key = new_key()
    async with at() as archives:
        await write(archives, key, claim.archive)
        assert await archives.head(key) == Archive(committed=True)
        assert await server.unfinished_uploads(bucket) == []
        await comes_back(archives, key, claim, make_claim())
        # A committed archive is not written again.
        await write(archives, key, claim.archive)
        assert len(claim.grants) == 1


async def test_an_archive_that_may_not_be_committed_does_not_count_and_again_succeeds(
    at: At, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    key = new_key()

    async def refused() -> datetime:
        raise ActionFailed("taken over")

    async with at() as archives:
        with pytest.raises(ActionFailed, match="taken over"):
            await archives.write_by_job(key, claim.archive, unheard, refused, capacity=GIB, time_limit_s=60)
        assert await archives.head(key) == Archive(committed=False)
        await write(archives, key, claim.archive)
        await comes_back(archives, key, claim, make_claim())


@pytest.mark.parametrize("stage", ["archive", "verify"])
async def test_a_job_killed_at_any_stage_leaves_nothing_that_counts_and_again_succeeds(
    at: At, server: S3Server, bucket: str, claim: Claim, make_claim: Callable[[], Claim], stage: str
) -> None:
    key, other = new_key(), make_claim()
    async with at() as archives:
        claim.mood = lambda line: claim.kill() if stage in line else None
        with pytest.raises(EngineFailed):
            await write(archives, key, claim.archive)
        assert await archives.head(key) != Archive(committed=True)
        assert await server.unfinished_uploads(bucket) == []
        claim.mood = unheard_line
        await write(archives, key, claim.archive)
        other.mood = lambda line: other.kill() if "restore" in line else None
        with pytest.raises(EngineFailed):
            await archives.read_by_job(key, other.restore, unheard, time_limit_s=60)
        assert not other.home.exists()
        other.mood = unheard_line
        await comes_back(archives, key, claim, other)


async def test_a_job_that_is_told_to_stop_says_so_and_no_failure(at: At, claim: Claim) -> None:
    def stop(line: str) -> None:
        if "archive" in line:
            assert claim.process is not None
            for pid in children(claim.process.pid):
                if b"codehub.job" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGTERM)

    claim.mood = stop
    async with at() as archives:
        with pytest.raises(BackendUnreachable, match="JobStopped"):
            await write(archives, new_key(), claim.archive)


async def test_a_controller_that_dies_leaves_an_upload_that_the_next_one_takes_back(
    at: At, server: S3Server, bucket: str, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    key = new_key()
    async with at() as archives:
        await server.begin_upload(bucket, f"{PREFIX}/{key}")
        await write(archives, key, claim.archive)
        assert await server.unfinished_uploads(bucket) == []
        await comes_back(archives, key, claim, make_claim())


async def test_a_job_that_comes_late_replaces_nothing_that_was_committed(
    at: At, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    key, late = new_key(), make_claim()
    late.home.mkdir()
    (late.home / "stale").write_bytes(b"stale")
    own(late.home)
    is_committed = asyncio.Event()

    async def run_late(grants: JobGrants, hear: Hear) -> str:
        given.set()
        await is_committed.wait()
        return await late.archive(grants, hear)

    given = asyncio.Event()
    async with at() as archives:
        stale = asyncio.ensure_future(write(archives, key, run_late))
        await given.wait()
        await write(archives, key, claim.archive)
        is_committed.set()
        await stale
        assert "StoreUnusable" in late.lines[-1]
        await comes_back(archives, key, claim, make_claim())


async def test_of_two_jobs_of_an_operation_at_once_one_is_committed_whole(
    at: At, server: S3Server, bucket: str, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    key, twin = new_key(), Claim(claim.path)
    async with at() as archives:
        outcomes = await asyncio.gather(
            write(archives, key, claim.archive), write(archives, key, twin.archive), return_exceptions=True
        )
        assert None in outcomes
        assert all(isinstance(outcome, ActionFailed | BackendUnreachable | None) for outcome in outcomes)
        assert await archives.head(key) == Archive(committed=True)
        assert await server.unfinished_uploads(bucket) == []
        await comes_back(archives, key, claim, make_claim())


# The store


@pytest.mark.parametrize("status", [503, 429])
async def test_what_the_store_answers_with_a_temporary_error_is_asked_again(
    at: At, server: S3Server, claim: Claim, make_claim: Callable[[], Claim], status: int
) -> None:
    asked = 0

    def moody(_head: bytes) -> int | None:
        nonlocal asked
        asked += 1
        return status if asked % 3 == 0 else None

    async with flaky_proxy(server.endpoint, moody) as address, at(AWS_ENDPOINT_URL=address) as archives:
        key = new_key()
        await write(archives, key, claim.archive)
        await comes_back(archives, key, claim, make_claim())
        assert len(claim.grants) == 1


async def test_a_store_that_is_cut_off_in_the_middle_is_an_outage_and_over_when_it_is_over(
    at: At, server: S3Server, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    away: list[bytes] = []

    def moody(head: bytes) -> int | None:
        return 503 if any(re.match(request, head) for request in away) else None

    async with flaky_proxy(server.endpoint, moody) as address, at(AWS_ENDPOINT_URL=address) as archives:
        key, other = new_key(), make_claim()
        claim.program = other.program = "tests.support.impatient_job"
        for request in (rb"PUT .*partNumber=3&", rb"POST .*X-Amz-Signature", rb"GET .*X-Amz-Signature"):
            away[:] = [request]
            with pytest.raises(BackendUnreachable, match="StoreUnusable"):
                await write(archives, key, claim.archive)
            away.clear()
            assert await archives.head(key) != Archive(committed=True)
        await write(archives, key, claim.archive)
        away[:] = [rb"GET .*X-Amz-Signature"]
        with pytest.raises(BackendUnreachable, match="StoreUnusable"):
            await archives.read_by_job(key, other.restore, unheard, time_limit_s=60)
        away.clear()
        await comes_back(archives, key, claim, other)


async def test_a_damaged_archive_is_refused_and_nothing_of_it_is_there(
    at: At, bucket: str, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    key, other = new_key(), make_claim()
    async with at() as archives:
        await write(archives, key, claim.archive)
        objects = Objects(f"s3://{bucket}/{PREFIX}", installation="i")
        content = b"".join(map(bytes, objects.download(key) or ()))
        damaged = content[:9_000_000] + bytes([content[9_000_000] ^ 1]) + content[9_000_001:]
        await objects.put(key, damaged)
        with pytest.raises(ActionFailed, match="ArchiveDamaged") as failed:
            await archives.read_by_job(key, other.restore, unheard, time_limit_s=60)
        assert failed.value.reason is ErrorReason.ARCHIVE_CORRUPTED
        assert list(other.path.iterdir()) == []
        await objects.delete(key)
        with pytest.raises(ActionFailed, match="ArchiveNotThere") as failed:
            await archives.read_by_job(key, other.restore, unheard, time_limit_s=60)
        assert failed.value.reason is ErrorReason.DATA_LOST


# Size


async def test_a_home_of_a_gigabyte_costs_a_job_no_more_memory(
    at: At, make_claim: Callable[[], Claim]
) -> None:
    claim, other, peaks = make_claim(), make_claim(), list[int]()
    claim.home.mkdir()
    with (claim.home / "sparse").open("wb") as file:
        file.truncate(GIB)
    with (claim.home / "zeros").open("wb") as file:
        for _ in range(GIB >> 23):
            file.write(bytes(8 << 20))
    own(claim.home)

    def look(of: Claim) -> Callable[[str], None]:
        def measure(_line: str) -> None:
            assert of.process is not None
            with suppress(FileNotFoundError, ProcessLookupError):
                peaks.extend(peak_bytes(pid) for pid in children(of.process.pid))

        return measure

    claim.mood, other.mood = look(claim), look(other)
    async with at() as archives:
        key = new_key()
        await write(archives, key, claim.archive, capacity=2 * GIB)
        await archives.read_by_job(key, other.restore, unheard, time_limit_s=60)
    assert (other.home / "zeros").stat().st_size == (other.home / "sparse").stat().st_size == GIB
    assert (other.home / "sparse").stat().st_blocks == 0
    assert 0 < max(peaks) < 300_000_000


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def unheard_line(_line: str) -> None:
    return
