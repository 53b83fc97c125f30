"""A request to an S3 store goes in, what proves it comes out: its
headers, or the query of a URL that is good for a while.

Signatures of version 4. obstore signs no query of ours, which the parts of an upload need.
"""

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

LIFETIME_S_MAX = 7 * 86_400
SIGNATURE = "X-Amz-Signature"
_ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY = hashlib.sha256(b"").hexdigest()
_SAFE = "-_.~"


@dataclass(frozen=True, slots=True)
class Signer:
    """Credentials and the server that they are for: signs requests."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str
    token: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Signer | None":
        """Return the signer that these variables describe, or None if they hold no credentials."""
        access_key, secret_key = (
            environment.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        )
        if not access_key or not secret_key:
            return None
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
        endpoint = environment.get("AWS_ENDPOINT_URL") or f"https://s3.{region}.amazonaws.com"
        return cls(endpoint.rstrip("/"), region, access_key, secret_key, environment.get("AWS_SESSION_TOKEN"))

    @property
    def server(self) -> str:
        """The endpoint without its path."""
        parts = urlsplit(self.endpoint)
        return f"{parts.scheme}://{parts.netloc}"

    def path(self, *names: str) -> str:
        """Return the path of a bucket, or of an object in it."""
        return quote("/".join((urlsplit(self.endpoint).path, *names)), safe=f"/{_SAFE}")

    def headers(self, method: str, path: str, query: Mapping[str, str], at: datetime) -> Mapping[str, str]:
        """Return the headers of a request without a body."""
        headers = {"host": self._host, "x-amz-content-sha256": _EMPTY, "x-amz-date": _stamp(at)}
        if self.token:
            headers["x-amz-security-token"] = self.token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        signature = self._sign("\n".join((method, path, encode_query(query), lines, names, _EMPTY)), at)
        credential = f"Credential={self.access_key}/{self._scope(at)}"
        proof = f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"
        return headers | {"authorization": proof}

    def query(
        self, method: str, path: str, query: Mapping[str, str], at: datetime, lifetime_s: int
    ) -> Mapping[str, str]:
        """Return the query with a proof, for anyone who asks just this within the time, whatever the body."""
        proof = {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.access_key}/{self._scope(at)}",
            "X-Amz-Date": _stamp(at),
            "X-Amz-Expires": str(lifetime_s),
            "X-Amz-SignedHeaders": "host",
        }
        if self.token:
            proof["X-Amz-Security-Token"] = self.token
        signed = {**query, **proof}
        request = (method, path, encode_query(signed), f"host:{self._host}\n", "host", "UNSIGNED-PAYLOAD")
        return signed | {SIGNATURE: self._sign("\n".join(request), at)}

    @property
    def _host(self) -> str:
        return urlsplit(self.endpoint).netloc

    def _scope(self, at: datetime) -> str:
        return f"{at:%Y%m%d}/{self.region}/s3/aws4_request"

    def _sign(self, request: str, at: datetime) -> str:
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join((_ALGORITHM, _stamp(at), self._scope(at), digest))
        key = f"AWS4{self.secret_key}".encode()
        for part in self._scope(at).split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, text.encode(), "sha256").hex()


def encode_query(query: Mapping[str, str]) -> str:
    """Return the query as it stands in a URL, and in what is signed."""
    return "&".join(f"{quote(name, safe=_SAFE)}={quote(query[name], safe=_SAFE)}" for name in sorted(query))


def _stamp(at: datetime) -> str:
    return f"{at:%Y%m%dT%H%M%SZ}"
