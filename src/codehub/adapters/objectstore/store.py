"""Paths go in, objects come out of the store that a URL names.

Refuses a store without this installation's mark: an outage.
"""

import asyncio
import math
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from codehub.adapters.objectstore.refusals import WrongStore, as_exception
from codehub.adapters.threads import in_thread, wait_until_done
from codehub.core.messages import Code, Message
from codehub.ports.archives import WORKSPACE, LongerThanEstimated
from codehub.ports.backends import BackendUnreachable

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

MARK = "codehub-installation"
# The four parts that may be under way, and the one that fills, are what an upload costs in memory.
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 4
# S3 takes no more. An archive that may be longer than 64 GB has larger parts, two at once, and costs 375 MB
# of memory per TB.
PARTS_MAX = 10_000
_LARGE_PARTS_AT_ONCE = 2
# By how much a home may turn out larger than it was taken for.
_MARGIN = 1.25
_RANGES_AT_ONCE = 2
# What an archive holds is its owner's alone, whatever the umask is and wherever the operator lets archives
# lie.
_PRIVATE, _OTHERS = 0o700, 0o077
# A pool of its own: those who wait for it are threads themselves, and must not take its places.
_POOL = ThreadPoolExecutor(max_workers=64, thread_name_prefix="codehub-fetch")
# A file is read in steps that stay in the processor's cache; a server is asked for whole parts, of which it
# would else read each again and again.
_FILE_READ_BYTES = 2 << 20
# Throttling, 5xx and lost connections are tried again, with growing pauses; what lasts longer is an outage.
RETRIES: "RetryConfig" = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}


class _Stopped(Exception):
    """Ends an upload from inside. Cancelling it from outside would leave its parts behind."""


