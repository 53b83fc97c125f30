"""What uploads that died have left in an archive store: files of obstore's beside an object, or parts in a
bucket. Refuses to touch others.

Every call blocks: for a thread. What can't be looked at or removed is told, and stops nothing else.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from codehub.adapters.objectstore.store import Objects, remove_empty
from codehub.adapters.objectstore.uploads import NotAnswered, Upload, Uploads
from codehub.ports.archives import ARCHIVE_KEY, WORKSPACE

log = structlog.get_logger()

# LocalStore writes beside the object and renames; this is what a process that died leaves.
_UNFINISHED = re.compile(ARCHIVE_KEY.pattern + r"#\d+")


class Leftovers:
    """Of the store's own prefix alone, and of it only what is named as an archive of ours is."""

    def __init__(self, objects: Objects) -> None:
        self._root = objects.directory
        parts = urlsplit(objects.url)
        self._bucket = parts.netloc if parts.scheme == "s3" else None
        self._prefix = "".join(f"{part}/" for part in parts.path.split("/") if part)

    def names(self) -> list[str]:
        """Return how each is called."""
        if self._root is not None:
            return [str(path.relative_to(self._root)) for path, _ in _files(self._root)]
        return [_name(upload) for upload, _ in self._uploads()]

    def remove(self, older_than: datetime | None, workspace: str = "") -> int:
        """Remove those that did not grow since, all if None, of one workspace if given.

        Return how many went.
        """
        if self._root is not None:
            removals = [
                partial(_remove_file, self._root, *file, older_than) for file in _files(self._root, workspace)
            ]
        else:
            removals = [
                partial(_abort, uploads, upload, older_than) for upload, uploads in self._uploads(workspace)
            ]
        return sum(_try_removal(removal) for removal in removals)

    def _uploads(self, workspace: str = "") -> list[tuple[Upload, Uploads]]:
        uploads = None if self._bucket is None else Uploads.of(self._bucket)
        if uploads is None:
            return []
        try:
            found_uploads = list(uploads.under(self._prefix + workspace))
        except NotAnswered as error:
            # Not every server supports it, and not every key is allowed to.
            log.warning("unfinished_uploads_not_listed", bucket=self._bucket, reason=str(error))
            return []
        return [
            (upload, uploads)
            for upload in found_uploads
            if upload.key.startswith(self._prefix)
            and ARCHIVE_KEY.fullmatch(upload.key.removeprefix(self._prefix))
        ]


def _files(root: Path, workspace: str = "") -> Iterator[tuple[Path, datetime]]:
    """Yield them with their last change.

    Where archives lie is known: whatever else somebody put there is not walked through.
    """
    for workspace_name in [workspace] if workspace else _names(root):
        for operation in _names(root / workspace_name) if WORKSPACE.fullmatch(workspace_name) else ():
            for name in _names(root / workspace_name / operation):
                if _UNFINISHED.fullmatch(f"{workspace_name}/{operation}/{name}"):
                    path = root / workspace_name / operation / name
                    with suppress(FileNotFoundError):
                        yield path, datetime.fromtimestamp(path.lstat().st_mtime, UTC)


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        log.warning("leftovers_not_listed", path=str(directory), reason=str(error))
        return []


def _name(upload: Upload) -> str:
    return f"{upload.key} (unfinished upload {upload.upload_id})"


class _RemovalFailed(Exception):
    """It could not be removed."""


def _try_removal(remove: "partial[bool]") -> bool:
    try:
        return remove()
    except _RemovalFailed as error:
        log.warning("leftover_not_removed", reason=str(error))
        return False


def _remove_file(root: Path, path: Path, changed_at: datetime, older_than: datetime | None) -> bool:
    if older_than is not None and changed_at >= older_than:
        return False
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _RemovalFailed(str(error)) from None
    remove_empty(path.parent, root)
    return True


def _abort(uploads: Uploads, upload: Upload, older_than: datetime | None) -> bool:
    try:
        if older_than is not None and uploads.last_change(upload) >= older_than:
            return False
        uploads.abort(upload.key, upload.upload_id)
    except NotAnswered as error:
        raise _RemovalFailed(f"{_name(upload)}: {error}") from None
    return True
