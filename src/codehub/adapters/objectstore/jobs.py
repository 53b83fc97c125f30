"""Archives that a Job beside the home moves: a key goes in, grants for it come
out; what the Job made of them is looked at before it counts.

In a bucket, by signed requests for that object alone; in a directory, by a file of the Job's own beside it.
"""

import os
import secrets
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from codehub.adapters.objectstore.grants import Grants, PartGrants
from codehub.adapters.objectstore.meta import Content
from codehub.adapters.objectstore.outcome import Archived, Restored, outcome_of, progress_of
from codehub.adapters.objectstore.refusals import as_exception
from codehub.adapters.objectstore.signing import LIFETIME_S_MAX, SIGNATURE, encode_query
from codehub.adapters.objectstore.store import (
    Objects,
    make_directories,
    part_bytes_for,
    part_count_for,
    remove_empty,
)
from codehub.adapters.objectstore.uploads import NotAnswered, Uploads
from codehub.adapters.threads import in_thread
from codehub.core.messages import Code, Message
from codehub.ports.archives import JobGrants, RunJob
from codehub.ports.backends import ActionFailed, EngineFailed
from codehub.ports.storage import Report

log = structlog.get_logger()

JOB_UID = 1000
# By how much the grants outlive the work: a job that is being ended may still read.
_MARGIN_S = 300
# By how much our clock and the store's may differ: by more it would take no request of ours.
_SKEW_S = 900
_MEMORY_BYTES = 512 << 20
_PARTS_IN_MEMORY = 6


class OpenArchive(Protocol):
    """An archive that a Job may write."""

    grants: JobGrants

    async def accept(self, archived: Archived) -> None:
        """Make what the Job wrote the archive, for good: no other Job can replace it any more.

        Refuses if what is there is not what the Job has read back.
        """

    async def abandon(self) -> None:
        """Take the grants back, and what was written by them. What can't be is left to garbage collection."""


