"""Signatures of version 4, against the examples that AWS has published for S3."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from codehub.adapters.objectstore.jobs import _Bucket
from codehub.adapters.objectstore.signing import SIGNATURE, Signer, encode_query
from codehub.adapters.objectstore.store import Objects

AT = datetime(2013, 5, 24, tzinfo=UTC)
EXAMPLE = Signer(
    "https://examplebucket.s3.amazonaws.com",
    "us-east-1",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)


def test_a_request_is_signed_as_in_the_published_examples() -> None:
    for query, signature in (
        ({"lifecycle": ""}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            {"max-keys": "2", "prefix": "J"},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ):
        proof = EXAMPLE.headers("GET", "/", query, AT)["authorization"]
        assert proof == (
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            f" SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"
        )


def test_a_url_is_signed_as_in_the_published_example() -> None:
    query = EXAMPLE.query("GET", "/test.txt", {}, AT, 86_400)
    assert query[SIGNATURE] == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    assert encode_query(query) == (
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404&X-Amz-SignedHeaders=host"
    )


@pytest.mark.parametrize("skew", [timedelta(minutes=-10), timedelta(), timedelta(minutes=10)])
def test_a_grant_is_good_for_all_of_the_work_by_a_store_s_clock_that_differs(
    monkeypatch: pytest.MonkeyPatch, skew: timedelta
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    work = timedelta(hours=1)
    url = _Bucket(Objects("s3://bucket/prefix", installation="install")).url(
        "GET", "key", int(work.total_seconds())
    )
    query = parse_qs(urlsplit(url).query)
    begins_at = datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%S%z")
    ends_at = begins_at + timedelta(seconds=int(query["X-Amz-Expires"][0]))
    now = datetime.now(UTC) + skew
    assert begins_at < now
    assert ends_at > now + work
