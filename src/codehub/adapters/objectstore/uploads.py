"""Unfinished uploads of an S3 store: a prefix goes in, those below it come out, and can be aborted. obstore has no call for that.

Signed with the credentials in the environment; without them (a machine's own role) it sees none, and a rule of the bucket has to remove them.
"""

import hashlib
import hmac
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

from codehub.http_client import Answer, Connection, Unreachable

_TIMEOUT_S = 30
_OK, _NO_CONTENT, _NOT_FOUND = 200, 204, 404
_EMPTY = hashlib.sha256(b"").hexdigest()
_REFUSAL_MAX = 300
_SAFE = "-_.~"


class NotAnswered(Exception):
    """The store did not answer, or refused. It says why."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One that was begun, and neither completed nor aborted."""

    key: str
    upload_id: str
    begun_at: datetime


@dataclass(frozen=True, slots=True)
class Uploads:
    """Every call blocks: for a thread. Raises NotAnswered."""

    bucket: str
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    token: str | None

    @classmethod
    def of(cls, bucket: str, environment: Mapping[str, str] = os.environ) -> "Uploads | None":
        """Return those of a bucket, or None if there are no credentials to ask with."""
        access_key, secret_key = (
            environment.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        )
        if not access_key or not secret_key:
            return None
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
        endpoint = environment.get("AWS_ENDPOINT_URL") or f"https://s3.{region}.amazonaws.com"
        token = environment.get("AWS_SESSION_TOKEN")
        return cls(bucket, endpoint.rstrip("/"), region, access_key, secret_key, token)

    def under(self, prefix: str) -> Iterator[Upload]:
        """Yield those whose key begins so."""
        query = {"uploads": "", "prefix": prefix}
        while True:
            answer = self._asked("GET", "", query)
            for each in _all(answer, "Upload"):
                yield Upload(_text(each, "Key"), _text(each, "UploadId"), _moment(_text(each, "Initiated")))
            if _text(answer, "IsTruncated") != "true":
                return
            query |= {
                "key-marker": _text(answer, "NextKeyMarker"),
                "upload-id-marker": _text(answer, "NextUploadIdMarker"),
            }

    def last_change(self, upload: Upload) -> datetime:
        """Return when the last part came. One of a large home may go on for hours."""
        latest, query = upload.begun_at, {"uploadId": upload.upload_id}
        while True:
            answer = self._asked("GET", upload.key, query)
            for each in _all(answer, "Part"):
                latest = max(latest, _moment(_text(each, "LastModified")))
            if _text(answer, "IsTruncated") != "true":
                return latest
            query["part-number-marker"] = _text(answer, "NextPartNumberMarker")

    def abort(self, upload: Upload) -> None:
        """Abort it. One that is gone is aborted."""
        answer = self._ask("DELETE", upload.key, {"uploadId": upload.upload_id})
        if answer.status not in (_OK, _NO_CONTENT, _NOT_FOUND):
            raise NotAnswered(_refusal(answer))

    def _asked(self, method: str, key: str, query: Mapping[str, str]) -> ET.Element:
        answer = self._ask(method, key, query)
        if answer.status != _OK:
            raise NotAnswered(_refusal(answer))
        try:
            return ET.fromstring(answer.body)  # noqa: S314  # of the operator's own store; expat bounds what it may become
        except ET.ParseError as error:
            raise NotAnswered(f"what it answers can't be read: {error}") from None

    def _ask(self, method: str, key: str, query: Mapping[str, str]) -> Answer:
        parts = urlsplit(self.endpoint)
        path = quote(f"{parts.path}/{self.bucket}" + (f"/{key}" if key else ""), safe=f"/{_SAFE}")
        search = "&".join(
            f"{quote(name, safe=_SAFE)}={quote(query[name], safe=_SAFE)}" for name in sorted(query)
        )
        connection = Connection(f"{parts.scheme}://{parts.netloc}", answer_s_max=_TIMEOUT_S)
        try:
            headers = self._signed(method, parts.netloc, path, search)
            return connection.ask(method, f"{path}?{search}", headers)
        except Unreachable as error:
            raise NotAnswered(str(error)) from None
        finally:
            connection.close()

    def _signed(self, method: str, host: str, path: str, search: str) -> dict[str, str]:
        """Return the headers of a request without a body, with a signature of version 4."""
        now = datetime.now(UTC)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": stamp}
        if self.token:
            headers["x-amz-security-token"] = self.token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = "\n".join((method, path, search, lines, names, _EMPTY))
        scope = f"{day}/{self.region}/s3/aws4_request"
        text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
        secret = f"AWS4{self.secret_key}".encode()
        for part in (day, self.region, "s3", "aws4_request"):
            secret = hmac.digest(secret, part.encode(), "sha256")
        signature = hmac.digest(secret, text.encode(), "sha256").hex()
        credential = f"Credential={self.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        return headers | {"authorization": f"AWS4-HMAC-SHA256 {credential}"}


def _all(answer: ET.Element, name: str) -> Iterator[ET.Element]:
    """Yield what is so named. Servers differ in whether they name a namespace."""
    return answer.iterfind(f"{{*}}{name}")


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise NotAnswered(f"it names a time that can't be read: {text[:50]!r}") from None


def _refusal(answer: Answer) -> str:
    return f"{answer.status} {answer.body[:_REFUSAL_MAX].decode(errors='backslashreplace')}"