class JobArchives:
    """Opens one archive at a time for a Job."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    @asynccontextmanager
    async def open(self, key: str, size: int, time_limit_s: int) -> AsyncIterator[OpenArchive]:
        """Yield an archive to write. `size`: how long it will be at most, about."""
        if self._objects.directory is None:
            archive: OpenArchive = await _OpenObject.begin(self._objects, key, size, time_limit_s)
        else:
            archive = await _OpenFile.begin(self._objects, self._objects.directory, key)
        try:
            yield archive
        finally:
            await archive.abandon()

    async def read_grants(self, key: str, content: Content, time_limit_s: int) -> JobGrants:
        """Return the grants to read a committed archive."""
        directory = self._objects.directory
        if directory is None:
            bucket = _Bucket(self._objects)
            return JobGrants(
                Grants(key, bucket.url("GET", key, time_limit_s), None, content).encode(), _MEMORY_BYTES
            )
        with self._objects.report_failures():
            await in_thread(_give_to_job, directory, directory / key)
        workspace_id, _, place = key.partition("/")
        return JobGrants(Grants(key, place, None, content).encode(), _MEMORY_BYTES, workspace_id)


async def run_archiving(run: RunJob, grants: JobGrants, report: Report) -> Archived:
    """Return what the Job has archived, or raise why it has not."""
    outcome = outcome_of(await _run(run, grants, report))
    if not isinstance(outcome, Archived):
        raise EngineFailed(Message(Code.JOB_SILENT, {"text": repr(outcome)}))
    return outcome


async def run_restoring(run: RunJob, grants: JobGrants, report: Report) -> None:
    outcome = outcome_of(await _run(run, grants, report))
    if not isinstance(outcome, Restored):
        raise EngineFailed(Message(Code.JOB_SILENT, {"text": repr(outcome)}))


async def _run(run: RunJob, grants: JobGrants, report: Report) -> str:
    def on_line(line: str) -> None:
        if (amount := progress_of(line)) is not None:
            report(amount)

    return await run(grants, on_line)


class _Bucket:
    """Signed requests for the objects of a store. Raises ActionFailed without credentials to sign with."""

    def __init__(self, objects: Objects) -> None:
        parts = urlsplit(objects.url)
        self._prefix = "".join(f"{part}/" for part in parts.path.split("/") if part)
        uploads = Uploads.of(parts.netloc)
        if uploads is None:
            raise ActionFailed(Message(Code.STORE_UNSIGNED))
        self.uploads = uploads

    def name(self, key: str) -> str:
        return self._prefix + key

    def url(self, method: str, key: str, time_limit_s: int, **query: str) -> str:
        signer, path = self.uploads.signer, self._path(key)
        at, lifetime_s = _validity(time_limit_s)
        return f"{signer.server}{path}?{encode_query(signer.query(method, path, query, at, lifetime_s))}"

    def parts(self, key: str, upload_id: str, size: int, time_limit_s: int) -> PartGrants:
        """Return what fits into the grants of a Job: all that the parts have in common stands there once."""
        signer, path = self.uploads.signer, self._path(key)
        at, lifetime_s = _validity(time_limit_s)
        part_bytes = part_bytes_for(size)
        queries = [
            signer.query("PUT", path, {"uploadId": upload_id, "partNumber": str(number)}, at, lifetime_s)
            for number in range(1, part_count_for(size, part_bytes) + 1)
        ]
        shared = {name: value for name, value in queries[0].items() if name not in ("partNumber", SIGNATURE)}
        return PartGrants(
            f"{signer.server}{path}?{encode_query(shared)}",
            [query[SIGNATURE] for query in queries],
            part_bytes,
            self.url("POST", key, time_limit_s, uploadId=upload_id),
        )

    def _path(self, key: str) -> str:
        return self.uploads.signer.path(self.uploads.bucket, self.name(key))


class _OpenObject:
    """An upload that is made for a Job."""

    def __init__(
        self, objects: Objects, bucket: _Bucket, key: str, upload_id: str, grants: JobGrants
    ) -> None:
        self.grants = grants
        self._objects = objects
        self._bucket = bucket
        self._key = key
        self._upload_id = upload_id
        self._is_accepted = False

    @classmethod
    async def begin(cls, objects: Objects, key: str, size: int, time_limit_s: int) -> "_OpenObject":
        bucket = _Bucket(objects)
        try:
            upload_id = await in_thread(bucket.uploads.open, bucket.name(key))
        except NotAnswered as error:
            raise as_exception(objects.url, str(error)) from None
        # A kill here leaves an empty upload, which garbage collection aborts.
        parts = await in_thread(bucket.parts, key, upload_id, size, time_limit_s)
        text = Grants(key, bucket.url("GET", key, time_limit_s), parts).encode()
        memory = _MEMORY_BYTES + _PARTS_IN_MEMORY * parts.part_bytes
        return cls(objects, bucket, key, upload_id, JobGrants(text, memory))

    async def accept(self, archived: Archived) -> None:
        # A job that was given up may still run somewhere. Once its upload is gone it
        # can't complete it, so from here on nobody replaces the object.
        try:
            await in_thread(self._abort_all)
        except NotAnswered as error:
            raise as_exception(self._objects.url, str(error)) from None
        stored = await self._objects.head(self._key)
        if stored is None:
            await self._objects.check()
            raise ActionFailed(Message(Code.ARCHIVE_NOT_THERE, {"key": self._key}))
        version = (stored["e_tag"] or "").strip('"')
        if not version or (version, stored["size"]) != (archived.version, archived.content.size):
            raise _not_verified(self._key)
        self._is_accepted = True

    async def abandon(self) -> None:
        if not self._is_accepted:
            try:
                await in_thread(self._bucket.uploads.abort, self._bucket.name(self._key), self._upload_id)
            except NotAnswered as error:
                log.warning("upload_not_aborted", key=self._key, reason=str(error))

    def _abort_all(self) -> None:
        name = self._bucket.name(self._key)
        for upload in list(self._bucket.uploads.under(name)):
            if upload.key == name:
                self._bucket.uploads.abort(name, upload.upload_id)


class _OpenFile:
    """A file of a Job's own, beside the archive's, that garbage collection knows for an unfinished one."""

    def __init__(self, objects: Objects, root: Path, key: str, name: str) -> None:
        workspace_id, _, place = name.partition("/")
        self.grants = JobGrants(Grants(key, place).encode(), _MEMORY_BYTES, workspace_id)
        self._objects = objects
        self._root = root
        self._key = key
        self._path = root / name

    @classmethod
    async def begin(cls, objects: Objects, root: Path, key: str) -> "_OpenFile":
        with objects.report_failures():
            await in_thread(make_directories, root, key)
            await in_thread(_give_to_job, root, (root / key).parent)
        return cls(objects, root, key, f"{key}#{secrets.randbelow(1 << 62)}")

    async def accept(self, archived: Archived) -> None:
        with self._objects.report_failures():
            status = await in_thread(self._path.lstat)
            if not stat.S_ISREG(status.st_mode) or status.st_size != archived.content.size:
                raise _not_verified(self._key)
            await in_thread(self._path.replace, self._root / self._key)

    async def abandon(self) -> None:
        try:
            await in_thread(self._path.unlink, missing_ok=True)
        except OSError as error:
            log.warning("upload_not_removed", path=str(self._path), reason=str(error))
        remove_empty(self._path.parent, self._root)


def _validity(time_limit_s: int) -> tuple[datetime, int]:
    """Return from when on grants are good, by our clock, and for how long: for all of the work by the
    store's, too.
    """
    begins_at = datetime.now(UTC) - timedelta(seconds=_SKEW_S)
    return begins_at, min(2 * _SKEW_S + time_limit_s + _MARGIN_S, LIFETIME_S_MAX)


def _not_verified(key: str) -> ActionFailed:
    """Return why what is there is not committed: it is not what the Job has read back."""
    facts = {"key": key, "problem": Message(Code.CHECKSUM_WRONG)}
    return ActionFailed(Message(Code.ARCHIVE_NOT_AS_WRITTEN, facts))


def _give_to_job(root: Path, path: Path) -> None:
    """Let the Job's user reach what is its workspace's alone, if we may."""
    if os.geteuid() == 0:
        while path != root:
            os.chown(path, JOB_UID, JOB_UID, follow_symlinks=False)
            path = path.parent
