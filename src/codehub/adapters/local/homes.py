"""A root directory goes in, homes with an identity come out of it. Refuses a root without its mark, and a volume it was not asked about.

users/.codehub-installation                       the mark: without it the root is an outage, not an empty store
users/{user}/workspaces/{id}/home                 the home
users/{user}/workspaces/{id}/volume.json          its identity, written last. While a home is put in place it says just that: such a home,
                                                  or an empty one without it, was never completed; any other without it was
users/{user}/workspaces/{id}/staging-*, trash-*   what is being restored or removed; counts for nobody
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

from codehub.adapters.local.directories import flush, locked, reachable, write_whole
from codehub.core.errors import ErrorReason
from codehub.core.observation import UNTOLD, Volume
from codehub.ports.backends import ActionFailed, BackendUnreachable, MarkMissing
from codehub.ports.storage import Home
from codehub.ports.system import Identity

_IDENTITY = "volume.json"
_BEING_MADE = {"volume_id": None, "format": 1}
MARK = ".codehub-installation"
_PRIVATE = 0o700
_KEY = re.compile(r"users/(?P<user>[0-9a-f-]{36})/workspaces/(?P<workspace>[0-9a-f-]{36})/home")
_UNFINISHED = ("staging-", "trash-")

# The user and group that a workspace's home belongs to; None: ours.
OwnerOf = Callable[[UUID], tuple[int, int] | None]


class Homes:
    """Every call blocks: for a thread. What changes a workspace's directory holds its lock, so that two never do it at once."""

    def __init__(self, root: Path, *, installation: str, identity: Identity, owner_of: OwnerOf) -> None:
        self._root = root
        self._users = root / "users"
        self._installation = installation
        self._identity = identity
        self._owner_of = owner_of

    def prepare(self) -> None:
        """Mark the root as this installation's. For the first start alone: afterwards a missing mark is an outage."""
        # Held: several processes may start for the first time at once.
        with reachable(self._users), locked(self._root, self._users):
            if not (self._users / MARK).exists():
                write_whole(self._users / MARK, self._installation.encode())
        self.check()

    def check(self) -> None:
        """Raise BackendUnreachable unless the root is there and ours: an empty mount point must not count as no homes."""
        with reachable(self._users):
            try:
                found = (self._users / MARK).read_text()
            except FileNotFoundError:
                raise MarkMissing(f"The file {self._users.name}/{MARK} in the data directory") from None
        if found.strip() != self._installation:
            raise BackendUnreachable(f"{self._users} belongs to another installation: {found[:100]!r}")

    def path(self, home: Home) -> Path:
        found = _KEY.fullmatch(home.home_store_key)
        if found is None or found["workspace"] != str(home.workspace_id):
            raise ActionFailed(f"{home.home_store_key!r} is not the place of a local home")
        return self._root / home.home_store_key

    def provision(self, home: Home, replaces: str | None) -> str:
        """Return the volume_id of the complete volume, or of a new and empty one. What was half there goes to the trash."""
        self.check()
        path = self.path(home)
        with self._usable(path), locked(self._root, path.parent):
            found = _volume(path.parent)
            if found is not None and found.volume_id is not None:
                return found.volume_id
            _refuse_other(path.parent, replaces)
            _forget(path.parent)
            self._discard(path)
            self.make_empty(home, path)
            return self._complete(home)

    def adopt(self, home: Home, lost: str) -> str:
        """Give the home that lies there without an identity the one that was lost: a second call finds it, and so does the row."""
        self.check()
        path = self.path(home)
        with self._usable(path), locked(self._root, path.parent):
            found = _volume(path.parent)
            if found is None:
                raise ActionFailed("there is no volume to adopt", reason=ErrorReason.DATA_LOST)
            if found.volume_id is None:
                return self._complete(home, volume_id=lost)
            if found.volume_id != lost:
                raise ActionFailed("the volume that is there has an identity: it is not adopted")
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
        with self._usable(parent), locked(self._root, parent):
            _refuse_other(parent, replaces)
            staging = parent / f"staging-{self._identity.new_id()}"
            staging.mkdir(mode=_PRIVATE)
            self.make_empty(home, staging / "home")
            return staging

    def put_in_place(self, home: Home, staging: Path, archive_key: str, replaces: str | None) -> str:
        """Make what was staged, and is on the disk by now, the home. What may be replaced goes to the trash."""
        self.check()
        path = self.path(home)
        with self._usable(path), locked(self._root, path.parent):
            if not (staging / "home").is_dir():
                raise ActionFailed("another restore of this home has begun meanwhile")
            _refuse_other(path.parent, replaces)
            self._discard(path)
            # Never may the old identity stand beside the new home, nor none, not even after a power cut.
            write_whole(path.with_name(_IDENTITY), json.dumps(_BEING_MADE).encode())
            _move(staging / "home", path)
            return self._complete(home, made_from=archive_key)

    def locate(self, home: Home) -> tuple[Path, str | None]:
        """Return where the home is, and which volume lies there: None if there is none that is complete."""
        self.check()
        path = self.path(home)
        with self._usable(path):
            found = _volume(path.parent)
        return path, None if found is None else found.volume_id

    def require(self, home: Home, volume_id: str) -> None:
        """Refuse unless this very volume is there and complete."""
        _path, found = self.locate(home)
        if found != volume_id:
            raise ActionFailed(f"there is no volume {volume_id} of workspace {home.workspace_id}")

    def completion(self, home: Home) -> Path:
        """Return the file that was written when the home was complete."""
        return self.path(home).with_name(_IDENTITY)

    def find(self, workspace_id: UUID) -> Home | None:
        """Return the home of a workspace whose key nobody knows, if there is one."""
        self.check()
        with reachable(self._users):
            for each, place in self._workspaces():
                if each == workspace_id:
                    return Home(workspace_id, str((place / "home").relative_to(self._root)))
        return None

    def remove(self, home: Home, volume_id: str | None) -> None:
        """Take this very volume away in one step. The bytes are in the trash then."""
        self.check()
        path = self.path(home)
        if not path.parent.exists():
            return
        with self._usable(path), locked(self._root, path.parent):
            found = _volume(path.parent)
            if found is not None:
                if found.name != volume_id:
                    raise ActionFailed(f"the volume that is there is not {volume_id}")
                self._discard(path)
            _forget(path.parent)

    def unfinished(self, home: Home) -> list[Path]:
        """Return what lies beside the home and counts for nobody, as trash that no restore can use any more."""
        self.check()
        parent = self.path(home).parent
        if not parent.exists():
            return []
        with self._usable(parent), locked(self._root, parent):
            return [self._to_trash(each) for each in _unfinished(parent)]

    def forget_empty(self, place: Path) -> None:
        """Remove a workspace's directory if nothing is left in it."""
        with suppress(OSError), locked(self._root, place, create=False):
            place.rmdir()

    def directory(self, home: Home) -> Path:
        """Return what is a workspace's own: its home, and what lies beside."""
        return self.path(home).parent

    def list_all(self) -> Mapping[UUID, Volume]:
        """Return every volume. Raises BackendUnreachable rather than leave one out."""
        self.check()
        found = self.list_unmarked()
        self.check()
        return found

    def list_unmarked(self) -> Mapping[UUID, Volume]:
        """Return what there is, whether or not it is the right root: for whoever has to decide that."""
        found: dict[UUID, Volume] = {}
        with reachable(self._users):
            for workspace_id, parent in self._workspaces():
                if (volume := _volume(parent)) is not None:
                    found[workspace_id] = volume
        return found

    def leftovers(self) -> list[tuple[Path, datetime]]:
        """Return what was left unfinished, with the time of its last change."""
        self.check()
        found = []
        with reachable(self._users):
            for _, parent in self._workspaces():
                for each in _unfinished(parent):
                    with suppress(FileNotFoundError):
                        found.append((each, datetime.fromtimestamp(each.lstat().st_mtime, UTC)))
        return found

    def discard_leftover(self, leftover: Path) -> Path | None:
        """Return the trash that a left-over has become, or None if somebody was faster."""
        with suppress(FileNotFoundError), locked(self._root, leftover.parent, create=False):
            return self._to_trash(leftover)
        return None

    @contextmanager
    def _usable(self, place: Path) -> Iterator[None]:
        """Take what is forbidden for a refusal, if the root is still there and ours: only a person can end it, no patience."""
        with reachable(place):
            try:
                yield
            except PermissionError as error:
                self.check()
                raise ActionFailed(f"{place} can't be used: {error}") from None

    def _workspaces(self) -> Iterator[tuple[UUID, Path]]:
        for user in _directories(self._users):
            for workspace in _directories(user / "workspaces"):
                with suppress(ValueError):
                    yield UUID(workspace.name), workspace

    def _complete(self, home: Home, *, volume_id: str | None = None, made_from: str | None = None) -> str:
        """Give the home that is in place its identity, a new one unless it had one: from here on it counts."""
        parent = self.path(home).parent
        flush(parent)
        volume_id = volume_id or str(self._identity.new_id())
        identity = {"volume_id": volume_id, "made_from": made_from, "format": 1}
        write_whole(parent / _IDENTITY, json.dumps(identity).encode())
        return volume_id

    def _discard(self, path: Path) -> None:
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
    if identity == _BEING_MADE:
        return Volume(None)
    # Nothing is ever unpacked in place: any other home that holds something was whole.
    return Volume(None, UNTOLD if _holds_anything(parent / "home") else None)


