"""Paths go in, objects come out of the store that a URL names. Refuses a store without this installation's mark: an outage."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from codehub.adapters.threads import in_thread, settled
from codehub.ports.backends import ActionFailed, BackendUnreachable

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

MARK = "codehub-installation"
# S3 takes 10,000 parts, so this allows 80 GB; the four that may be under way are what an upload costs in memory.
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 4
_RANGES_AT_ONCE = 2
# A pool of its own: those who wait for it are threads themselves, and must not take its places.
_FETCHING = ThreadPoolExecutor(max_workers=64, thread_name_prefix="codehub-fetch")
# A file is read in steps that stay in the processor's cache; a server is asked for whole parts, of which it would else read each again and
# again.
_FILE_READ_BYTES = 2 << 20
# Throttling, 5xx and lost connections are tried again, with growing pauses; what lasts longer is an outage.
_RETRIES: "RetryConfig" = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_REFUSED = ("403 Forbidden", "401 Unauthorized", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_FULL = (
    "os error 28",
    "os error 122",
    "No space left",
    "quota exceeded",
    "XMinioStorageFull",
    "507 Insufficient",
)


class WrongStore(BackendUnreachable):
    """The store answers, and will not take us: its name or our credentials are wrong. Waiting does not help."""


class _Stopped(Exception):
    """Ends an upload from inside. Cancelling it from outside would leave its parts behind."""


class Objects:
    """The store is opened when it is first needed, so that an outage at start-up is an outage like any other."""

    def __init__(self, url: str, *, installation: str) -> None:
        self._url = url
        self._installation = installation.encode()
        parts = urlsplit(url)
        self.directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._opened: ObjectStore | None = None

    async def prepare(self) -> None:
        """Mark the store as this installation's. For the first start alone: afterwards a missing mark is an outage."""
        with self._explaining():
            if self.directory is not None:
                await in_thread(self.directory.mkdir, mode=0o700, parents=True, exist_ok=True)
            found = await self.get(MARK)
        if found is None:
            await self.put(MARK, self._installation)
        await self.check()

    async def check(self) -> None:
        """Raise BackendUnreachable unless this is the store of this installation: an empty mount point must not count."""
        found = await self.get(MARK)
        if found is None:
            raise BackendUnreachable(f"{self._url} does not have the file {MARK}: is it mounted?")
        if found.strip() != self._installation:
            raise BackendUnreachable(f"{self._url} belongs to another installation: {found[:100]!r}")

    async def head(self, path: str) -> "ObjectMeta | None":
        with self._explaining():
            try:
                return await obstore.head_async(self._store(), path)
            except FileNotFoundError:
                return None

    async def get(self, path: str) -> bytes | None:
        """Return a small object."""
        with self._explaining():
            try:
                answer = await obstore.get_async(self._store(), path)
                return bytes(await answer.bytes_async())
            except FileNotFoundError as error:
                # A missing bucket looks like a missing object; only the answer to a GET tells.
                if "NoSuchBucket" in str(error):
                    raise WrongStore(
                        f"there is no bucket for {self._url}: make it, or correct CODEHUB_ARCHIVE_URL"
                    ) from None
                return None

    def download(self, path: str) -> Iterator[bytes] | None:
        """Return a large object, part by part. Blocks: for a thread."""
        with self._explaining():
            try:
                size = obstore.head(self._store(), path)["size"]
            except FileNotFoundError:
                return None
        return self._parts(path, size)

    async def put(self, path: str, content: bytes) -> None:
        """Store a small object so that it outlives a power cut."""
        with self._explaining():
            await obstore.put_async(self._store(), path, content, use_multipart=False)
        await self.make_durable(path)

    async def upload(self, path: str, parts: AsyncIterator[bytes]) -> None:
        """Store a large object, all or nothing: if `parts` raises, or the caller is cancelled, nothing of it stays."""
        source = _Source(parts)
        async with aclosing(source.parts()) as wanted:
            sending = asyncio.ensure_future(self._send(path, wanted))
            try:
                await asyncio.shield(sending)
            except asyncio.CancelledError:
                source.stop.set()
                await settled(sending)
                self._remove_directories_of(path)
                raise
            except Exception:
                self._remove_directories_of(path)
                # What the source raised is no fault of the store's.
                if source.failure is not None:
                    raise source.failure from None
                raise

    async def make_durable(self, path: str) -> None:
        """A file that has its name after a power cut must have its content too. Other stores see to that themselves."""
        if self.directory is not None:
            with self._explaining():
                await in_thread(_flush, self.directory, self.directory / path)

    async def delete(self, path: str) -> None:
        with self._explaining(), suppress(FileNotFoundError):
            await obstore.delete_async(self._store(), path)

    async def list_under(self, prefix: str | None = None) -> "Sequence[ObjectMeta]":
        with self._explaining():
            return await obstore.list(self._store(), prefix).collect_async()

    async def _send(self, path: str, parts: AsyncIterator[bytes]) -> None:
        with self._explaining():
            await obstore.put_async(
                self._store(),
                path,
                parts,
                use_multipart=True,
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )

    def _remove_directories_of(self, path: str) -> None:
        if self.directory is not None:
            remove_empty((self.directory / path).parent, self.directory)

    def _parts(self, path: str, size: int) -> Iterator[bytes]:
        # By ranges: obstore's own stream reads a local file in steps of 8 KB, which costs ten times as much.
        step, at_once = (_PART_BYTES, _RANGES_AT_ONCE) if self.directory is None else (_FILE_READ_BYTES, 1)
        coming: deque[Future[bytes]] = deque()
        for start in range(0, size, step):
            coming.append(_FETCHING.submit(self._range, path, start, min(start + step, size)))
            if len(coming) == at_once:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()

    def _range(self, path: str, start: int, end: int) -> bytes:
        with self._explaining():
            part = obstore.get_range(self._store(), path, start=start, end=end)
        return cast("bytes", part)  # a buffer, which whoever hashes and decompresses takes as it is

    def _store(self) -> "ObjectStore":
        if self._opened is None:
            if self.directory is None:
                self._opened = from_url(self._url, client_options=_client_options(), retry_config=_RETRIES)
            else:
                self._opened = LocalStore(self.directory, automatic_cleanup=True)
        return self._opened

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            told = str(error).partition("\n")[0]
            if any(sign in str(error) for sign in _REFUSED):
                raise WrongStore(
                    f"the archive store {self._url} refuses these credentials: check AWS_ACCESS_KEY_ID,"
                    f" AWS_SECRET_ACCESS_KEY, and what they may do ({told[:300]})"
                ) from None
            if any(sign in str(error) for sign in _FULL):
                raise ActionFailed(f"no space left in the archive store {self._url} ({told})") from None
            raise BackendUnreachable(f"the archive store {self._url} can't be used: {told}") from None


class _Source:
    """The parts of an upload. It raises as soon as nobody wants them any more, even if the next is not there yet."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self.stop = asyncio.Event()
        self.failure: Exception | None = None

    async def parts(self) -> AsyncGenerator[bytes, None]:
        stopped = asyncio.ensure_future(self.stop.wait())
        try:
            while True:
                following = asyncio.ensure_future(anext(self._parts, None))
                await asyncio.wait((following, stopped), return_when=asyncio.FIRST_COMPLETED)
                if self.stop.is_set():
                    following.cancel()
                    await settled(following)
                    raise _Stopped  # noqa: TRY301  # remembered below, like what the source raises
                if (part := following.result()) is None:
                    return
                yield part
        except Exception as failure:
            self.failure = failure
            raise
        finally:
            stopped.cancel()


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


def _flush(root: Path, path: Path) -> None:
    """Write a file and the directories that name it to the disk."""
    for each in (path, *path.parents):
        handle = os.open(each, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if each == root:
            return
