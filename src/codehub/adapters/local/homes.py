"""Homes as directories with an identity, below one root. Refuses a root without its mark, and a volume
other than the one named.

users/.codehub-installation                 the mark (home_mark.py): without it the root is an outage, not an
                                            empty store
users/{user}/workspaces/{id}/home           the home
users/{user}/workspaces/{id}/volume.json    its identity, written last. While a home is put in place it says
                                            just that: such a home, or an empty one without it, was never
                                            completed; any other without it was
users/{user}/workspaces/{id}/staging-*      what is being restored; counts for nobody
users/{user}/workspaces/{id}/trash-*        what is being removed; counts for nobody
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from codehub.adapters.local.directories import flush, lock_directory, report_outages, write_whole
from codehub.adapters.local.home_mark import HomeMark
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.observation import UNTOLD, Volume
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home
from codehub.ports.system import Identity

_IDENTITY = "volume.json"
_INCOMPLETE = {"volume_id": None, "format": 1}
_PRIVATE = 0o700
_KEY = re.compile(r"users/(?P<user>[0-9a-f-]{36})/workspaces/(?P<workspace>[0-9a-f-]{36})/home")
_UNFINISHED = ("staging-", "trash-")

# The user and group that a workspace's home belongs to; None: ours.
OwnerOf = Callable[[UUID], tuple[int, int] | None]


class Homes:
    """Every call blocks: run it in a thread. A change of a workspace's directory holds its lock."""

    def __init__(
        self,
        root: Path,
        *,
        installation: str,
        identity: Identity,
        owner_of: OwnerOf,
        data_dir: Path | None = None,
    ) -> None:
        """`data_dir`: the data directory, unless that is the root."""
        self._root = root
        self._users = root / "users"
        self._identity = identity
        self._owner_of = owner_of
        mark = HomeMark(root, data_dir or root, installation=installation)
        self.prepare = mark.prepare
        self.check = mark.check

    def path(self, home: Home) -> Path:
        match = _KEY.fullmatch(home.home_store_key)
        if match is None or match["workspace"] != str(home.workspace_id):
            raise ActionFailed(Message(Code.NO_LOCAL_HOME, {"path": repr(home.home_store_key)}))
        return self._root / home.home_store_key

    def provision(self, home: Home, replaces: str | None) -> str:
        """Return the volume_id of the complete volume, or of a new and empty one.

        An incomplete volume goes to the trash.
        """
        self.check()
        path = self.path(home)
        with self._report_failures(path), lock_directory(self._root, path.parent):
            volume = _volume(path.parent)
            if volume is not None and volume.volume_id is not None:
                return volume.volume_id
            _refuse_other(path.parent, replaces)
            _remove_identity(path.parent)
            self._discard_path(path)
            self.make_empty(home, path)
            return self._complete(home)

    def adopt(self, home: Home, lost: str) -> str:
        """Give the home without an identity the one that was lost. A second call finds it in place."""
        self.check()
        path = self.path(home)
        with self._report_failures(path), lock_directory(self._root, path.parent):
            volume = _volume(path.parent)
            if volume is None:
                raise ActionFailed(Message(Code.NOTHING_TO_ADOPT), reason=ErrorReason.DATA_LOST)
            if volume.volume_id is None:
                return self._complete(home, volume_id=lost)
            if volume.volume_id != lost:
                raise ActionFailed(Message(Code.HAS_IDENTITY))
            return lost

    def make_empty(self, home: Home, path: Path) -> None:
        """Make an empty home there, for its user alone."""
        path.mkdir(mode=_PRIVATE)
        path.chmod(_PRIVATE)
        if os.geteuid() == 0 and (owner := self._owner_of(home.workspace_id)) is not None:
            os.chown(path, *owner)

    def stage(self, home: Home, replaces: str | None) -> Path:
        """Return a directory beside the home, for one that is to take its place and is not complete yet."""
        self.check()
        parent = self.path(home).parent
        with self._report_failures(parent), lock_directory(self._root, parent):
            _refuse_other(parent, replaces)
            staging = parent / f"staging-{self._identity.new_id()}"
            staging.mkdir(mode=_PRIVATE)
            self.make_empty(home, staging / "home")
            return staging

    def put_in_place(self, home: Home, staging: Path, archive_key: str, replaces: str | None) -> str:
        """Make what was staged, and is on the disk by now, the home.

        What may be replaced goes to the trash.
        """
        self.check()
        path = self.path(home)
        with self._report_failures(path), lock_directory(self._root, path.parent):
            if not (staging / "home").is_dir():
                raise ActionFailed(Message(Code.NEWER_JOB))
            _refuse_other(path.parent, replaces)
            self._discard_path(path)
            # The new home must never have the old identity or none, not even after a power cut.
            write_whole(path.with_name(_IDENTITY), json.dumps(_INCOMPLETE).encode())
            _move(staging / "home", path)
            return self._complete(home, made_from=archive_key)

    def locate(self, home: Home) -> tuple[Path, str | None]:
        """Return the home's path and its volume_id: None if there is no complete volume."""
        self.check()
        path = self.path(home)
        with self._report_failures(path):
            volume = _volume(path.parent)
        return path, None if volume is None else volume.volume_id

    def require(self, home: Home, volume_id: str) -> None:
        """Refuse unless this very volume is there and complete."""
        _path, present_id = self.locate(home)
        if present_id != volume_id:
            raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))

    def completion(self, home: Home) -> Path:
        """Return the file that was written when the home was complete."""
        return self.path(home).with_name(_IDENTITY)

    def find(self, workspace_id: UUID) -> Home | None:
        """Return the home of a workspace whose key is unknown, if there is one."""
        self.check()
        with report_outages(self._users):
            for found_id, directory in self._workspaces():
                if found_id == workspace_id:
                    return Home(workspace_id, str((directory / "home").relative_to(self._root)))
        return None

    def remove(self, home: Home, volume_id: str | None) -> None:
        """Move exactly this volume to the trash, in one step."""
        self.check()
        path = self.path(home)
        if not path.parent.exists():
            return
        with self._report_failures(path), lock_directory(self._root, path.parent):
            volume = _volume(path.parent)
            if volume is not None:
                if volume.name != volume_id:
                    raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))
                self._discard_path(path)
            _remove_identity(path.parent)

    def trash_unfinished(self, home: Home) -> list[Path]:
        """Move unfinished work beside the home to the trash, and return the paths there."""
        self.check()
        parent = self.path(home).parent
        if not parent.exists():
            return []
        with self._report_failures(parent), lock_directory(self._root, parent):
            return [self._to_trash(path) for path in _list_unfinished(parent)]

    def forget_empty(self, directory: Path) -> None:
        """Remove a workspace's directory if nothing is left in it."""
        with suppress(OSError), lock_directory(self._root, directory, create=False):
            directory.rmdir()

    def directory(self, home: Home) -> Path:
        """Return the directory of a workspace: its home, its identity and unfinished work."""
        return self.path(home).parent

    def list_all(self) -> Mapping[UUID, Volume]:
        """Return every volume. Raises BackendUnreachable rather than leave one out."""
        self.check()
        volumes = self.list_unmarked()
        self.check()
        return volumes

    def list_unmarked(self) -> Mapping[UUID, Volume]:
        """Return every volume, whether or not the root has its mark: for the decision whether it is the right
        one.
        """
        volumes: dict[UUID, Volume] = {}
        with report_outages(self._users):
            for workspace_id, parent in self._workspaces():
                if (present := _volume(parent)) is not None:
                    volumes[workspace_id] = present
        return volumes

    def leftovers(self) -> list[tuple[Path, datetime]]:
        """Return what was left unfinished, with the time of its last change."""
        self.check()
        leftovers = []
        with report_outages(self._users):
            for _, parent in self._workspaces():
                for path in _list_unfinished(parent):
                    with suppress(FileNotFoundError):
                        leftovers.append((path, datetime.fromtimestamp(path.lstat().st_mtime, UTC)))
        return leftovers

    def discard_leftover(self, leftover: Path) -> Path | None:
        """Move a leftover to the trash and return its path there, or None if it is gone already."""
        with suppress(FileNotFoundError), lock_directory(self._root, leftover.parent, create=False):
            return self._to_trash(leftover)
        return None

    @contextmanager
    def _report_failures(self, path: Path) -> Iterator[None]:
        """Raise ActionFailed for a PermissionError, if the root is still there and ours: waiting would not
        help.
        """
        with report_outages(path):
            try:
                yield
            except PermissionError as error:
                self.check()
                raise ActionFailed(
                    Message(Code.PATH_UNUSABLE, {"path": str(path), "text": str(error)})
                ) from None

    def _workspaces(self) -> Iterator[tuple[UUID, Path]]:
        for user in _directories(self._users):
            for workspace in _directories(user / "workspaces"):
                with suppress(ValueError):
                    yield UUID(workspace.name), workspace

    def _complete(self, home: Home, *, volume_id: str | None = None, made_from: str | None = None) -> str:
        """Write the identity of the home, a new one unless one is given: from here on the home is
        complete.
        """
        parent = self.path(home).parent
        flush(parent)
        volume_id = volume_id or str(self._identity.new_id())
        identity = {"volume_id": volume_id, "made_from": made_from, "format": 1}
        write_whole(parent / _IDENTITY, json.dumps(identity).encode())
        return volume_id

    def _discard_path(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            self._to_trash(path)

    def _to_trash(self, path: Path) -> Path:
        if path.name.startswith("trash-"):
            return path
        return path.rename(path.with_name(f"trash-{self._identity.new_id()}"))


def _volume(parent: Path) -> Volume | None:
    if not (parent / "home").is_dir():
        return None
    identity = _identity(parent)
    volume_id = identity.get("volume_id")
    if isinstance(volume_id, str):
        made_from = identity.get("made_from")
        return Volume(volume_id, made_from=made_from if isinstance(made_from, str) else None)
    if identity == _INCOMPLETE:
        return Volume(None)
    # Nothing is ever unpacked in place: any other home that holds something was whole.
    return Volume(None, UNTOLD if _has_content(parent / "home") else None)


def _has_content(home: Path) -> bool:
    try:
        with os.scandir(home) as entries:
            return any(entries)
    except FileNotFoundError:
        return False  # removed meanwhile
    except PermissionError:
        return True  # its owner has restricted it, so it had an owner


def _move(source: Path, path: Path) -> None:
    """Move a home to its path and flush its mode. After a kill on the way it has no identity, and is restored
    again.

    A directory that its owner can't write can't be moved by that owner, because its ".." changes.
    """
    mode = stat.S_IMODE(source.stat().st_mode)
    if mode & stat.S_IWUSR:
        source.rename(path)
        return
    source.chmod(mode | stat.S_IRWXU)
    fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    try:
        source.rename(path)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _refuse_other(parent: Path, replaces: str | None) -> None:
    volume = _volume(parent)
    if volume is not None and volume.name not in (None, replaces):
        raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": replaces}))


def _identity(parent: Path) -> Mapping[str, object]:
    """Return the content of volume.json.

    It is written in one step, so an unreadable file counts as a missing one.
    """
    try:
        content = json.loads((parent / _IDENTITY).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remove_identity(parent: Path) -> None:
    with suppress(FileNotFoundError):
        (parent / _IDENTITY).unlink()
        flush(parent)


def _list_unfinished(parent: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return [Path(entry) for entry in os.scandir(parent) if entry.name.startswith(_UNFINISHED)]
    return []


def _directories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []  # removed since its parent was read
