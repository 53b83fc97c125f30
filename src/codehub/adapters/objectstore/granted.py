"""Grants go in, the one archive that they are for comes out of its
store, or goes into it. No credentials are at hand.

An outage is one only if it lasts.
"""

import asyncio
import os
import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Protocol
from urllib.parse import urlsplit

from codehub.adapters.objectstore.grants import Grants, PartGrants
from codehub.adapters.objectstore.patience import ask_patiently
from codehub.adapters.objectstore.refusals import as_exception, refusal_text
from codehub.adapters.threads import begin, in_thread, wait_for, wait_until_done
from codehub.core.messages import Code, Message
from codehub.http_client import Answer, Connection, Unreachable
from codehub.ports.archives import LongerThanEstimated
from codehub.ports.backends import ActionFailed, BackendUnreachable

_ANSWER_S_MAX = 60
_PRIVATE = 0o600
_GOOD = frozenset({HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT})
_NOT_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE})
# As many as obstore has under way, for the same reasons (store.py).
_SMALL_PART_BYTES = 8 << 20
_PARTS_AT_ONCE, _LARGE_PARTS_AT_ONCE = 4, 2
_RANGE_BYTES, _RANGES_AT_ONCE = 8 << 20, 2
_FILE_READ_BYTES = 2 << 20
_POOL = ThreadPoolExecutor(max_workers=_RANGES_AT_ONCE, thread_name_prefix="codehub-fetch")
_TOTAL = re.compile(r"bytes \d+-\d+/(\d+)")


class ArchiveGone(ActionFailed):
    """There is no such archive. Only the caller knows whether anything is lost by that."""

    def __init__(self, key: str) -> None:
        super().__init__(Message(Code.ARCHIVE_NOT_THERE, {"key": key}))


class GrantedArchive(Protocol):
    """The one archive that the grants are for."""

    version: str
    """The store's version of the bytes that were read; empty if it has no versions."""

    async def upload(self, parts: AsyncGenerator[bytes, None]) -> None:
        """Store it whole, or nothing of it. Raises LongerThanEstimated."""

    def download(self) -> Iterator[bytes]:
        """Yield it. Blocks: for a thread. Raises ArchiveGone."""


def open_archive(grants: Grants, directory: Path) -> GrantedArchive:
    """`directory`: where that of the archives is mounted, if they are in no bucket."""
    return GrantedObject(grants) if grants.is_in_bucket else GrantedFile(grants, directory)