def _holds_anything(home: Path) -> bool:
    try:
        with os.scandir(home) as entries:
            return any(entries)
    except FileNotFoundError:
        return False  # removed since it was found
    except PermissionError:
        return True  # its owner closed it, so it had one


def _move(staged: Path, path: Path) -> None:
    """Give a home its place and, on the disk, its mode. Whoever dies on the way leaves one without an identity, and it is restored again.

    A directory that its owner can't write can't be moved elsewhere by them, for its ".." changes.
    """
    mode = stat.S_IMODE(staged.stat().st_mode)
    if mode & stat.S_IWUSR:
        staged.rename(path)
        return
    staged.chmod(mode | stat.S_IRWXU)
    handle = os.open(staged, os.O_RDONLY | os.O_DIRECTORY)
    try:
        staged.rename(path)
        os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def _refuse_other(parent: Path, replaces: str | None) -> None:
    found = _volume(parent)
    if found is not None and found.name not in (None, replaces):
        raise ActionFailed(f"the volume that is there is not {replaces}")


def _identity(parent: Path) -> Mapping[str, object]:
    """Return what volume.json says. It is written whole, so what can't be read says as little as one that is not there."""
    try:
        said = json.loads((parent / _IDENTITY).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _forget(parent: Path) -> None:
    with suppress(FileNotFoundError):
        (parent / _IDENTITY).unlink()
        flush(parent)


def _unfinished(parent: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return [Path(each) for each in os.scandir(parent) if each.name.startswith(_UNFINISHED)]
    return []


def _directories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []  # removed since its parent was read
