"""What a Job is granted: requests for one archive, for some minutes, and no credentials."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo

import httpx
import pytest
from tests.support.home_job import JOBS, Claim, checked
from tests.support.job_bucket import GIB, PREFIX, At, comes_back, new_key, write
from tests.support.s3 import S3, S3Server
from tests.support.storages import unheard

from codehub.adapters.objectstore.grants import decode
from codehub.ports.archives import Hear, JobGrants
from codehub.ports.backends import ActionFailed, BackendUnreachable, EngineFailed

pytestmark = [S3, JOBS, pytest.mark.s3]


async def test_a_home_that_outgrows_its_grants_is_archived_by_another_job(
    at: At, server: S3Server, bucket: str, claim: Claim, make_claim: Callable[[], Claim]
) -> None:
    key = new_key()
    async with at() as archives:
        await write(archives, key, claim.archive, capacity=1)
        assert [len(granted_parts(text)) for text in claim.grants] == [2, 6]
        assert await server.unfinished_uploads(bucket) == []
        await comes_back(archives, key, claim, make_claim())


def granted_parts(text: str) -> Sequence[str]:
    parts = decode(text).parts
    assert parts is not None
    return parts.signatures


async def test_the_grants_of_the_largest_archive_fit_into_a_secret(at: At) -> None:
    async with at() as archives:

        async def look(grants: JobGrants, _hear: Hear) -> str:
            assert len(granted_parts(grants.text)) == 10_000
            assert len(grants.text) < 900_000
            return ""

        with pytest.raises(EngineFailed):
            await write(archives, new_key(), look, capacity=5 * 10**12)


async def test_grants_open_nothing_but_the_one_archive_and_hold_no_credentials(
    at: At, server: S3Server, bucket: str, claim: Claim
) -> None:
    key, another = new_key(), new_key()
    statuses: dict[str, int] = {}

    async def try_all(grants: JobGrants, _hear: Hear) -> str:
        assert server.secret_key not in grants.text
        given = decode(grants.text)
        assert given.parts is not None
        part = f"{given.parts.url}&partNumber=1&X-Amz-Signature={given.parts.signatures[0]}"
        there = f"/{bucket}/{PREFIX}/{another}"
        requests = {
            "read another": ("GET", given.place.replace(key, another)),
            "read what commits it": ("GET", given.place.replace(key, f"{key}.meta")),
            "write by the right to read": ("PUT", given.place),
            "delete by the right to read": ("DELETE", given.place),
            "write another part": ("PUT", part.replace("partNumber=1", "partNumber=2")),
            "write a part of another": ("PUT", part.replace(key, another)),
            "write into another upload": ("PUT", re.sub("uploadId=[^&]+", "uploadId=other", part)),
            "write the whole by a part's right": ("PUT", re.sub("&(uploadId|partNumber)=[^&]+", "", part)),
            "abort by the right to complete": ("DELETE", given.parts.complete_url),
            "complete another": ("POST", given.parts.complete_url.replace(key, another)),
            "list the bucket": ("GET", given.place.replace(f"/{PREFIX}/{key}", "/")),
            "write without a signature": ("PUT", f"{server.endpoint}{there}"),
            "live longer": ("GET", re.sub("X-Amz-Expires=[0-9]+", "X-Amz-Expires=9999", given.place)),
        }
        async with httpx.AsyncClient() as client:
            for what, (method, url) in requests.items():
                statuses[what] = (await client.request(method, url, content=b"x")).status_code
            assert (await client.put(part, content=b"x")).status_code == 200
        return ""

    async with at() as archives:
        await archives.write_by_job(another, claim.archive, unheard, checked, capacity=GIB, time_limit_s=60)
        with pytest.raises(EngineFailed):
            await write(archives, key, try_all)
        assert statuses == dict.fromkeys(statuses, 403)
        assert len(statuses) == 13


async def test_grants_that_have_expired_are_an_outage_for_the_job_and_the_next_ones_are_good(
    at: At, claim: Claim, make_claim: Callable[[], Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = new_key(), make_claim()
    async with at() as archives:
        await write(archives, key, claim.archive)
        with monkeypatch.context() as patched:
            patched.setattr("codehub.adapters.objectstore.jobs.datetime", AnHourAgo)
            with pytest.raises(BackendUnreachable, match="GrantsRefused"):
                await archives.read_by_job(key, other.restore, unheard, time_limit_s=60)
        await comes_back(archives, key, claim, other)


class AnHourAgo:
    @staticmethod
    def now(zone: tzinfo) -> datetime:
        return datetime.now(zone) - timedelta(hours=1)


async def test_without_credentials_to_sign_with_nothing_is_granted(
    at: At, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at() as archives:
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with pytest.raises(ActionFailed, match="StoreUnsigned"):
            await write(archives, new_key(), claim.archive)