class Objects:
    """The objects of one store, opened at its first use: an outage at start-up is an ordinary one."""

    def __init__(self, url: str, *, installation: str) -> None:
        self.url = url
        self._installation = installation.encode()
        parts = urlsplit(url)
        self.directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._open_store: ObjectStore | None = None

    async def prepare(self) -> None:
        """Mark the store as this installation's.

        For the first start alone: afterwards a missing mark is an outage.
        """
        with self.report_failures():
            if self.directory is not None:
                await in_thread(self.directory.mkdir, mode=0o700, parents=True, exist_ok=True)
            mark = await self.get(MARK)
        if mark is None:
            await self.put(MARK, self._installation)
        await self.check()

    async def restrict_access(self) -> None:
        """Remove the access of others that an earlier codehub allowed. The root directory keeps its mode."""
        if self.directory is not None:
            with self.report_failures():
                await in_thread(_restrict_all, self.directory)

    async def check(self) -> None:
        """Raise BackendUnreachable unless the store has this installation's mark."""
        mark = await self.get(MARK)
        if mark is None:
            raise BackendUnreachable(Message(Code.STORE_UNMARKED, {"place": self.url, "mark": MARK}))
        if mark.strip() != self._installation:
            raise BackendUnreachable(
                Message(Code.OTHER_INSTALLATION, {"place": self.url, "mark": repr(mark[:100])})
            )

    async def head(self, path: str) -> "ObjectMeta | None":
        with self.report_failures():
            try:
                return await obstore.head_async(self._store(), path)
            except FileNotFoundError:
                return None

    async def get(self, path: str) -> bytes | None:
        """Return a small object."""
        with self.report_failures():
            try:
                answer = await obstore.get_async(self._store(), path)
                return bytes(await answer.bytes_async())
            except FileNotFoundError as error:
                # A missing bucket looks like a missing object; only the answer to a GET tells.
                if "NoSuchBucket" in str(error):
                    raise WrongStore(Message(Code.STORE_WITHOUT_BUCKET, {"url": self.url})) from None
                return None

    def download(self, path: str) -> Iterator[bytes] | None:
        """Return a large object, part by part. Blocks: run it in a thread."""
        with self.report_failures():
            try:
                size = obstore.head(self._store(), path)["size"]
            except FileNotFoundError:
                return None
        return self._parts(path, size)

    async def put(self, path: str, content: bytes) -> None:
        """Store a small object so that it outlives a power cut."""
        with self.report_failures():
            await self._make_directories_of(path)
            await obstore.put_async(self._store(), path, content, use_multipart=False)
        await self.make_durable(path)

    async def renew(self, path: str, content: bytes) -> None:
        """Make a small object durable by writing it again: a flush after a failed one may succeed wrongly."""
        if self.directory is not None:
            await self.put(path, content)

    async def upload(self, path: str, parts: AsyncIterator[bytes], size: Callable[[], int]) -> None:
        """Store a large object, all or nothing: if `parts` raises, or the caller is cancelled, nothing of it
        stays.

        `size`: how long it will be at most, about, asked when the first of `parts` has come. Raises
        LongerThanEstimated.
        """
        source = _Source(parts)
        async with aclosing(source.parts()) as all_parts:
            upload = asyncio.ensure_future(self._send(path, source, all_parts, size))
            try:
                await asyncio.shield(upload)
            except asyncio.CancelledError:
                source.stop.set()
                await wait_until_done(upload)
                self._remove_directories_of(path)
                raise
            except Exception:
                self._remove_directories_of(path)
                # What the source raised is no fault of the store's.
                if source.failure is not None:
                    raise source.failure from None
                raise

    async def make_durable(self, path: str) -> None:
        """Flush a file and its directories. Other stores are durable by themselves."""
        if self.directory is not None:
            with self.report_failures():
                await in_thread(flush, self.directory, self.directory / path)

    async def delete(self, path: str) -> None:
        with self.report_failures(), suppress(FileNotFoundError):
            await obstore.delete_async(self._store(), path)

    async def list_under(self, prefix: str | None = None) -> "Sequence[ObjectMeta]":
        with self.report_failures():
            return await obstore.list(self._store(), prefix).collect_async()

    async def _send(
        self, path: str, source: "_Source", parts: AsyncIterator[bytes], size: Callable[[], int]
    ) -> None:
        first = await anext(parts, b"")
        part_bytes = _PART_BYTES
        if self.directory is None:
            part_bytes = part_bytes_for(size())
            source.bytes_max = part_bytes * PARTS_MAX
        at_once = _PARTS_AT_ONCE if part_bytes == _PART_BYTES else _LARGE_PARTS_AT_ONCE
        with self.report_failures():
            await self._make_directories_of(path)
            async with aclosing(_prepend(first, parts)) as all_parts:
                await obstore.put_async(
                    self._store(),
                    path,
                    all_parts,
                    use_multipart=True,
                    chunk_size=part_bytes,
                    max_concurrency=at_once,
                )

    async def _make_directories_of(self, path: str) -> None:
        """Make them before obstore does, which would let others in while an upload lasts."""
        if self.directory is not None:
            await in_thread(make_directories, self.directory, path)

    def _remove_directories_of(self, path: str) -> None:
        if self.directory is not None:
            remove_empty((self.directory / path).parent, self.directory)

    def _parts(self, path: str, size: int) -> Iterator[bytes]:
        # By ranges: obstore's own stream reads a local file in steps of 8 KB, which costs ten times as much.
        step, at_once = (_PART_BYTES, _RANGES_AT_ONCE) if self.directory is None else (_FILE_READ_BYTES, 1)
        downloads: deque[Future[bytes]] = deque()
        for start in range(0, size, step):
            downloads.append(_POOL.submit(self._range, path, start, min(start + step, size)))
            if len(downloads) == at_once:
                yield downloads.popleft().result()
        while downloads:
            yield downloads.popleft().result()

    def _range(self, path: str, start: int, end: int) -> bytes:
        with self.report_failures():
            part = obstore.get_range(self._store(), path, start=start, end=end)
        return cast("bytes", part)  # a buffer, which whoever hashes and decompresses takes as it is

    def _store(self) -> "ObjectStore":
        if self._open_store is None:
            if self.directory is None:
                self._open_store = from_url(self.url, client_options=_client_options(), retry_config=RETRIES)
            else:
                self._open_store = LocalStore(self.directory, automatic_cleanup=True)
        return self._open_store

    @contextmanager
    def report_failures(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise as_exception(self.url, str(error)) from None


class _Source:
    """The parts of an upload. Raises when the upload is stopped, even while it waits for the next part, and
    when there are too many bytes: the size of the parts can't be changed once it has begun.
    """

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self.stop = asyncio.Event()
        self.failure: Exception | None = None
        self.bytes_max: int | None = None

    async def parts(self) -> AsyncGenerator[bytes, None]:
        stop_signal = asyncio.ensure_future(self.stop.wait())
        sent = 0
        try:
            while True:
                next_part = asyncio.ensure_future(anext(self._parts, None))
                await asyncio.wait((next_part, stop_signal), return_when=asyncio.FIRST_COMPLETED)
                if self.stop.is_set():
                    next_part.cancel()
                    await wait_until_done(next_part)
                    raise _Stopped  # noqa: TRY301  # remembered below, like what the source raises
                if (part := next_part.result()) is None:
                    return
                sent += len(part)
                if self.bytes_max is not None and sent > self.bytes_max:
                    raise LongerThanEstimated(sent)  # noqa: TRY301  # likewise
                yield part
        except Exception as error:
            self.failure = error
            raise
        finally:
            stop_signal.cancel()


async def _prepend(first: bytes, parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for part in parts:
        yield part


def part_bytes_for(size: int) -> int:
    """Return the size of parts, so that an object of about this size has at most PARTS_MAX of them."""
    return max(_PART_BYTES, math.ceil(size * _MARGIN / PARTS_MAX))


def part_count_for(size: int, part_bytes: int) -> int:
    """Return how many parts of this size an object of about that size has at most."""
    return min(PARTS_MAX, math.ceil(size * _MARGIN / part_bytes) + 1)


def _client_options() -> "ClientConfig":
    """A server of one's own often speaks plain HTTP, and is named as such."""
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {
        "allow_http": is_plain,
        "connect_timeout": timedelta(seconds=5),
        "timeout": timedelta(seconds=120),
    }


def remove_empty(directory: Path, root: Path) -> None:
    """Remove the directories below the root that nothing is left in, from here upwards."""
    with suppress(OSError):
        while directory != root:
            directory.rmdir()
            directory = directory.parent


def make_directories(root: Path, path: str) -> None:
    for directory in reversed(Path(path).parents[:-1]):
        (root / directory).mkdir(mode=_PRIVATE, exist_ok=True)


def _restrict_all(root: Path) -> None:
    if not root.stat().st_mode & _OTHERS:
        return
    for directory in root.iterdir():
        if WORKSPACE.fullmatch(directory.name) and directory.is_dir() and not directory.is_symlink():
            _restrict(directory)


def _restrict(path: Path) -> None:
    """Let nobody else in. Some network disks know no modes, which is no reason to have no archives there."""
    mode = path.stat().st_mode
    if mode & _OTHERS:
        with suppress(OSError):
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def flush(root: Path, path: Path) -> None:
    """Write a file and the directories that name it to the disk, closed to others."""
    for directory in (path, *path.parents):
        fd = os.open(directory, os.O_RDONLY)
        try:
            if directory != root:
                _restrict(directory)
            os.fsync(fd)
        finally:
            os.close(fd)
        if directory == root:
            return
