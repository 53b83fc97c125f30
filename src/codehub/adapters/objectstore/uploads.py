"""Unfinished uploads of an S3 store: a prefix goes in, those below it come out, and can
be aborted; a new one can be opened. obstore has no calls for that.

Signed with the credentials in the environment; without them (a machine's own
role) it sees none, and a rule of the bucket has to remove them.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from codehub.adapters.objectstore.patience import ask_patiently
from codehub.adapters.objectstore.refusals import refusal_text
from codehub.adapters.objectstore.signing import Signer, encode_query
from codehub.http_client import Answer, Connection, Unreachable

_TIMEOUT_S = 30
_OK, _NO_CONTENT, _NOT_FOUND = 200, 204, 404


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
    signer: Signer

    @classmethod
    def of(cls, bucket: str, environment: Mapping[str, str] = os.environ) -> "Uploads | None":
        """Return those of a bucket, or None if there are no credentials to ask with."""
        signer = Signer.of(environment)
        return None if signer is None else cls(bucket, signer)

    def open(self, key: str) -> str:
        """Begin an upload, and return its id."""
        upload_id = _text(self._request("POST", key, {"uploads": ""}), "UploadId")
        if not upload_id:
            raise NotAnswered("it began an upload and named no id")
        return upload_id

    def under(self, prefix: str) -> Iterator[Upload]:
        """Yield those whose key begins so."""
        query = {"uploads": "", "prefix": prefix}
        while True:
            answer = self._request("GET", "", query)
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
            answer = self._request("GET", upload.key, query)
            for each in _all(answer, "Part"):
                latest = max(latest, _moment(_text(each, "LastModified")))
            if _text(answer, "IsTruncated") != "true":
                return latest
            query["part-number-marker"] = _text(answer, "NextPartNumberMarker")

    def abort(self, key: str, upload_id: str) -> None:
        """Abort it. One that is gone is aborted."""
        answer = self._ask("DELETE", key, {"uploadId": upload_id})
        if answer.status not in (_OK, _NO_CONTENT, _NOT_FOUND):
            raise NotAnswered(refusal_text(answer.status, answer.body))

    def _request(self, method: str, key: str, query: Mapping[str, str]) -> ET.Element:
        answer = self._ask(method, key, query)
        if answer.status != _OK:
            raise NotAnswered(refusal_text(answer.status, answer.body))
        try:
            return ET.fromstring(answer.body)  # noqa: S314  # of the operator's own store; expat bounds what it may become
        except ET.ParseError as error:
            raise NotAnswered(f"what it answers can't be read: {error}") from None

    def _ask(self, method: str, key: str, query: Mapping[str, str]) -> Answer:
        path = self.signer.path(self.bucket, *([key] if key else []))
        connection = Connection(self.signer.server, answer_s_max=_TIMEOUT_S)

        def ask() -> Answer:
            headers = self.signer.headers(method, path, query, datetime.now(UTC))
            return connection.ask(method, f"{path}?{encode_query(query)}", headers)

        try:
            return ask_patiently(ask)
        except Unreachable as error:
            raise NotAnswered(str(error)) from None
        finally:
            connection.close()


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