class GrantedObject:
    """The archive as an object of a bucket."""

    def __init__(self, grants: Grants) -> None:
        self.version = ""
        self._grants = grants
        self._server = urlsplit(grants.place)._replace(path="", query="").geturl()
        self._of_thread = threading.local()

    async def upload(self, parts: AsyncGenerator[bytes, None]) -> None:
        assert self._grants.parts is not None
        etags = await self._put_parts(self._grants.parts, parts)
        await in_thread(self._complete, self._grants.parts.complete_url, etags)

    async def _put_parts(self, grants: PartGrants, parts: AsyncGenerator[bytes, None]) -> Sequence[str]:
        at_once = _PARTS_AT_ONCE if grants.part_bytes <= _SMALL_PART_BYTES else _LARGE_PARTS_AT_ONCE
        etags, number, under_way = list[str](), 0, deque[asyncio.Future[str]]()
        try:
            async for part in _cut(parts, grants.part_bytes):
                if number == len(grants.signatures):
                    raise LongerThanEstimated(number * grants.part_bytes)
                if len(under_way) == at_once:
                    etags.append(await wait_for(under_way.popleft()))
                url = f"{grants.url}&partNumber={number + 1}&X-Amz-Signature={grants.signatures[number]}"
                under_way.append(begin(self._put, url, part))
                number += 1
            while under_way:
                etags.append(await wait_for(under_way.popleft()))
        finally:
            for sending in under_way:
                await wait_until_done(sending)
        return etags

    def _put(self, url: str, part: bytes) -> str:
        answer = self._ask("PUT", url, part)
        if not (etag := answer.headers.get("ETag")):
            raise ActionFailed(
                Message(Code.STORE_REFUSED, {"url": self._server, "text": "no ETag of a part"})
            )
        return str(etag)

    def _complete(self, url: str, etags: Sequence[str]) -> None:
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag, quote=False)}</ETag></Part>"
            for number, etag in enumerate(etags, start=1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        # An upload that is gone was completed, by a request whose
        # answer was lost, or aborted: reading back tells.
        self._ask("POST", url, body, accepted={HTTPStatus.NOT_FOUND})

    def download(self) -> Iterator[bytes]:
        first, total = self._range(0, _RANGE_BYTES)
        yield first
        downloads: deque[Future[tuple[bytes, int]]] = deque()
        for start in range(len(first), total, _RANGE_BYTES):
            downloads.append(_POOL.submit(self._range, start, min(start + _RANGE_BYTES, total)))
            if len(downloads) == _RANGES_AT_ONCE:
                yield downloads.popleft().result()[0]
        while downloads:
            yield downloads.popleft().result()[0]

    def _range(self, start: int, end: int) -> tuple[bytes, int]:
        """Return what is there, and how long the whole is. All of it must be of one version."""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        answer = self._ask("GET", self._grants.place, headers=headers, accepted=_NOT_THERE)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise ArchiveGone(self._grants.key)
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return b"", 0  # shorter than anybody was told; the checksum will say so
        version = str(answer.headers.get("ETag", "")).strip('"')
        if self.version not in ("", version):
            facts = {"key": self._grants.key, "problem": Message(Code.CHECKSUM_WRONG)}
            raise ActionFailed(Message(Code.ARCHIVE_NOT_AS_WRITTEN, facts))
        self.version = version
        total = _TOTAL.fullmatch(str(answer.headers.get("Content-Range", "")))
        return answer.body, int(total[1]) if total else len(answer.body)

    def _ask(
        self,
        method: str,
        url: str,
        content: bytes | None = None,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        accepted: Set[HTTPStatus] = frozenset(),
    ) -> Answer:
        """Return an answer that is good, or whose status is accepted too."""
        target, host = url.removeprefix(self._server), urlsplit(url).netloc

        def ask() -> Answer:
            answer = self._connection().ask(method, target, {"Host": host, **headers}, content)
            # A completion is answered before it is done: 200 may be followed by an error.
            has_failed = method == "POST" and answer.status == HTTPStatus.OK and b"<Error" in answer.body
            return replace(answer, status=HTTPStatus.INTERNAL_SERVER_ERROR) if has_failed else answer

        try:
            answer = ask_patiently(ask)
        except Unreachable as error:
            facts = {"url": self._server, "text": str(error)}
            raise BackendUnreachable(Message(Code.STORE_UNUSABLE, facts)) from None
        if answer.status in _GOOD or answer.status in accepted:
            return answer
        raise self._refusal(answer)

    def _refusal(self, answer: Answer) -> ActionFailed | BackendUnreachable:
        text = refusal_text(answer.status, answer.body)
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            # The next job gets new grants.
            return BackendUnreachable(Message(Code.GRANTS_REFUSED, {"url": self._server, "text": text}))
        return as_exception(self._server, text)

    def _connection(self) -> Connection:
        """Return this thread's connection, which stays open."""
        if not hasattr(self._of_thread, "connection"):
            self._of_thread.connection = Connection(self._server, answer_s_max=_ANSWER_S_MAX)
        connection: Connection = self._of_thread.connection
        return connection


class GrantedFile:
    """The archive as a file below a mounted directory."""

    version = ""

    def __init__(self, grants: Grants, directory: Path) -> None:
        self._grants = grants
        self._path = directory / grants.place

    async def upload(self, parts: AsyncGenerator[bytes, None]) -> None:
        with self._report_failures():
            fd = await in_thread(os.open, self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        try:
            async for part in parts:
                with self._report_failures():
                    await in_thread(_write, fd, part)
            with self._report_failures():
                await in_thread(os.fsync, fd)
        except BaseException:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)

    def download(self) -> Iterator[bytes]:
        with self._report_failures():
            try:
                file = self._path.open("rb", buffering=0)
            except FileNotFoundError:
                raise ArchiveGone(self._grants.key) from None
        with file, self._report_failures():
            while part := file.read(_FILE_READ_BYTES):
                yield part

    @contextmanager
    def _report_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise as_exception(str(self._path.parent), str(error)) from None


def _write(fd: int, part: bytes) -> None:
    rest = memoryview(part)
    while rest:
        rest = rest[os.write(fd, rest) :]


async def _cut(parts: AsyncGenerator[bytes, None], length: int) -> AsyncGenerator[bytes, None]:
    """Yield them in pieces of just this length, the last one excepted."""
    pending, size = list[bytes](), 0
    async for part in parts:
        rest = memoryview(part)
        while size + len(rest) >= length:
            pending.append(bytes(rest[: length - size]))
            rest = rest[length - size :]
            yield b"".join(pending)
            pending, size = [], 0
        if rest:
            pending.append(bytes(rest))
            size += len(rest)
    if pending:
        yield b"".join(pending)
